// Times whole training steps of the models that train_step_pytorch.py times in PyTorch: same model,
// batch and threads. One JSON line a model.
//
//   train_step [mlp lenet resnet18 gpt gpt2-124m] [--seconds 5] [--amp O2] [--dtype bf16]
//   [--rounds]
//              [--ops]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "in_memory.h"
#include "openclaw/core/clock.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/partitioner/costs.h"
#include "openclaw/runtime/data/synthetic.h"
#include "openclaw/runtime/pipeline.h"

namespace oc {
namespace {

struct Case {
  StatusOr<Graph> model;
  std::unique_ptr<Dataset> data;
  HybridOptimizer optimizer;
  int64_t batch;
};

StatusOr<Case> MakeCase(const std::string& name) {
  const HybridOptimizer sgd(Sgd{.lr = 1e-3, .momentum = 0.9});
  const HybridOptimizer adamw(AdamW{.lr = 1e-4, .weight_decay = 0.1}, {.clip_norm = 1.0});
  const auto images = [](int64_t side, int64_t channels) {
    return MakeSyntheticImages({.size = 256, .height = side, .width = side, .channels = channels});
  };
  const auto tokens = [](int64_t context, int64_t vocabulary) {
    return MakeSyntheticTokens({.size = 64, .context = context, .vocabulary = vocabulary});
  };
  if (name == "mlp") {
    return Case{models::Mlp({.hidden = {1024, 1024}}), images(28, 1), sgd, 128};
  }
  if (name == "lenet") return Case{models::LeNet({}), images(28, 1), sgd, 128};
  if (name == "resnet18") {
    return Case{models::ResNet({.input = {32, 32, 3}, .depth = 18, .classes = 10, .stem = "small"}),
                images(32, 3), sgd, 32};
  }
  if (name == "gpt") {
    return Case{
        models::Gpt2({.layers = 4, .width = 256, .heads = 4, .context = 256, .vocabulary = 256}),
        tokens(256, 256), adamw, 8};
  }
  if (name == "gpt2-124m") {
    return Case{models::Gpt2({.context = 64, .vocabulary = 50304}), tokens(64, 50304), adamw, 4};
  }
  return InvalidArgument("unknown model ", name,
                         "; there are mlp, lenet, resnet18, gpt, gpt2-124m");
}

// Runs steps for `seconds` (six at least) and prints their median.
Status Time(const std::string& name, const PrecisionConfig& precision, ElasticPipeline& pipeline,
            Batches::Iterator& batch, double seconds) {
  std::vector<double> times;
  const double begin = NowSeconds();
  while (times.size() < 6 || NowSeconds() - begin < seconds) {
    OC_ASSIGN_OR_RETURN(const StepResult step, pipeline.Step(*batch));
    ++batch;
    times.push_back(step.seconds);
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  const double median = times[times.size() / 2];
  std::printf(
      "{\"model\": \"%s\", \"framework\": \"openclaw\", \"amp_level\": \"%s\", \"ms\": %.3f, "
      "\"gflops\": %.1f, "
      "\"share_of_peak\": %.3f, \"predicted_ms\": %.3f}\n",
      name.c_str(), Name(*precision.amp_level), median * 1e3, pipeline.step_flops() / median * 1e-9,
      pipeline.step_flops() / median / pipeline.peak_flops(),
      pipeline.plan().predicted_step_seconds * 1e3);
  std::fflush(stdout);
  return OkStatus();
}

// What the profile says of each op of the step, most expensive first.
void PrintOps(const ElasticPipeline& pipeline) {
  std::map<std::string, std::pair<int, double>> ops;
  double total = 0;
  for (const Graph* graph : {&pipeline.joint(), &pipeline.update()}) {
    for (const Node& node : graph->nodes) {
      const CostRequest request =
          RequestOf(*graph, node, 0, pipeline.cluster().spec().vcus[0].kind);
      const CostEntry* entry = pipeline.costs().Find(request.key);
      if (entry == nullptr) continue;
      auto& [count, seconds] = ops[request.key.substr(0, request.key.rfind(" on "))];
      ++count;
      seconds += entry->seconds;
      total += entry->seconds;
    }
  }
  std::vector<std::pair<std::string, std::pair<int, double>>> sorted(ops.begin(), ops.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.second > b.second.second; });
  for (const auto& [key, sum] : sorted) {
    std::printf("%8.3f ms %5.1f %% %4d x %s\n", sum.second * 1e3, 100 * sum.second / total,
                sum.first, key.c_str());
  }
}

// Where `rounds` is set, each line read from the standard input is one more measurement: two
// programs can take turns on a machine whose speed drifts (compare.py).
Status Run(const std::string& name, const PrecisionConfig& precision, double seconds, bool rounds,
           bool ops) {
  OC_ASSIGN_OR_RETURN(Case c, MakeCase(name));
  OC_RETURN_IF_ERROR(c.model.status());
  OC_ASSIGN_OR_RETURN(Cluster cluster, Cluster::Discover({.vcus = 1}));
  const InMemory data(*c.data);
  OC_ASSIGN_OR_RETURN(auto pipeline, ElasticPipeline::Create(*c.model, cluster, c.optimizer,
                                                             {.micro_batch = c.batch,
                                                              .global_batch = c.batch,
                                                              .recompute = "none",
                                                              .amp_level = precision.amp_level,
                                                              .half = precision.dtype,
                                                              .profile_seconds = 0.5}));
  if (ops) PrintOps(*pipeline);
  OC_ASSIGN_OR_RETURN(const Batches batches, pipeline->UseData(data, 1 << 20));
  Batches::Iterator batch = batches.begin();
  for (int i = 0; i < 4; ++i, ++batch) OC_RETURN_IF_ERROR(pipeline->Step(*batch).status());
  if (!rounds) {
    OC_RETURN_IF_ERROR(Time(name, precision, *pipeline, batch, seconds));
  } else {
    std::printf("ready\n");
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      OC_RETURN_IF_ERROR(Time(name, precision, *pipeline, batch, seconds));
    }
  }
  pipeline.reset();
  return cluster.Leave(30);
}

}  // namespace
}  // namespace oc

int main(int argc, char** argv) {
  std::vector<std::string> names;
  double seconds = 5;
  oc::PrecisionConfig precision;
  bool rounds = false, ops = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else if (std::strcmp(argv[i], "--amp") == 0 && i + 1 < argc) {
      const std::string wanted = argv[++i];
      for (oc::AmpLevel level : {oc::AmpLevel::kO1, oc::AmpLevel::kO2, oc::AmpLevel::kO3}) {
        if (wanted == oc::Name(level)) precision.amp_level = level;
      }
    } else if (std::strcmp(argv[i], "--dtype") == 0 && i + 1 < argc) {
      if (std::strcmp(argv[++i], "f16") == 0) precision.dtype = oc::DType::kF16;
    } else if (std::strcmp(argv[i], "--rounds") == 0) {
      rounds = true;
    } else if (std::strcmp(argv[i], "--ops") == 0) {
      ops = true;
    } else {
      names.push_back(argv[i]);
    }
  }
  if (names.empty()) names = {"mlp", "lenet", "resnet18", "gpt", "gpt2-124m"};
  for (const std::string& name : names) {
    const oc::Status status = oc::Run(name, precision, seconds, rounds, ops);
    if (!status.ok()) {
      std::fprintf(stderr, "train_step %s: %s\n", name.c_str(), status.ToString().c_str());
      return 1;
    }
  }
  return 0;
}

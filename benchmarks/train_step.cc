// Times whole training steps of the models that train_step_pytorch.py times in PyTorch: same model,
// batch and threads. One JSON line a model.
//
//   train_step [mlp lenet resnet18 gpt gpt2-124m gpt2-124m-1k gpt2-350m-1k] [--seconds 5]
//              [--amp O2] [--dtype bf16] [--device LEAF] [--batch N] [--no-capture] [--rounds]
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
  if (name == "gpt2-124m-1k") {
    return Case{models::Gpt2({.context = 1024, .vocabulary = 50304}), tokens(1024, 50304), adamw,
                64};
  }
  if (name == "gpt2-350m-1k") {
    return Case{
        models::Gpt2(
            {.layers = 24, .width = 1024, .heads = 16, .context = 1024, .vocabulary = 50304}),
        tokens(1024, 50304), adamw, 32};
  }
  return InvalidArgument("unknown model ", name, "; there are mlp, lenet, resnet18, gpt, ",
                         "gpt2-124m, gpt2-124m-1k, gpt2-350m-1k");
}

// Runs steps for `seconds` (six at least) and prints their median.
Status Time(const std::string& name, const PrecisionConfig& precision, ElasticPipeline& pipeline,
            Batches::Iterator& batch, double seconds) {
  std::vector<double> times;
  const double begin = NowSeconds();
  double units = 0;  // tokens or samples a step
  while (times.size() < 6 || NowSeconds() - begin < seconds) {
    OC_ASSIGN_OR_RETURN(const StepResult step, pipeline.Step(*batch));
    ++batch;
    times.push_back(step.seconds);
    units = step.metrics.at("loss_count");
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  const double median = times[times.size() / 2];
  std::printf(
      "{\"model\": \"%s\", \"framework\": \"openclaw\", \"amp_level\": \"%s\", \"ms\": %.3f, "
      "\"per_second\": %.0f, \"launches\": %lld, \"gflops\": %.1f, "
      "\"share_of_peak\": %.3f, \"predicted_ms\": %.3f}\n",
      name.c_str(), Name(precision.amp_level), median * 1e3, units / median,
      static_cast<long long>(pipeline.executor().capture(0).launches),
      pipeline.step_flops() / median * 1e-9, pipeline.step_flops() / median / pipeline.peak_flops(),
      pipeline.plan().predicted_step_seconds * 1e3);
  std::fflush(stdout);
  return OkStatus();
}

// What the profile says of each op of the step, most expensive first, beside the bytes that it must
// move and the operations that it must do.
Status PrintOps(const ElasticPipeline& pipeline) {
  struct Sum {
    int calls = 0;
    double seconds = 0, bytes = 0, flops = 0;
  };
  std::map<std::string, Sum> ops;
  Sum total;
  const VcuProgram& program = pipeline.program().vcus[0];
  const std::string& kind = pipeline.cluster().spec().vcus[0].kind;
  for (const Command& c : program.commands) {
    if (c.kind != CommandKind::kCompute || program.segments[c.segment].on_host) continue;
    for (const Call& call : program.segments[c.segment].calls) {
      OC_ASSIGN_OR_RETURN(const CostEntry entry,
                          CostOf({call.def, call.attrs, call.input_types, call.accumulate}, kind,
                                 pipeline.costs()));
      const OpCost work = DefaultCost(*call.def, {call.input_types, call.attrs}, call.output_types);
      // Lists of tensors are told by their number.
      const std::string key =
          call.input_types.size() > 16
              ? absl::StrCat(call.def->name, " of ", call.input_types.size(), " operands")
              : call.cost_key;
      for (Sum* sum : {&ops[key], &total}) {
        ++sum->calls;
        sum->seconds += entry.seconds;
        sum->bytes += work.bytes;
        sum->flops += work.flops;
      }
    }
  }
  std::vector<std::pair<std::string, Sum>> sorted(ops.begin(), ops.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  sorted.emplace_back("in all", total);
  for (const auto& [key, sum] : sorted) {
    std::printf("%8.3f ms %5.1f %% %4d x %9.1f MB %8.1f GB/s %8.1f GFLOP/s  %s\n",
                sum.seconds * 1e3, 100 * sum.seconds / total.seconds, sum.calls, sum.bytes * 1e-6,
                sum.bytes / sum.seconds * 1e-9, sum.flops / sum.seconds * 1e-9, key.c_str());
  }
  return OkStatus();
}

struct Options {
  PrecisionConfig precision;
  double seconds = 5;
  // Each line read from the standard input is one more measurement: two programs can take turns on
  // a machine whose speed drifts (compare.py).
  bool rounds = false;
  bool ops = false;
  bool capture = true;
  std::string device;  // a leaf, else what is found
  int64_t batch = 0;   // instead of the model's own
};

Status Run(const std::string& name, const Options& o) {
  OC_ASSIGN_OR_RETURN(Case c, MakeCase(name));
  OC_RETURN_IF_ERROR(c.model.status());
  DiscoverOptions discover{.vcus = 1};
  if (!o.device.empty()) discover.config.entries = {{.device = o.device}};
  OC_ASSIGN_OR_RETURN(Cluster cluster, Cluster::Discover(discover));
  const InMemory data(*c.data);
  if (o.batch > 0) c.batch = o.batch;
  OC_ASSIGN_OR_RETURN(auto pipeline, ElasticPipeline::Create(*c.model, cluster, c.optimizer,
                                                             {.micro_batch = c.batch,
                                                              .global_batch = c.batch,
                                                              .recompute = "none",
                                                              .amp_level = o.precision.amp_level,
                                                              .half = o.precision.dtype,
                                                              .capture = o.capture,
                                                              .profile_seconds = 0.5}));
  if (o.ops) OC_RETURN_IF_ERROR(PrintOps(*pipeline));
  OC_ASSIGN_OR_RETURN(const Batches batches, pipeline->UseData(data, 1 << 20));
  Batches::Iterator batch = batches.begin();
  for (int i = 0; i < 4; ++i, ++batch) OC_RETURN_IF_ERROR(pipeline->Step(*batch).status());
  if (!o.rounds) {
    OC_RETURN_IF_ERROR(Time(name, o.precision, *pipeline, batch, o.seconds));
  } else {
    std::printf("ready\n");
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      OC_RETURN_IF_ERROR(Time(name, o.precision, *pipeline, batch, o.seconds));
    }
  }
  pipeline.reset();
  return cluster.Leave(30);
}

}  // namespace
}  // namespace oc

int main(int argc, char** argv) {
  std::vector<std::string> names;
  oc::Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const bool more = i + 1 < argc;
    if (arg == "--seconds" && more) {
      o.seconds = std::atof(argv[++i]);
    } else if (arg == "--amp" && more) {
      const std::string wanted = argv[++i];
      for (oc::AmpLevel level : {oc::AmpLevel::kO1, oc::AmpLevel::kO2, oc::AmpLevel::kO3}) {
        if (wanted == oc::Name(level)) o.precision.amp_level = level;
      }
    } else if (arg == "--dtype" && more) {
      if (std::strcmp(argv[++i], "f16") == 0) o.precision.dtype = oc::DType::kF16;
    } else if (arg == "--device" && more) {
      o.device = argv[++i];
    } else if (arg == "--batch" && more) {
      o.batch = std::atoll(argv[++i]);
    } else if (arg == "--no-capture") {
      o.capture = false;
    } else if (arg == "--rounds") {
      o.rounds = true;
    } else if (arg == "--ops") {
      o.ops = true;
    } else {
      names.push_back(arg);
    }
  }
  if (names.empty()) names = {"mlp", "lenet", "resnet18", "gpt", "gpt2-124m"};
  for (const std::string& name : names) {
    const oc::Status status = oc::Run(name, o);
    if (!status.ok()) {
      std::fprintf(stderr, "train_step %s: %s\n", name.c_str(), status.ToString().c_str());
      return 1;
    }
  }
  return 0;
}

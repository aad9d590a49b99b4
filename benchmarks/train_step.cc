// Times whole training steps of the models that train_step_pytorch.py times in PyTorch: same model,
// batch and threads. One JSON line a model.
//
//   train_step [mlp lenet resnet18 gpt gpt2-124m] [--seconds 5]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "openclaw/core/clock.h"
#include "openclaw/graph/models/models.h"
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

Status Time(const std::string& name, double seconds) {
  OC_ASSIGN_OR_RETURN(Case c, MakeCase(name));
  OC_RETURN_IF_ERROR(c.model.status());
  OC_ASSIGN_OR_RETURN(Cluster cluster, Cluster::Discover({.vcus = 1}));
  OC_ASSIGN_OR_RETURN(auto pipeline, ElasticPipeline::Create(*c.model, cluster, c.optimizer,
                                                             {.micro_batch = c.batch,
                                                              .global_batch = c.batch,
                                                              .recompute = "none",
                                                              .profile_seconds = 0.5}));
  OC_ASSIGN_OR_RETURN(const Batches batches, pipeline->UseData(*c.data, 1 << 20));
  std::vector<double> times;
  const double begin = NowSeconds();
  for (const Batch& batch : batches) {
    OC_ASSIGN_OR_RETURN(const StepResult step, pipeline->Step(batch));
    times.push_back(step.seconds);
    if (times.size() >= 8 && NowSeconds() - begin > seconds) break;
  }
  times.erase(times.begin(), times.begin() + times.size() / 4);  // warm-up
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  const double median = times[times.size() / 2];
  std::printf(
      "{\"model\": \"%s\", \"framework\": \"openclaw\", \"ms\": %.3f, \"gflops\": %.1f, "
      "\"share_of_peak\": %.3f, \"predicted_ms\": %.3f}\n",
      name.c_str(), median * 1e3, pipeline->step_flops() / median * 1e-9,
      pipeline->step_flops() / median / pipeline->peak_flops(),
      pipeline->plan().predicted_step_seconds * 1e3);
  std::fflush(stdout);
  pipeline.reset();
  return cluster.Leave(30);
}

}  // namespace
}  // namespace oc

int main(int argc, char** argv) {
  std::vector<std::string> names;
  double seconds = 5;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc) {
      seconds = std::atof(argv[++i]);
    } else {
      names.push_back(argv[i]);
    }
  }
  if (names.empty()) names = {"mlp", "lenet", "resnet18", "gpt", "gpt2-124m"};
  for (const std::string& name : names) {
    const oc::Status status = oc::Time(name, seconds);
    if (!status.ok()) {
      std::fprintf(stderr, "train_step %s: %s\n", name.c_str(), status.ToString().c_str());
      return 1;
    }
  }
  return 0;
}

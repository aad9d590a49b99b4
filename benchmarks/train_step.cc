// Times whole training steps of the models that train_step_pytorch.py times in PyTorch: same model,
// batch and threads. One JSON line a model.
//
//   train_step [MODEL ...] [--device cuda] [--batch 64] [--context 1024] [--seconds 5] [--amp O2]
//              [--dtype bf16] [--no-capture] [--rounds] [--ops]
//
// Models: mlp lenet resnet18 gpt gpt2-124m (these where none is named), and for accelerators
// resnet50 gpt2-350m gpt2-1.5b llama-1.1b. A model has a batch and a context of its own where none
// is given.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
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

struct Settings {
  std::string device;              // empty: one VCU of this host's processors
  int64_t batch = 0, context = 0;  // 0: the model's
  PrecisionConfig precision;
  double seconds = 5;
  bool rounds = false, ops = false, capture = true;
};

struct Case {
  StatusOr<Graph> model;
  std::unique_ptr<Dataset> data;
  HybridOptimizer optimizer;
  int64_t batch;
};

Case Images(const Settings& settings, int64_t batch, int64_t side, int64_t channels,
            StatusOr<Graph> model) {
  if (settings.batch > 0) batch = settings.batch;
  return {std::move(model),
          MakeSyntheticImages({.size = std::max<int64_t>(256, batch),
                               .height = side,
                               .width = side,
                               .channels = channels}),
          Sgd{.lr = 1e-3, .momentum = 0.9}, batch};
}

Case Tokens(int64_t batch, int64_t context, int64_t vocabulary, StatusOr<Graph> model) {
  return {std::move(model),
          MakeSyntheticTokens(
              {.size = std::max<int64_t>(64, batch), .context = context, .vocabulary = vocabulary}),
          HybridOptimizer(AdamW{.lr = 1e-4, .weight_decay = 0.1}, {.clip_norm = 1.0}), batch};
}

Case Gpt(const Settings& settings, int64_t batch, models::Gpt2Options options) {
  if (settings.batch > 0) batch = settings.batch;
  if (settings.context > 0) options.context = settings.context;
  return Tokens(batch, options.context, options.vocabulary, models::Gpt2(options));
}

Case Llama(const Settings& settings, int64_t batch, models::LlamaOptions options) {
  if (settings.batch > 0) batch = settings.batch;
  if (settings.context > 0) options.context = settings.context;
  return Tokens(batch, options.context, options.vocabulary, models::Llama(options));
}

using MakeCase = std::function<Case(const Settings&)>;
const std::vector<std::pair<std::string, MakeCase>>& Cases() {
  static const auto* const cases = new std::vector<std::pair<std::string, MakeCase>>{
      {"mlp",
       [](const Settings& s) {
         return Images(s, 128, 28, 1, models::Mlp({.hidden = {1024, 1024}}));
       }},
      {"lenet", [](const Settings& s) { return Images(s, 128, 28, 1, models::LeNet({})); }},
      {"resnet18",
       [](const Settings& s) {
         return Images(
             s, 32, 32, 3,
             models::ResNet({.input = {32, 32, 3}, .depth = 18, .classes = 10, .stem = "small"}));
       }},
      {"gpt",
       [](const Settings& s) {
         return Gpt(s, 8,
                    {.layers = 4, .width = 256, .heads = 4, .context = 256, .vocabulary = 256});
       }},
      {"gpt2-124m",
       [](const Settings& s) { return Gpt(s, 4, {.context = 64, .vocabulary = 50304}); }},
      {"gpt2-350m",
       [](const Settings& s) {
         return Gpt(s, 32, {.layers = 24, .width = 1024, .heads = 16, .vocabulary = 50304});
       }},
      {"gpt2-1.5b",
       [](const Settings& s) {
         return Gpt(s, 16, {.layers = 48, .width = 1600, .heads = 25, .vocabulary = 50304});
       }},
      {"llama-1.1b", [](const Settings& s) { return Llama(s, 8, {.kv_heads = 4, .ffn = 5632}); }},
      {"resnet50",
       [](const Settings& s) { return Images(s, 256, 224, 3, models::ResNet({.depth = 50})); }},
  };
  return *cases;
}

StatusOr<Case> FindCase(const std::string& name, const Settings& settings) {
  std::string known;
  for (const auto& [other, make] : Cases()) {
    if (other == name) return make(settings);
    known += (known.empty() ? "" : ", ") + other;
  }
  return InvalidArgument("unknown model ", name, "; there are ", known);
}

// Runs steps for `seconds` (six at least) and prints their median.
Status Time(const std::string& name, const Settings& settings, ElasticPipeline& pipeline,
            Batches::Iterator& batch) {
  std::vector<double> times;
  const double begin = NowSeconds();
  double before = begin, loss = 0;
  while (times.size() < 6 || before - begin < settings.seconds) {
    OC_ASSIGN_OR_RETURN(const StepResult step, pipeline.Step(*batch));
    if (times.empty()) loss = step.loss;
    ++batch;
    const double now = NowSeconds();
    times.push_back(now - before);
    before = now;
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  const double median = times[times.size() / 2];
  std::printf(
      "{\"model\": \"%s\", \"framework\": \"openclaw\", \"amp_level\": \"%s\", \"ms\": %.3f, "
      "\"gflops\": %.1f, \"share_of_peak\": %.3f, \"predicted_ms\": %.3f, "
      "\"arenas_gib\": %.2f, \"rows\": %lld, \"launches\": %lld, \"first_loss\": %.9g}\n",
      name.c_str(), Name(*settings.precision.amp_level), median * 1e3,
      pipeline.step_flops() / median * 1e-9, pipeline.step_flops() / median / pipeline.peak_flops(),
      pipeline.plan().predicted_step_seconds * 1e3,
      pipeline.cluster().vcus()[0]->PeakBytes() / 1073741824.0,
      static_cast<long long>(pipeline.global_batch()),
      static_cast<long long>(pipeline.executor().capture(0).launches), loss);
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

// Where `rounds` is set, each line read from the standard input is one more measurement: two
// programs can take turns on a machine whose speed drifts (compare.py).
Status Run(const std::string& name, const Settings& settings) {
  OC_ASSIGN_OR_RETURN(Case c, FindCase(name, settings));
  OC_RETURN_IF_ERROR(c.model.status());
  DiscoverOptions discover{.vcus = 1};
  if (!settings.device.empty()) discover.config.entries = {{.device = settings.device}};
  OC_ASSIGN_OR_RETURN(Cluster cluster, Cluster::Discover(discover));
  const InMemory data(*c.data);
  OC_ASSIGN_OR_RETURN(auto pipeline,
                      ElasticPipeline::Create(*c.model, cluster, c.optimizer,
                                              {.micro_batch = c.batch,
                                               .global_batch = c.batch,
                                               .recompute = "none",
                                               .amp_level = settings.precision.amp_level,
                                               .half = settings.precision.dtype,
                                               .capture = settings.capture,
                                               .profile_seconds = 0.5}));
  if (settings.ops) OC_RETURN_IF_ERROR(PrintOps(*pipeline));
  OC_ASSIGN_OR_RETURN(const Batches batches, pipeline->UseData(data, 1 << 20));
  Batches::Iterator batch = batches.begin();
  for (int i = 0; i < 4; ++i, ++batch) OC_RETURN_IF_ERROR(pipeline->Step(*batch).status());
  if (!settings.rounds) {
    OC_RETURN_IF_ERROR(Time(name, settings, *pipeline, batch));
  } else {
    std::printf("ready\n");
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
      OC_RETURN_IF_ERROR(Time(name, settings, *pipeline, batch));
    }
  }
  pipeline.reset();
  return cluster.Leave(30);
}

}  // namespace
}  // namespace oc

int main(int argc, char** argv) {
  std::vector<std::string> names;
  oc::Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const bool more = i + 1 < argc;
    if (arg == "--seconds" && more) {
      settings.seconds = std::atof(argv[++i]);
    } else if (arg == "--device" && more) {
      settings.device = argv[++i];
    } else if (arg == "--batch" && more) {
      settings.batch = std::atoll(argv[++i]);
    } else if (arg == "--context" && more) {
      settings.context = std::atoll(argv[++i]);
    } else if (arg == "--amp" && more) {
      const std::string wanted = argv[++i];
      for (oc::AmpLevel level : {oc::AmpLevel::kO1, oc::AmpLevel::kO2, oc::AmpLevel::kO3}) {
        if (wanted == oc::Name(level)) settings.precision.amp_level = level;
      }
    } else if (arg == "--dtype" && more) {
      if (std::strcmp(argv[++i], "f16") == 0) settings.precision.dtype = oc::DType::kF16;
    } else if (arg == "--no-capture") {
      settings.capture = false;
    } else if (arg == "--rounds") {
      settings.rounds = true;
    } else if (arg == "--ops") {
      settings.ops = true;
    } else {
      names.push_back(arg);
    }
  }
  if (names.empty()) names = {"mlp", "lenet", "resnet18", "gpt", "gpt2-124m"};
  for (const std::string& name : names) {
    const oc::Status status = oc::Run(name, settings);
    if (!status.ok()) {
      std::fprintf(stderr, "train_step %s: %s\n", name.c_str(), status.ToString().c_str());
      return 1;
    }
  }
  return 0;
}

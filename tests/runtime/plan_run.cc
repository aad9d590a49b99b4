// Trains a small model under one plan and writes what came of it: the program that plan_test.cc
// starts for each plan, alone or under mpirun.
//
//   runtime_plan_run --model gpt --depth 2 --dp 1 --micro-batches 4 --steps 10 --out FILE
//
// FILE holds lines "loss STEP VALUE", "valid 0 VALUE"; FILE.plan the plan, which --plan runs again.
// With
// --checkpoint DIR a checkpoint is saved there. FILE.scales.RANK is each rank's view of the loss
// scale.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>

#include "openclaw/graph/models/models.h"
#include "openclaw/runtime/data/synthetic.h"
#include "openclaw/runtime/pipeline.h"

#include "masked_targets.h"

namespace oc {
namespace {

// One sample whose values are beyond what a half type holds.
class Planted : public Dataset {
 public:
  Planted(const Dataset& inner, int64_t index)
      : Dataset(inner.features()), inner_(inner), index_(index) {}
  int64_t size() const override { return inner_.size(); }
  Status Read(int64_t index, Sample& sample) const override {
    OC_RETURN_IF_ERROR(inner_.Read(index, sample));
    if (index == index_) sample.row<float>(0)[0] = std::numeric_limits<float>::infinity();
    return OkStatus();
  }

 private:
  const Dataset& inner_;
  int64_t index_;
};

struct Case {
  StatusOr<Graph> model;
  std::unique_ptr<Dataset> train, validation;
  HybridOptimizer optimizer;
  int64_t global_batch;
};

// The optimizers and learning rates are those of the examples.
StatusOr<Case> MakeCase(const std::string& name, double dropout) {
  const HybridOptimizer adamw(
      AdamW{.lr = 2e-3, .beta2 = 0.95, .weight_decay = 0.1},
      {.clip_norm = 1.0, .schedule = {.name = "cosine", .warmup_steps = 10}});
  const HybridOptimizer sgd(
      Sgd{.lr = 0.02, .momentum = 0.9, .nesterov = true, .weight_decay = 5e-4},
      {.schedule = {.name = "cosine", .warmup_steps = 600}});
  const auto images = [](uint64_t split, int64_t size, double noise) {
    return MakeSyntheticImages({.size = size, .noise = noise, .split = split});
  };
  if (name == "mlp") {
    return Case{models::Mlp({.hidden = {96, 64}, .dropout = dropout}), images(0, 1024, 2.0),
                images(1, 150, 2.0), adamw, 48};
  }
  if (name == "lenet") {
    return Case{models::LeNet({}), images(0, 1024, 2.0), images(1, 150, 2.0), adamw, 32};
  }
  if (name == "resnet") {
    return Case{
        models::ResNet(
            {.input = {28, 28, 1}, .depth = 18, .classes = 10, .stem = "small", .width = 8}),
        images(0, 2048, 0.5), images(1, 150, 0.5), sgd, 64};
  }
  if (name == "gpt") {
    return Case{models::Gpt2({.layers = 2,
                              .width = 32,
                              .heads = 2,
                              .context = 24,
                              .vocabulary = 61,
                              .dropout = dropout}),
                std::make_unique<MaskedTargets>(
                    MakeSyntheticTokens({.size = 512, .context = 24, .vocabulary = 61})),
                std::make_unique<MaskedTargets>(
                    MakeSyntheticTokens({.size = 37, .context = 24, .vocabulary = 61, .split = 1})),
                adamw, 16};
  }
  return InvalidArgument("unknown model ", name);
}

Status Run(std::map<std::string, std::string> flags) {
  const auto number = [&](const char* name, int64_t fallback) {
    return flags.count(name) != 0 ? std::atoll(flags[name].c_str()) : fallback;
  };
  const int depth = static_cast<int>(number("depth", 1)), dp = static_cast<int>(number("dp", 1));
  OC_ASSIGN_OR_RETURN(Case c, MakeCase(flags["model"], flags.count("no-dropout") != 0 ? 0.0 : 0.1));
  OC_RETURN_IF_ERROR(c.model.status());
  std::unique_ptr<Dataset> planted;  // before the pipeline, whose loader reads it
  const int64_t micro_batches = number("micro-batches", 4);
  std::string plan;
  if (flags.count("plan") != 0) {
    std::stringstream text;
    text << std::ifstream(flags["plan"]).rdbuf();
    plan = text.str();
  }
  AmpLevel level = AmpLevel::kO0;
  for (AmpLevel l : {AmpLevel::kO1, AmpLevel::kO2, AmpLevel::kO3}) {
    if (flags["amp"] == Name(l)) level = l;
  }
  OC_ASSIGN_OR_RETURN(Cluster cluster, Cluster::Discover({.vcus = depth * dp}));
  const int64_t steps = number("steps", 10);
  OC_ASSIGN_OR_RETURN(auto pipeline,
                      ElasticPipeline::Create(
                          *c.model, cluster, c.optimizer,
                          {.micro_batch = c.global_batch / micro_batches,
                           .global_batch = c.global_batch,
                           .pipeline_depth = depth,
                           .data_parallel = dp,
                           .schedule = flags.count("schedule") != 0 ? flags["schedule"] : "1f1b",
                           .recompute = flags.count("recompute") != 0 ? "marked" : "none",
                           .amp_level = level,
                           .half = flags["half"] == "f16" ? DType::kF16 : DType::kBF16,
                           .shard = static_cast<int>(number("shard", 0)),
                           .seed = 3,
                           .total_steps = 1400,
                           .timeout_seconds = 60,
                           .plan_json = plan,
                           .profile_seconds = 0.05}));
  if (flags.count("resume") != 0) OC_RETURN_IF_ERROR(pipeline->Load(flags["resume"]));
  if (cluster.job().rank() == 0) std::ofstream(flags["out"] + ".plan") << pipeline->plan().ToJson();
  std::FILE* out = cluster.job().rank() == 0 ? std::fopen(flags["out"].c_str(), "w") : nullptr;
  OC_ASSIGN_OR_RETURN(Batches batches, pipeline->UseData(*c.train, steps));
  // --plant STEP: the last sample of that step, which the last replica takes, is infinite.
  for (const Batch& batch : batches) {
    if (batch.step + 1 != number("plant", 0)) continue;
    planted = std::make_unique<Planted>(*c.train, batch.indices.back());
  }
  if (planted != nullptr) {
    OC_ASSIGN_OR_RETURN(batches, pipeline->UseData(*planted, steps));
  }
  std::ofstream scales(absl::StrCat(flags["out"], ".scales.", cluster.job().rank()));
  for (const Batch& batch : batches) {
    OC_ASSIGN_OR_RETURN(const StepResult step, pipeline->Step(batch));
    scales << step.step << " " << step.loss_scale << (step.skipped ? " skipped\n" : "\n");
    if (out != nullptr) {
      std::fprintf(out, "loss %lld %.9g\n", static_cast<long long>(step.step), step.loss);
      std::fprintf(out, "norm %lld %.9g\n", static_cast<long long>(step.step), step.grad_norm);
    }
  }
  OC_ASSIGN_OR_RETURN(const EvalResult eval, pipeline->Evaluate(*c.validation));
  if (out != nullptr) {
    std::fprintf(out, "valid 0 %.9g\n", eval.loss);
    std::fprintf(out, "count 0 %.9g\n", eval.count);
    std::fclose(out);
  }
  if (flags.count("checkpoint") != 0) {
    OC_RETURN_IF_ERROR(pipeline->Save(flags["checkpoint"]).status());
  }
  pipeline.reset();
  return cluster.Leave(30);
}

}  // namespace
}  // namespace oc

int main(int argc, char** argv) {
  std::map<std::string, std::string> flags;
  for (int i = 1; i < argc; ++i) {
    const std::string name = std::string(argv[i]).substr(2);
    flags[name] = i + 1 < argc && argv[i + 1][0] != '-' ? argv[++i] : "";
  }
  const oc::Status status = oc::Run(std::move(flags));
  if (!status.ok()) std::fprintf(stderr, "plan_run: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

#include "openclaw/graph/models/models.h"
#include "openclaw/runtime/data/synthetic.h"
#include "openclaw/runtime/parity/compare.h"
#include "openclaw/runtime/pipeline.h"

namespace oc::parity {
namespace {

// A registry of this one device, and of the processors, for ops that it lacks.
DeviceRegistry Alone(const std::string& name, size_t index, const DeviceRegistry& registry) {
  DeviceRegistry alone;
  alone.Add({name, [name, index, &registry]() -> StatusOr<std::vector<std::unique_ptr<Device>>> {
               OC_ASSIGN_OR_RETURN(const DeviceLeaf* leaf, registry.Find(name));
               OC_ASSIGN_OR_RETURN(auto devices, leaf->discover());
               if (index >= devices.size()) {
                 return FailedPrecondition("leaf ", name, ": device ", index, " is gone");
               }
               std::vector<std::unique_ptr<Device>> one;
               one.push_back(std::move(devices[index]));
               return one;
             }});
  if (const auto cpu = registry.Find("cpu"); name != "cpu" && cpu.ok()) alone.Add(**cpu);
  return alone;
}

Status Train(const Graph& model, const Dataset& data, const DeviceRegistry& registry,
             const Options& options, Trained& trained) {
  OC_ASSIGN_OR_RETURN(
      Cluster cluster,
      Cluster::Discover({.config = {.entries = {{.device = registry.leaves()[0].name}}},
                         .registry = &registry,
                         .timeout_seconds = options.timeout_seconds,
                         .on_stuck_call = options.on_stuck_call}));
  // Plain momentum: what Adam divides by makes a rounding of small gradients a whole step.
  OC_ASSIGN_OR_RETURN(
      auto pipeline,
      ElasticPipeline::Create(model, cluster,
                              HybridOptimizer(Sgd{.lr = 0.05, .momentum = 0.9}, {.clip_norm = 1}),
                              {.micro_batch = 4,
                               .global_batch = 8,
                               .pipeline_depth = 1,
                               .data_parallel = 1,
                               .timeout_seconds = options.timeout_seconds,
                               .profile_seconds = 0.02}));
  for (const Substitute& s : pipeline->plan().substitutes) {
    trained.substituted.insert(s.op.substr(0, s.op.find('@')));
  }
  OC_ASSIGN_OR_RETURN(const Batches batches, pipeline->UseData(data, options.training_steps));
  for (const Batch& batch : batches) {
    OC_ASSIGN_OR_RETURN(const StepResult step, pipeline->Step(batch));
    trained.losses.push_back(step.loss);
  }
  for (const Variable& v : pipeline->joint().parameters) {
    trained.names.push_back(pipeline->joint().value(v.value).name);
    OC_ASSIGN_OR_RETURN(Tensor parameter, pipeline->ReadVariable(trained.names.back()));
    trained.parameters.push_back(std::move(parameter));
  }
  return cluster.Leave(options.timeout_seconds);
}

}  // namespace

std::vector<Trained> TrainModels(const std::string& leaf, size_t device,
                                 const DeviceRegistry& registry, const Options& options) {
  const DeviceRegistry alone = Alone(leaf, device, registry);
  std::vector<Trained> results;
  const auto train = [&](const std::string& name, const StatusOr<Graph>& model,
                         const Dataset& data) {
    Trained trained{.model = name};
    trained.status =
        model.ok() ? Train(*model, data, alone, options, trained) : Status(model.status());
    results.push_back(std::move(trained));
  };
  train("mlp", models::Mlp({.input = {7, 5, 1}, .hidden = {33, 17}, .classes = 5}),
        *MakeSyntheticImages({.size = 90, .height = 7, .width = 5, .classes = 5}));
  train("gpt",
        models::Gpt2({.layers = 2, .width = 24, .heads = 2, .context = 13, .vocabulary = 29}),
        *MakeSyntheticTokens({.size = 90, .context = 13, .vocabulary = 29}));
  return results;
}

}  // namespace oc::parity

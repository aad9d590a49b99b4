#include <cstdio>
#include <filesystem>

#include "openclaw/comm/all_reduce.h"
#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/passes.h"
#include "openclaw/launcher/commands.h"
#include "openclaw/launcher/config/cluster_file.h"
#include "openclaw/partitioner/costs.h"
#include "openclaw/partitioner/picture.h"
#include "openclaw/runtime/profiler.h"

namespace oc {
namespace {

Status Show(const PlannedProgram& planned, const Graph& graph, const ClusterSpec& cluster,
            const PlanFlags& flags) {
  std::fputs(PlanText(planned, graph, cluster).c_str(), stdout);
  if (!flags.json_path.empty()) {
    OC_RETURN_IF_ERROR(WriteFile(flags.json_path, planned.plan.ToJson()));
  }
  if (!flags.svg_path.empty()) OC_RETURN_IF_ERROR(WriteFile(flags.svg_path, TimelineSvg(planned)));
  return OkStatus();
}

// For machines of a file: their costs come from a profile, or are measured here for the kinds that
// this machine has.
Status PlanForFile(const Experiment& e, const PlanFlags& flags) {
  OC_ASSIGN_OR_RETURN(const ClusterSpec cluster, LoadCluster(flags.cluster_path));
  OC_ASSIGN_OR_RETURN(const HybridOptimizer optimizer,
                      HybridOptimizer::FromConfig(e.config.optimizer));
  OC_ASSIGN_OR_RETURN(const Graph bound, e.model.Bind({{"B", e.config.train.micro_batch}}));
  OC_ASSIGN_OR_RETURN(Graph joint, Differentiate(bound));
  PassOptions passes;
  if (e.config.parallel.recompute != "marked") passes.disabled = {"recompute_marked"};
  OC_RETURN_IF_ERROR(RunPasses(joint, DefaultPasses(), passes));
  OC_ASSIGN_OR_RETURN(const Graph update, optimizer.BuildUpdate(joint));
  CostTable costs;
  if (!flags.profile_path.empty()) {
    OC_ASSIGN_OR_RETURN(costs, CostTable::Load(flags.profile_path));
  }
  for (const VcuSpec& v : cluster.vcus) {
    std::vector<CostRequest> missing = MissingCosts(joint, &update, v.kind, costs);
    if (missing.empty()) continue;
    // Measured on a slice of the same leaf and threads, where this machine has it.
    const DeviceRegistry registry = BuiltinLeaves();
    OC_ASSIGN_OR_RETURN(const DeviceLeaf* leaf, registry.Find(v.device));
    OC_ASSIGN_OR_RETURN(auto devices, leaf->discover());
    if (devices.empty())
      return FailedPrecondition("plan: no device of leaf ", v.device, " here to measure");
    OC_ASSIGN_OR_RETURN(auto slice, devices[0]->CreateSlice({.threads = v.threads}));
    if (slice->kind() != v.kind) {
      return FailedPrecondition("plan: no costs for VCU ", v.name, " of kind ", v.kind,
                                "; this machine measures ", slice->kind(),
                                "; give --profile FILE with costs of that kind");
    }
    OC_ASSIGN_OR_RETURN(const CostTable found, MeasureCosts(*slice, missing, {}));
    for (const auto& [key, entry] : found.entries()) costs.Set(key, entry);
  }
  const PipelineOptions o = MakePipelineOptions(e.config);
  PartitionOptions partition{.micro_batch = o.micro_batch,
                             .global_batch = o.global_batch,
                             .gradient_accumulation = o.gradient_accumulation,
                             .pipeline_depth = o.pipeline_depth,
                             .data_parallel = o.data_parallel,
                             .schedule = o.schedule,
                             .stages = o.stages};
  partition.lower.scratch_bytes = [](int members, int64_t bytes) {
    return AllReduceScratchBytes(members, bytes, DType::kF32);
  };
  OC_ASSIGN_OR_RETURN(const PlannedProgram planned,
                      DynamicGraphPartitioner(joint, &update, cluster, costs).Partition(partition));
  return Show(planned, joint, cluster, flags);
}

}  // namespace

Status PrintPlan(const ExperimentFlags& flags, const PlanFlags& plan) {
  OC_ASSIGN_OR_RETURN(const ExperimentConfig config, LoadExperiment(flags));
  OC_ASSIGN_OR_RETURN(const Experiment experiment, OpenExperiment(config));
  if (!plan.cluster_path.empty()) return PlanForFile(experiment, plan);
  OC_ASSIGN_OR_RETURN(Cluster cluster, OpenCluster(config));
  OC_ASSIGN_OR_RETURN(auto pipeline,
                      OpenPipeline(experiment, cluster, flags.run_dir, flags.plan_path));
  PlannedProgram planned{pipeline->plan(), pipeline->program(), pipeline->simulation()};
  if (cluster.job().rank() == 0) {
    OC_RETURN_IF_ERROR(Show(planned, pipeline->joint(), cluster.spec(), plan));
  }
  return cluster.Leave(config.comm_options.timeout_seconds);
}

}  // namespace oc

#include <cstdio>
#include <filesystem>

#include "openclaw/core/logging.h"
#include "openclaw/launcher/commands.h"
#include "openclaw/launcher/config/cluster_file.h"
#include "openclaw/partitioner/costs.h"
#include "openclaw/partitioner/picture.h"
#include "openclaw/runtime/profiler.h"
#include "openclaw/runtime/training_graphs.h"

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

// Adds to `costs` what is missing for the kinds of `cluster`: measured on a slice of the same leaf
// and threads, where this machine has it.
Status MeasureHere(const ClusterSpec& cluster, const TrainingGraphs& graphs, CostTable& costs) {
  for (const VcuSpec& v : cluster.vcus) {
    std::vector<CostRequest> missing = MissingCosts(graphs.joint, &graphs.update, v.kind, costs);
    if (missing.empty()) continue;
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
  return OkStatus();
}

// For machines of a file: their costs come from a profile, or are measured here for the kinds that
// this machine has.
Status PlanForFile(const Experiment& e, const PlanFlags& flags) {
  OC_ASSIGN_OR_RETURN(const ClusterSpec cluster, LoadCluster(flags.cluster_path));
  OC_ASSIGN_OR_RETURN(const HybridOptimizer optimizer,
                      HybridOptimizer::FromConfig(e.config.optimizer));
  CostTable costs;
  if (!flags.profile_path.empty()) {
    OC_ASSIGN_OR_RETURN(costs, CostTable::Load(flags.profile_path));
  }
  const PipelineOptions options = MakePipelineOptions(e.config);
  const auto plan = [&](bool recompute) -> Status {
    OC_ASSIGN_OR_RETURN(const TrainingGraphs graphs,
                        BuildTrainingGraphs(e.model, optimizer, options.micro_batch, recompute));
    OC_RETURN_IF_ERROR(MeasureHere(cluster, graphs, costs));
    OC_ASSIGN_OR_RETURN(const PlannedProgram planned,
                        DynamicGraphPartitioner(graphs.joint, &graphs.update, cluster, costs)
                            .Partition(PartitionOptionsOf(options)));
    return Show(planned, graphs.joint, cluster, flags);
  };
  const Status status = plan(options.recompute == "marked");
  if (!absl::IsResourceExhausted(status) || options.recompute != "auto") return status;
  OC_LOG_INFO(status.message(), "; trying with marked modules computed again in backward");
  return plan(/*recompute=*/true);
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

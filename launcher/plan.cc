#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "openclaw/core/logging.h"
#include "openclaw/devices/substitute.h"
#include "openclaw/graph/fuse.h"
#include "openclaw/launcher/commands.h"
#include "openclaw/launcher/config/cluster_file.h"
#include "openclaw/partitioner/compute_types.h"
#include "openclaw/partitioner/costs.h"
#include "openclaw/partitioner/picture.h"
#include "openclaw/runtime/measure_costs.h"
#include "openclaw/runtime/precision.h"
#include "openclaw/runtime/training_graphs.h"

namespace oc {
namespace {

Status Show(const PlannedProgram& planned, const DynamicGraphPartitioner& partitioner,
            const PartitionOptions& options, const Graph& graph, const ClusterSpec& cluster,
            const std::vector<PlanAlternative>& levels, const PlanFlags& flags) {
  std::fputs(PlanText(planned, graph, cluster).c_str(), stdout);
  OC_ASSIGN_OR_RETURN(auto alternatives, partitioner.Alternatives(planned.plan, options));
  alternatives.insert(alternatives.end(), levels.begin(), levels.end());
  std::fputs(AlternativesText(alternatives).c_str(), stdout);
  if (flags.memory) std::fputs(MemoryText(planned.plan).c_str(), stdout);
  if (!flags.json_path.empty()) {
    OC_RETURN_IF_ERROR(WriteFile(flags.json_path, planned.plan.ToJson()));
  }
  if (!flags.svg_path.empty()) OC_RETURN_IF_ERROR(WriteFile(flags.svg_path, TimelineSvg(planned)));
  return OkStatus();
}

// Of a device whose memory the host cannot touch: the kind of the host, and what an update takes
// there.
Status MeasureHost(VcuSpec& v, Slice& slice, Slice& host, const TrainingGraphs& graphs,
                   CostTable& costs) {
  constexpr int64_t kProbeBytes = 64;
  OC_ASSIGN_OR_RETURN(const auto probe, slice.Allocate(kProbeBytes));
  if (!slice.HostView({probe.get(), 0, kProbeBytes}).empty()) return OkStatus();
  v.host_kind = host.kind();
  const auto missing = MissingCosts(graphs.update, &graphs.update, v.host_kind, costs);
  const auto found = MeasureCosts(host, missing, {graphs.update, nullptr, costs}, {});
  // An op that the host lacks is told where it is planned.
  if (absl::IsUnimplemented(found.status())) return OkStatus();
  OC_RETURN_IF_ERROR(found.status());
  for (const auto& [key, entry] : found->entries()) costs.Set(key, entry);
  return OkStatus();
}

// Measures what `costs` lacks for `v`, on a slice of the same leaf and threads, where this machine
// has it; then with `parts` also what divided state takes, which no plan needs that has none. A VCU
// whose kind is open gets that of the slice.
Status MeasureFor(VcuSpec& v, const DeviceRegistry& registry, const TrainingGraphs& graphs,
                  const ExperimentConfig& config, bool parts, CostTable& costs) {
  OC_ASSIGN_OR_RETURN(const DType dtype, ComputeTypeFor(graphs.joint, v));
  TypedGraphs typed(graphs.joint);
  OC_ASSIGN_OR_RETURN(const Graph* joint, typed.In(dtype));
  const auto missing = [&](bool with_parts) {
    return MissingCosts(*joint, &graphs.update, v.kind, costs, with_parts);
  };
  // A device of this machine is looked at also to know whether its memory is apart.
  const bool offloads =
      config.parallel.offload.optimizer != "none" || !config.parallel.offload.activations.empty();
  const bool knows_host = !offloads || v.device == "cpu" ||
                          (!v.host_kind.empty() &&
                           MissingCosts(graphs.update, &graphs.update, v.host_kind, costs).empty());
  const bool wants_parts = config.parallel.shard.has_value() ? *config.parallel.shard > 0 : parts;
  // What nobody knows of a fused op is that it cannot be taken.
  const auto needed = missing(wants_parts);
  const bool knows_ops = std::all_of(needed.begin(), needed.end(),
                                     [](const CostRequest& r) { return IsFused(r.def->name); });
  if (!v.kind.empty() && knows_ops && knows_host) return OkStatus();
  const auto no_costs = [&](const std::string& why) {
    return FailedPrecondition("plan: no costs for VCU ", v.name,
                              v.kind.empty() ? "" : " of kind " + v.kind, ": ", why,
                              "; give its kind in the cluster file and --profile FILE with costs "
                              "of that kind");
  };
  OC_ASSIGN_OR_RETURN(const DeviceLeaf* leaf, registry.Find(v.device));
  OC_ASSIGN_OR_RETURN(auto devices, leaf->discover());
  if (devices.empty()) return no_costs(absl::StrCat("no device of leaf ", v.device, " here"));
  const int threads = devices[0]->info().threads;
  if (v.threads > threads) {
    return no_costs(
        absl::StrCat("it has ", v.threads, " threads, this machine's ", v.device, " ", threads));
  }
  OC_ASSIGN_OR_RETURN(auto bare,
                      devices[0]->CreateSlice({.threads = v.threads, .options = v.options}));
  // As in training, what it lacks is made up for.
  std::vector<std::unique_ptr<Device>> cpus;
  std::unique_ptr<Slice> cpu;
  SubstituteHost host;
  if (v.device != "cpu") {
    host = [&]() -> StatusOr<Slice*> {
      if (cpu == nullptr) {
        OC_ASSIGN_OR_RETURN(const DeviceLeaf* cpu_leaf, registry.Find("cpu"));
        OC_ASSIGN_OR_RETURN(cpus, cpu_leaf->discover());
        OC_ASSIGN_OR_RETURN(cpu, cpus[0]->CreateSlice({.threads = 1}));
      }
      return cpu.get();
    };
  }
  const SubstituteOptions wishes = {.deterministic = config.train.deterministic};
  const auto slice = WithSubstitutes(std::move(bare), host, wishes);
  if (v.kind.empty()) v.kind = slice->kind();
  if (v.kind != slice->kind()) {
    return no_costs(absl::StrCat("this machine measures kind ", slice->kind()));
  }
  OC_ASSIGN_OR_RETURN(const CostTable found,
                      MeasureCosts(*slice, missing(parts), {*joint, &graphs.update, costs}, {}));
  for (const auto& [key, entry] : found.entries()) costs.Set(key, entry);
  if (!offloads || !host) return OkStatus();
  OC_ASSIGN_OR_RETURN(Slice * beside, host());
  return MeasureHost(v, *slice, *beside, graphs, costs);
}

Status CheckProfile(const std::string& path) {
  std::error_code error;
  if (path.empty() || std::filesystem::exists(path, error)) return OkStatus();
  return InvalidArgument("plan: no profile ", path, "; a run keeps one in RUN_DIR/profile.json");
}

// Plans for machines of a file, at one level of mixed precision or another.
class FilePlanner {
 public:
  // `e` must outlive it.
  FilePlanner(const Experiment& e, ClusterSpec cluster, HybridOptimizer optimizer,
              DeviceRegistry registry, CostTable costs)
      : e_(e),
        options_(MakePipelineOptions(e.config)),
        cluster_(std::move(cluster)),
        optimizer_(std::move(optimizer)),
        registry_(std::move(registry)),
        costs_(std::move(costs)) {}

  // The graphs of a level, once what planning them needs is known.
  StatusOr<TrainingGraphs> Measured(AmpLevel level) {
    PipelineOptions options = options_;
    options.amp_level = level;
    OC_ASSIGN_OR_RETURN(
        TrainingGraphs graphs,
        BuildTrainingGraphs(e_.model, optimizer_, TrainingGraphOptionsOf(options, cluster_)));
    OC_RETURN_IF_ERROR(CheckComputeTypes(graphs.joint, cluster_));
    for (VcuSpec& v : cluster_.vcus) {
      OC_RETURN_IF_ERROR(MeasureFor(v, registry_, graphs, e_.config, cluster_.size() > 1, costs_));
    }
    if (const std::string& folder = e_.config.parallel.offload.path;
        !folder.empty() && costs_.Find(FileKey(/*write=*/true)) == nullptr) {
      OC_ASSIGN_OR_RETURN(const CostTable file, MeasureFile(folder));
      for (const auto& [key, entry] : file.entries()) costs_.Set(key, entry);
    }
    return graphs;
  }

  // The fastest of the open levels that fits, or the one that was asked for.
  Status Plan() {
    const bool open = !options_.amp_level.has_value();
    Status reason;
    for (AmpLevel level : open ? OpenLevels() : std::vector<AmpLevel>{*options_.amp_level}) {
      auto graphs = Measured(level);
      auto planned = graphs.ok() ? Partitioner(*graphs).Partition(PartitionOptionsOf(options_))
                                 : StatusOr<PlannedProgram>(graphs.status());
      if (!planned.ok()) {
        if (reason.ok()) reason = planned.status();
        continue;
      }
      if (graphs_.has_value() &&
          !IsFasterLevel(SamplesPerSecond(planned->plan), SamplesPerSecond(planned_.plan))) {
        continue;
      }
      level_ = level;
      graphs_ = *std::move(graphs);
      planned_ = *std::move(planned);
    }
    return graphs_.has_value() ? OkStatus() : reason;
  }

  // What each level would take. After Plan.
  StatusOr<std::vector<PlanAlternative>> CompareLevels() {
    std::vector<PlanAlternative> rows;
    for (AmpLevel level : ComparedLevels()) {
      if (level == level_) {
        rows.push_back(AlternativeOf("amp_level", absl::StrCat("amp_level ", Name(level)),
                                     planned_.plan, cluster_));
        rows.back().chosen = true;
        continue;
      }
      const auto graphs = Measured(level);
      if (!graphs.ok()) continue;  // no VCU has the type, or nobody has measured it
      auto row = LevelRow(level, *graphs, cluster_, costs_, PartitionOptionsOf(options_));
      if (row.ok()) rows.push_back(*std::move(row));
    }
    Explain("precision.amp_level", !options_.amp_level.has_value(), rows);
    return rows;
  }

  Status Show(const PlanFlags& flags) {
    std::vector<PlanAlternative> levels;
    if (flags.memory) {
      OC_ASSIGN_OR_RETURN(levels, CompareLevels());
    }
    return oc::Show(planned_, Partitioner(*graphs_), PartitionOptionsOf(options_), graphs_->joint,
                    cluster_, levels, flags);
  }

  const CostTable& costs() const { return costs_; }

 private:
  DynamicGraphPartitioner Partitioner(const TrainingGraphs& graphs) const {
    return DynamicGraphPartitioner(graphs.joint, &graphs.update, cluster_, costs_);
  }

  const Experiment& e_;
  PipelineOptions options_;
  ClusterSpec cluster_;
  HybridOptimizer optimizer_;
  DeviceRegistry registry_;
  CostTable costs_;
  AmpLevel level_ = AmpLevel::kO0;
  std::optional<TrainingGraphs> graphs_;  // of level_
  PlannedProgram planned_;
};

// For machines of a file: their costs come from a profile, or are measured here for the kinds that
// this machine has.
Status PlanForFile(const Experiment& e, const PlanFlags& flags, const std::string& profile) {
  OC_ASSIGN_OR_RETURN(ClusterSpec cluster, LoadCluster(flags.cluster_path));
  OC_ASSIGN_OR_RETURN(HybridOptimizer optimizer, HybridOptimizer::FromConfig(e.config.optimizer));
  CostTable costs;
  std::error_code error;
  if (!profile.empty() && std::filesystem::exists(profile, error)) {
    OC_ASSIGN_OR_RETURN(costs, CostTable::Load(profile));
  }
  OC_ASSIGN_OR_RETURN(DeviceRegistry registry, LeavesWithPlugins(e.config.cluster.plugins));
  FilePlanner planner(e, std::move(cluster), std::move(optimizer), std::move(registry),
                      std::move(costs));
  const Status planned = planner.Plan();
  if (!profile.empty()) OC_RETURN_IF_ERROR(planner.costs().Save(profile));
  OC_RETURN_IF_ERROR(planned);
  return planner.Show(flags);
}

}  // namespace

Status PrintPlan(const ExperimentFlags& flags, const PlanFlags& plan) {
  OC_ASSIGN_OR_RETURN(const ExperimentConfig config, LoadExperiment(flags));
  std::string profile = plan.profile_path;
  OC_RETURN_IF_ERROR(CheckProfile(profile));
  if (profile.empty() && !flags.run_dir.empty()) {
    if (!std::filesystem::is_directory(flags.run_dir))
      return InvalidArgument("plan: no run folder ", flags.run_dir);
    profile = ProfilePath(flags.run_dir);
  }
  OC_ASSIGN_OR_RETURN(const Experiment experiment, OpenExperiment(config));
  if (!plan.cluster_path.empty()) return PlanForFile(experiment, plan, profile);
  OC_ASSIGN_OR_RETURN(Cluster cluster, OpenCluster(config));
  OC_ASSIGN_OR_RETURN(auto pipeline, OpenPipeline(experiment, cluster, profile, flags.plan_path,
                                                  /*profile_parts=*/cluster.spec().size() > 1));
  std::vector<PlanAlternative> levels;
  if (plan.memory) {
    OC_ASSIGN_OR_RETURN(levels, pipeline->CompareLevels());
  }
  PlannedProgram planned{pipeline->plan(), pipeline->program(), pipeline->simulation()};
  if (cluster.job().rank() == 0) {
    if (!cluster.found().empty()) std::printf("%s\n", cluster.found().c_str());
    const DynamicGraphPartitioner partitioner(pipeline->joint(), &pipeline->update(),
                                              cluster.spec(), pipeline->costs());
    OC_RETURN_IF_ERROR(Show(planned, partitioner, PartitionOptionsOf(MakePipelineOptions(config)),
                            pipeline->joint(), cluster.spec(), levels, plan));
  }
  return cluster.Leave(config.comm_options.timeout_seconds);
}

}  // namespace oc

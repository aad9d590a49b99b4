// DynamicGraphPartitioner: what other choices of a plan's options would take.
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>

#include "openclaw/partitioner/costs.h"
#include "openclaw/partitioner/memory_fit.h"
#include "openclaw/partitioner/partition.h"

namespace oc {
namespace {

// Less than this, of a step, nobody is told apart by.
constexpr double kAlike = 0.002;

}  // namespace

PlanAlternative AlternativeOf(const std::string& option, const std::string& name, const Plan& plan,
                              const ClusterSpec& cluster) {
  PlanAlternative a{
      .option = option, .name = name, .fits = true, .step_seconds = plan.predicted_step_seconds};
  std::vector<std::string> lacks;
  for (size_t v = 0; v < plan.vcus.size(); ++v) {
    const VcuPrediction& p = plan.vcus[v];
    const int64_t bytes = p.state_bytes + p.step_bytes, budget = cluster.vcus[v].memory_bytes;
    a.vcus.push_back(p.name);
    a.peak_bytes.push_back(bytes);
    a.arena_bytes = std::max(a.arena_bytes, bytes);
    a.activation_bytes = std::max(a.activation_bytes, p.activation_bytes);
    if (bytes <= budget) continue;
    lacks.push_back(absl::StrCat(p.name, " lacks ", BytesLike(bytes - budget, budget)));
  }
  a.fits = lacks.empty();
  a.why = absl::StrJoin(lacks, ", ");
  return a;
}

void Explain(const std::string& key, bool open, std::vector<PlanAlternative>& rows) {
  const auto chosen =
      std::find_if(rows.begin(), rows.end(), [](const PlanAlternative& a) { return a.chosen; });
  if (chosen == rows.end()) return;
  const PlanAlternative* faster = nullptr;  // and fits
  int others = 0;
  for (PlanAlternative& a : rows) {
    if (a.chosen) continue;
    const double more = a.step_seconds / chosen->step_seconds - 1;
    if (!a.fits) {
      if (a.why.empty()) a.why = "more than parallel.activation_budget";
      continue;
    }
    ++others;
    if (more < 0 && !a.by_request && (faster == nullptr || a.step_seconds < faster->step_seconds))
      faster = &a;
    a.why = std::abs(more) <= kAlike ? "as fast"
                                     : absl::StrFormat("%.1f%% %s", std::abs(more) * 100,
                                                       more > 0 ? "slower" : "faster");
    if (a.by_request && open) a.why += ", taken on request alone";
  }
  if (!chosen->fits) return;
  if (!open) {
    chosen->why = absl::StrCat("asked for by ", key);
  } else if (faster != nullptr) {
    // The search weighs what the costs may be off by, too (PartitionOptions::cost_error).
    chosen->why = faster->step_seconds >= chosen->step_seconds * (1 - kAlike)
                      ? absl::StrCat("as fast as ", faster->name, ", and simpler")
                      : absl::StrCat(faster->name, " is faster here; the search did not see it");
  } else {
    chosen->why =
        others == 0 && rows.size() > 1 ? "the only one that fits" : "the fastest that fits";
  }
}

namespace {

StateHome HomeOf(const Plan& plan, int vcu) { return plan.offload_of(vcu).states; }

bool AnyApart(const ClusterSpec& cluster) {
  return std::any_of(cluster.vcus.begin(), cluster.vcus.end(),
                     [](const VcuSpec& v) { return !v.host_kind.empty(); });
}

// A row: a choice, and the plan that is told where nothing fits with it.
struct RowOf {
  std::string option, name;
  PartitionOptions options;
  Plan plan;
};

class AlternativesTable {
 public:
  using ChooseUpdates = std::function<Status(const PartitionOptions&, PlannedProgram&)>;
  AlternativesTable(const Graph& graph, const Graph* update, const ClusterSpec& cluster,
                    const CostTable& costs, const PartitionOptions& options, Plan plan,
                    ChooseUpdates choose_updates)
      : graph_(graph),
        update_(update),
        cluster_(cluster),
        costs_(costs),
        options_(options),
        plan_(std::move(plan)),
        choose_updates_(std::move(choose_updates)) {}

  StatusOr<std::vector<PlanAlternative>> Make() {
    MemoryFit fit(graph_, update_, cluster_, costs_, options_);
    OC_ASSIGN_OR_RETURN(const PlannedProgram own, fit.Lowered(plan_));
    plan_ = own.plan;
    OC_ASSIGN_OR_RETURN(own_fits_, fit.Fits(plan_));
    OC_RETURN_IF_ERROR(AddRecompute(fit));
    OC_RETURN_IF_ERROR(AddShards());
    OC_RETURN_IF_ERROR(AddStates());
    OC_RETURN_IF_ERROR(AddActivations());
    return std::move(result_);
  }

 private:
  RowOf AsIs(const std::string& option, const std::string& name) const {
    return {option, name, options_, plan_};
  }

  void AddOwn(const std::string& option, const std::string& name) {
    rows_.push_back(AlternativeOf(option, name, plan_, cluster_));
    rows_.back().fits = own_fits_;
    rows_.back().chosen = true;
  }

  // The fastest that fits with the row's choice and this plan's cuts; what cannot be, or what
  // nobody has measured, is left out.
  Status Add(const RowOf& row) {
    MemoryFit fit(graph_, update_, cluster_, costs_, row.options);
    auto planned = fit.Fit(row.plan, /*thorough=*/false);
    const bool fits = planned.ok();
    if (fits) {
      OC_RETURN_IF_ERROR(choose_updates_(row.options, *planned));
    } else if (absl::IsResourceExhausted(planned.status())) {
      planned = fit.Lowered(row.plan);
    }
    if (!planned.ok()) return OkStatus();
    rows_.push_back(AlternativeOf(row.option, row.name, planned->plan, cluster_));
    rows_.back().fits = fits;
    return OkStatus();
  }

  void Finish(const std::string& key, bool open) {
    Explain(key, open, rows_);
    result_.insert(result_.end(), rows_.begin(), rows_.end());
    rows_.clear();
  }

  Status AddRecompute(MemoryFit& fit) {
    RowOf none = AsIs("recompute", "recompute none");
    none.options.recompute.policy = "none";
    none.plan.recomputed.clear();
    OC_ASSIGN_OR_RETURN(const PlannedProgram plain, fit.Lowered(none.plan));
    OC_ASSIGN_OR_RETURN(const PlannedProgram fullest, fit.Fullest(plain));
    if (plan_.recomputed.empty()) {
      AddOwn(none.option, none.name);
    } else {
      OC_RETURN_IF_ERROR(Add(none));
      AddOwn(none.option, absl::StrCat("recompute ", plan_.recompute));
    }
    if (fullest.plan.recomputed != plan_.recomputed) {
      RowOf full = AsIs("recompute", "recompute full");
      full.options.recompute.policy = "full";
      full.plan = fullest.plan;
      OC_RETURN_IF_ERROR(Add(full));
    }
    Finish("parallel.recompute", options_.recompute.policy == "auto");
    return OkStatus();
  }

  Status AddShards() {
    const bool replicas = std::any_of(plan_.stages.begin(), plan_.stages.end(),
                                      [](const StagePlan& s) { return s.vcus.size() > 1; });
    for (int shard = 0; replicas && shard <= 3; ++shard) {
      RowOf row = AsIs("shard", absl::StrCat("shard ", shard));
      row.plan.shard = shard;
      if (shard == plan_.shard) {
        AddOwn(row.option, row.name);
      } else {
        OC_RETURN_IF_ERROR(Add(row));
      }
    }
    Finish("parallel.shard", !options_.shard.has_value());
    return OkStatus();
  }

  Status AddStates() {
    const bool host = AnyApart(cluster_);
    const bool file =
        !options_.offload.path.empty() && costs_.Find(FileKey(/*write=*/true)) != nullptr;
    if (update_ == nullptr || (!host && !file)) return OkStatus();
    bool alike = true;
    for (int v = 0; v < cluster_.size(); ++v) alike &= HomeOf(plan_, v) == HomeOf(plan_, 0);
    if (!alike) AddOwn("offload.optimizer", "states auto");
    for (StateHome home : {StateHome::kDevice, StateHome::kHost, StateHome::kFile}) {
      if (home == StateHome::kHost ? !host : home == StateHome::kFile && !file) continue;
      RowOf row = AsIs("offload.optimizer", absl::StrCat("states ", Name(home)));
      if (alike && home == HomeOf(plan_, 0)) {
        AddOwn(row.option, row.name);
        continue;
      }
      row.options.offload.optimizer = home == StateHome::kDevice ? "none" : Name(home);
      if (home != StateHome::kHost) row.options.offload.update = "auto";
      row.plan.offload.resize(cluster_.vcus.size());
      for (int v = 0; v < cluster_.size(); ++v) {
        VcuOffload& o = row.plan.offload[v];
        o.states = home == StateHome::kHost && cluster_.vcus[v].host_kind.empty()
                       ? StateHome::kDevice
                       : home;
        o.update_on_host = false;
      }
      OC_RETURN_IF_ERROR(Add(row));
    }
    Finish("parallel.offload.optimizer", options_.offload.optimizer == "auto");
    return OkStatus();
  }

  Status AddActivations() {
    if (!AnyApart(cluster_)) return OkStatus();
    const bool away = std::any_of(plan_.offload.begin(), plan_.offload.end(),
                                  [](const VcuOffload& o) { return !o.activations.empty(); });
    const bool open = ActivationsAreOpen(options_.offload);
    RowOf stay = AsIs("offload.activations", "activations stay");
    stay.options.offload.activations.clear();
    for (VcuOffload& o : stay.plan.offload) o.activations.clear();
    if (away) {
      OC_RETURN_IF_ERROR(Add(stay));
      AddOwn(stay.option, open ? "activations auto" : "activations named");
    } else {
      AddOwn(stay.option, stay.name);
    }
    RowOf all = AsIs("offload.activations", "activations away");
    all.options.offload.activations = {"*"};
    all.plan.offload.resize(cluster_.vcus.size());
    OC_ASSIGN_OR_RETURN(const std::vector<int> origins,
                        AskedActivations(all.options.offload, graph_));
    for (int v = 0; v < cluster_.size(); ++v) {
      if (!cluster_.vcus[v].host_kind.empty()) all.plan.offload[v].activations = origins;
    }
    if (all.plan.offload != plan_.offload) OC_RETURN_IF_ERROR(Add(all));
    Finish("parallel.offload.activations", open);
    return OkStatus();
  }

  const Graph& graph_;
  const Graph* update_;
  const ClusterSpec& cluster_;
  const CostTable& costs_;
  const PartitionOptions& options_;
  Plan plan_;
  ChooseUpdates choose_updates_;
  bool own_fits_ = false;
  std::vector<PlanAlternative> rows_;  // of the option that is looked at
  std::vector<PlanAlternative> result_;
};

}  // namespace

StatusOr<std::vector<PlanAlternative>> DynamicGraphPartitioner::Alternatives(
    const Plan& plan, const PartitionOptions& options) const {
  AlternativesTable table(graph_, update_, cluster_, costs_, options, plan,
                          [&](const PartitionOptions& o, PlannedProgram& planned) {
                            return ChooseUpdates(o, planned);
                          });
  return table.Make();
}

}  // namespace oc

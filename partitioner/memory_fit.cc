#include "openclaw/partitioner/memory_fit.h"

#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>

#include "openclaw/graph/amp.h"
#include "openclaw/partitioner/compute_types.h"
#include "openclaw/partitioner/recompute.h"

namespace oc {
namespace {

constexpr int64_t kNoLimit = INT64_MAX;

}  // namespace

std::string BytesLike(int64_t bytes, int64_t like) {
  static constexpr std::pair<const char*, int64_t> kUnits[] = {
      {"GiB", int64_t{1} << 30}, {"GB", 1000000000}, {"MiB", 1 << 20},
      {"MB", 1000000},           {"KiB", 1 << 10},   {"KB", 1000}};
  for (const auto& [unit, size] : kUnits) {
    if (like % size != 0 || like < size) continue;
    return absl::StrFormat("%.2f%s", std::ceil(static_cast<double>(bytes) / size * 100) / 100,
                           unit);
  }
  return absl::StrCat(bytes, " bytes");
}

StatusOr<std::vector<MemoryFit::Limit>> MemoryFit::LimitsFor(const Plan& plain) const {
  const ActivationBudget& budget = options_.recompute.activations;
  // A share means the same whatever schedule is tried: of what the one that keeps least keeps.
  std::vector<VcuPrediction> least = plain.vcus;
  if (budget.percent.has_value() && options_.schedule == "auto" && plain.schedule != "1f1b") {
    Plan other = plain;
    other.schedule = "1f1b";
    OC_ASSIGN_OR_RETURN(const PlannedProgram planned, Lowered(std::move(other)));
    least = planned.plan.vcus;
  }
  std::vector<Limit> limits;
  for (int v = 0; v < cluster_.size(); ++v) {
    Limit limit{cluster_.vcus[v].memory_bytes, kNoLimit};
    if (budget.percent.has_value()) {
      limit.activations = static_cast<int64_t>(
          std::floor(*budget.percent / 100 * static_cast<double>(least[v].activation_bytes)));
    }
    if (budget.bytes.has_value()) limit.activations = std::min(limit.activations, *budget.bytes);
    limits.push_back(limit);
  }
  return limits;
}

int64_t MemoryFit::Excess(const Plan& plan, int stage, const std::vector<Limit>& limits) const {
  int64_t excess = -kNoLimit;
  for (int v : plan.stages[stage].vcus) {
    const VcuPrediction& p = plan.vcus[v];
    excess = std::max(excess, p.state_bytes + p.step_bytes - limits[v].memory);
    if (limits[v].activations == kNoLimit) continue;
    excess = std::max(excess, p.activation_bytes - limits[v].activations);
  }
  return excess;
}

bool MemoryFit::FitsIn(const Plan& plan, const std::vector<Limit>& limits) const {
  for (int s = 0; s < plan.pipeline_depth(); ++s) {
    if (Excess(plan, s, limits) > 0) return false;
  }
  for (size_t v = 0; v < plan.vcus.size(); ++v) {  // also those that have no stage
    if (plan.vcus[v].state_bytes + plan.vcus[v].step_bytes > limits[v].memory) return false;
  }
  return true;
}

StatusOr<bool> MemoryFit::Fits(const Plan& planned) const {
  Plan plain = planned;
  if (options_.recompute.activations.percent.has_value()) {
    plain.recomputed.clear();
    if (ActivationsAreOpen(options_.offload)) {
      for (VcuOffload& o : plain.offload) o.activations.clear();
    }
    OC_ASSIGN_OR_RETURN(const PlannedProgram lowered, Lowered(std::move(plain)));
    plain = lowered.plan;
  }
  OC_ASSIGN_OR_RETURN(const std::vector<Limit> limits, LimitsFor(plain));
  return FitsIn(planned, limits);
}

StatusOr<PlannedProgram> MemoryFit::Lowered(Plan plan, bool keep_budgets) const {
  PlannedProgram planned;
  planned.plan = std::move(plan);
  if (planned.plan.compute_types.empty()) {
    for (const VcuSpec& v : cluster_.vcus) {
      OC_ASSIGN_OR_RETURN(const DType dtype, ComputeTypeFor(graph_, v));
      planned.plan.compute_types.push_back(dtype);
    }
  }
  LowerOptions lower = options_.lower;
  lower.keep_budgets = keep_budgets;
  OC_ASSIGN_OR_RETURN(planned.program,
                      Lower({graph_, update_, planned.plan, cluster_, costs_}, lower));
  OC_ASSIGN_OR_RETURN(planned.simulation,
                      Simulate(planned.program, cluster_, costs_, options_.simulate));
  Predict(planned.simulation, planned.program, cluster_, costs_, planned.plan);
  return planned;
}

Status MemoryFit::TooSmall(const Plan& plain, const std::vector<Limit>& limits,
                           const std::vector<Limit>& least) {
  const std::string& policy = options_.recompute.policy;
  const bool chosen = policy == "auto" || policy == "full";
  const bool moved = ActivationsAreOpen(options_.offload) &&
                     std::any_of(cluster_.vcus.begin(), cluster_.vcus.end(),
                                 [](const VcuSpec& v) { return !v.host_kind.empty(); });
  const std::string plainly = absl::StrCat(chosen ? " without recomputation" : "",
                                           moved ? " with all activations in it" : "");
  std::vector<std::string> tightest;
  if (chosen) tightest.push_back("with the tightest recomputation");
  if (moved) tightest.push_back("as many activations as help with the host");
  if (plain.shard > 0) tightest.push_back(absl::StrCat("parallel.shard ", plain.shard));
  const std::string at_best =
      tightest.empty() ? "" : absl::StrCat(", ", absl::StrJoin(tightest, ", "));
  std::string text;
  short_by_ = 0;
  for (int v = 0; v < cluster_.size(); ++v) {
    const VcuPrediction& p = plain.vcus[v];
    short_by_ = std::max({short_by_, least[v].memory - limits[v].memory,
                          least[v].activations - limits[v].activations});
    const int64_t budget = cluster_.vcus[v].memory_bytes;
    if (least[v].memory > limits[v].memory) {
      const int64_t needed = p.state_bytes + p.step_bytes;
      absl::StrAppend(&text, text.empty() ? "" : "; ", "VCU ", p.name, " needs ",
                      BytesLike(needed, budget), " (", p.state_bytes,
                      " bytes of parameters and optimizer, ", p.step_bytes, " for a step)", plainly,
                      ", its budget is ", BytesLike(budget, budget), ": ", needed - budget,
                      " bytes too many. The smallest budget that can", at_best, ": ",
                      BytesLike(least[v].memory, budget), " (", least[v].memory, " bytes)");
    } else if (least[v].activations > limits[v].activations) {
      const double share = static_cast<double>(least[v].activations) /
                           static_cast<double>(std::max<int64_t>(1, p.activation_bytes));
      absl::StrAppend(&text, text.empty() ? "" : "; ", "VCU ", p.name, " keeps ",
                      p.activation_bytes, " bytes of activations", plainly,
                      ", parallel.activation_budget allows ", limits[v].activations,
                      ". The smallest that can", at_best, ": ",
                      absl::StrFormat("%.2f%%", std::ceil(share * 1e4) / 100), " (",
                      least[v].activations, " bytes)");
    }
  }
  if (text.empty()) text = "memory and parallel.activation_budget do not fit together";
  std::vector<std::string> help;
  if (!chosen) help.push_back("parallel.recompute: auto");
  const bool replicas = std::any_of(plain.stages.begin(), plain.stages.end(),
                                    [](const StagePlan& s) { return s.vcus.size() > 1; });
  if (replicas && options_.shard.has_value() && *options_.shard < 3) {
    help.push_back("parallel.shard: auto");
  }
  if (options_.offload.optimizer == "none") {
    help.push_back("parallel.offload.optimizer: auto, with a folder as parallel.offload.path");
  }
  if (plain.micro_batch > 1) {
    help.push_back(absl::StrCat("a micro-batch below ", plain.micro_batch, " (train.micro_batch)"));
  }
  if (!HalfTypeOf(graph_).has_value()) help.push_back("a half type (precision.amp_level: O2)");
  help.push_back("more VCUs in a chain (comm_options.pipeline_depth)");
  return ResourceExhausted(text, ". What else helps: ", absl::StrJoin(help, ", "));
}

Status MemoryFit::TakeOut(Plan& plan) const {
  OC_ASSIGN_OR_RETURN(plan.offload, AskedOffload(options_.offload, cluster_));
  OC_ASSIGN_OR_RETURN(const std::vector<int> activations,
                      AskedActivations(options_.offload, graph_));
  if (activations.empty()) return OkStatus();
  plan.offload.resize(cluster_.vcus.size());
  for (int v = 0; v < cluster_.size(); ++v) {
    if (!cluster_.vcus[v].host_kind.empty()) plan.offload[v].activations = activations;
  }
  return OkStatus();
}

StatusOr<PlannedProgram> MemoryFit::Fit(Plan plan, bool thorough) {
  OC_RETURN_IF_ERROR(TakeOut(plan));
  if (options_.offload.optimizer != "auto") return FitActivations(std::move(plan), thorough);
  // States leave the memory of the VCUs that are short, one after the other, unless it is faster to
  // let them stay and take out or compute again more of the activations.
  Plan offloaded = plan;
  bool any = false;
  for (;;) {
    OC_ASSIGN_OR_RETURN(const PlannedProgram planned, Lowered(offloaded));
    if (!OffloadWhatIsTooLarge(options_.offload, cluster_, planned.program, offloaded)) break;
    any = true;
  }
  if (!any) return FitActivations(std::move(plan), thorough);
  auto staying = FitActivations(std::move(plan), /*thorough=*/false);
  if (!staying.ok() && !absl::IsResourceExhausted(staying.status())) return staying;
  auto leaving = FitActivations(std::move(offloaded), thorough && !staying.ok());
  if (!staying.ok()) return leaving;
  if (!leaving.ok()) return staying;
  return leaving->plan.predicted_step_seconds < staying->plan.predicted_step_seconds ? leaving
                                                                                     : staying;
}

StatusOr<PlannedProgram> MemoryFit::FitActivations(Plan plan, bool thorough) {
  const RecomputeOptions& recompute = options_.recompute;
  const std::string& policy = recompute.policy;
  if (policy != "auto" && policy != "none" && policy != "marked" && policy != "modules" &&
      policy != "full") {
    return InvalidArgument("parallel.recompute '", policy,
                           "': there are auto, none, marked, full, and names of modules");
  }
  plan.recompute = policy;
  plan.recomputed.clear();
  OC_ASSIGN_OR_RETURN(PlannedProgram planned, Lowered(std::move(plan)));
  OC_ASSIGN_OR_RETURN(const std::vector<Limit> limits, LimitsFor(planned.plan));
  if (policy == "marked" || policy == "modules") {
    OC_ASSIGN_OR_RETURN(const std::vector<bool> nodes, AskedNodes());
    Plan asked = std::move(planned.plan);
    asked.recomputed = ForwardNodesOf(graph_, nodes);
    OC_ASSIGN_OR_RETURN(planned, Lowered(std::move(asked)));
  } else if (policy == "full") {
    OC_ASSIGN_OR_RETURN(planned, Fullest(planned));
  }
  if (FitsIn(planned.plan, limits)) return planned;
  std::vector<Limit> least;
  for (const VcuPrediction& p : planned.plan.vcus) {
    least.push_back({p.state_bytes + p.step_bytes, p.activation_bytes});
  }
  for (bool activations : {true, false}) {
    if (policy != "auto" && !ActivationsAreOpen(options_.offload)) break;
    if (activations && !recompute.activations.any()) continue;
    auto chosen = Choose(planned, limits, activations, thorough ? &least : nullptr);
    if (chosen.ok() || !absl::IsResourceExhausted(chosen.status())) return chosen;
  }
  return TooSmall(planned.plan, limits, least);
}

}  // namespace oc

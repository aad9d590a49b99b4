#include "openclaw/partitioner/memory_fit.h"

#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>

#include "openclaw/graph/amp.h"
#include "openclaw/graph/passes.h"
#include "openclaw/partitioner/compute_types.h"
#include "openclaw/partitioner/offload.h"
#include "openclaw/partitioner/recompute.h"
#include "openclaw/partitioner/schedules/schedule.h"

namespace oc {
namespace {

constexpr int64_t kNoLimit = INT64_MAX;
// Choices of a stage that are lowered at most: the same whatever the budget, so that the smallest
// budget that is told is one that works.
constexpr size_t kLowered = 128;
constexpr int kTries = 4;  // to use what a choice that fits has left over

// Micro-batches of a stage that a VCU has sent forward and not yet back, at most.
StatusOr<int> InFlight(const Plan& plan, int stage, int vcus) {
  OC_ASSIGN_OR_RETURN(const ScheduleFunction schedule, FindSchedule(plan.schedule));
  ScheduleInput input{
      .stages = plan.pipeline_depth(), .micro_batches = plan.micro_batches, .vcus = vcus};
  for (const StagePlan& s : plan.stages) input.owner.push_back(s.owner);
  int most = 1;
  for (const std::vector<Action>& actions : schedule(input)) {
    int now = 0;
    for (const Action& a : actions) {
      if (a.stage != stage) continue;
      now += a.kind == Action::Kind::kForward ? 1 : -1;
      most = std::max(most, now);
    }
  }
  return most;
}

// As many as are lowered, evenly by their bytes, the first and the last among them.
std::vector<RecomputeChoice> Thinned(std::vector<RecomputeChoice> choices) {
  if (choices.size() <= kLowered) return choices;
  const double first = static_cast<double>(choices.front().peak_bytes);
  const double step = (first - static_cast<double>(choices.back().peak_bytes)) / (kLowered - 1);
  std::vector<RecomputeChoice> thin;
  for (size_t i = 0; i < choices.size(); ++i) {
    const bool last = i + 1 == choices.size();
    const double wanted = first - step * static_cast<double>(thin.size());
    if (last || static_cast<double>(choices[i].peak_bytes) <= wanted) {
      thin.push_back(std::move(choices[i]));
    }
  }
  return thin;
}

// The first choice from `from` on that takes at most `bytes`; the last where none does.
size_t FirstWithin(const std::vector<RecomputeChoice>& choices, size_t from, int64_t bytes) {
  while (from + 1 < choices.size() && choices[from].peak_bytes > bytes) ++from;
  return from;
}

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

bool MemoryFit::Fits(const Plan& plan, const std::vector<Limit>& limits) const {
  for (int s = 0; s < plan.pipeline_depth(); ++s) {
    if (Excess(plan, s, limits) > 0) return false;
  }
  for (size_t v = 0; v < plan.vcus.size(); ++v) {  // also those that have no stage
    if (plan.vcus[v].state_bytes + plan.vcus[v].step_bytes > limits[v].memory) return false;
  }
  return true;
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

StatusOr<std::vector<MemoryFit::StageChoices>> MemoryFit::ChoicesFor(const PlannedProgram& plain,
                                                                     const std::vector<int>& stages,
                                                                     bool activations) {
  TypedGraphs typed(graph_);
  std::vector<StageChoices> result;
  for (int s : stages) {
    const StagePlan& stage = plain.plan.stages[s];
    const int vcu = *std::min_element(stage.vcus.begin(), stage.vcus.end(), [&](int a, int b) {
      return cluster_.vcus[a].memory_bytes < cluster_.vcus[b].memory_bytes;
    });
    OC_ASSIGN_OR_RETURN(const int in_flight, InFlight(plain.plan, s, cluster_.size()));
    const std::string& kind = cluster_.vcus[vcu].kind;
    auto [at, is_new] =
        known_.try_emplace({stage.first_origin, stage.last_origin, kind, in_flight, activations});
    if (is_new) {
      OC_ASSIGN_OR_RETURN(const Graph* graph, typed.In(plain.plan.compute_types[vcu]));
      OC_ASSIGN_OR_RETURN(const StageAnalysis analysis, AnalyzeStages(*graph, plain.plan, {}));
      OC_ASSIGN_OR_RETURN(at->second, RecomputeChoices({*graph, analysis, s, kind, costs_,
                                                        in_flight, activations}));
      at->second = Thinned(std::move(at->second));
    }
    result.push_back({s, at->second});
  }
  return result;
}

StatusOr<PlannedProgram> MemoryFit::With(const Plan& plan,
                                         const std::vector<StageChoices>& stages) const {
  std::vector<bool> nodes(graph_.nodes.size(), false);
  for (const StageChoices& s : stages) {
    for (int id : s.choices[s.at].nodes) nodes[id] = true;
  }
  Plan chosen = plan;
  chosen.recomputed = ForwardNodesOf(graph_, nodes);
  return Lowered(std::move(chosen));
}

StatusOr<PlannedProgram> MemoryFit::Choose(const PlannedProgram& plain,
                                           const std::vector<Limit>& limits, bool activations,
                                           std::vector<Limit>* least) {
  std::vector<int> short_stages;
  for (int s = 0; s < plain.plan.pipeline_depth(); ++s) {
    if (Excess(plain.plan, s, limits) > 0) short_stages.push_back(s);
  }
  OC_ASSIGN_OR_RETURN(std::vector<StageChoices> stages,
                      ChoicesFor(plain, short_stages, activations));
  for (StageChoices& s : stages) {
    s.at = FirstWithin(s.choices, 0, s.choices[0].peak_bytes - Excess(plain.plan, s.stage, limits));
  }
  for (bool stuck = false; !stuck;) {
    OC_ASSIGN_OR_RETURN(PlannedProgram planned, With(plain.plan, stages));
    if (Fits(planned.plan, limits)) return Loosened(std::move(planned), std::move(stages), limits);
    stuck = true;
    for (StageChoices& s : stages) {
      const int64_t excess = Excess(planned.plan, s.stage, limits);
      if (excess <= 0 || s.at + 1 >= s.choices.size()) continue;
      s.at = FirstWithin(s.choices, s.at + 1, s.choices[s.at].peak_bytes - excess);
      stuck = false;
    }
  }
  if (least == nullptr) return ResourceExhausted("plan: no choice fits");
  return ByTryingAll(plain, limits, std::move(stages), *least);
}

// What the model of memory was too careful about is given back.
StatusOr<PlannedProgram> MemoryFit::Loosened(PlannedProgram planned,
                                             std::vector<StageChoices> stages,
                                             const std::vector<Limit>& limits) const {
  std::vector<size_t> wanted;
  for (const StageChoices& s : stages) {
    const int64_t rest = -Excess(planned.plan, s.stage, limits);
    wanted.push_back(std::min(s.at, FirstWithin(s.choices, 0, s.choices[s.at].peak_bytes + rest)));
  }
  for (int tries = 0; tries < kTries; ++tries) {
    std::vector<StageChoices> looser = stages;
    bool any = false;
    for (size_t i = 0; i < stages.size(); ++i) {
      looser[i].at = std::min(wanted[i], stages[i].at);
      any |= looser[i].at != stages[i].at;
    }
    if (!any) break;
    OC_ASSIGN_OR_RETURN(PlannedProgram trial, With(planned.plan, looser));
    if (Fits(trial.plan, limits)) {
      planned = std::move(trial);
      stages = std::move(looser);
      break;
    }
    for (size_t i = 0; i < stages.size(); ++i) {  // nearer to what is known to fit
      if (Excess(trial.plan, stages[i].stage, limits) > 0) {
        wanted[i] = (looser[i].at + stages[i].at + 1) / 2;
      }
    }
  }
  return planned;
}

// A stage's arenas hang on its own choice alone, so that all stages try theirs at once.
StatusOr<PlannedProgram> MemoryFit::ByTryingAll(const PlannedProgram& plain,
                                                const std::vector<Limit>& limits,
                                                std::vector<StageChoices> stages,
                                                std::vector<Limit>& least) const {
  std::vector<std::optional<size_t>> fits(stages.size());
  size_t most = 0;
  for (const StageChoices& s : stages) most = std::max(most, s.choices.size());
  for (size_t k = 0; k < most; ++k) {
    for (StageChoices& s : stages) s.at = std::min(k, s.choices.size() - 1);
    OC_ASSIGN_OR_RETURN(const PlannedProgram planned, With(plain.plan, stages));
    for (size_t v = 0; v < least.size(); ++v) {
      const VcuPrediction& p = planned.plan.vcus[v];
      least[v].memory = std::min(least[v].memory, p.state_bytes + p.step_bytes);
      least[v].activations = std::min(least[v].activations, p.activation_bytes);
    }
    for (size_t i = 0; i < stages.size(); ++i) {
      if (!fits[i] && Excess(planned.plan, stages[i].stage, limits) <= 0) fits[i] = stages[i].at;
    }
  }
  for (size_t i = 0; i < stages.size(); ++i) {
    if (!fits[i]) return ResourceExhausted("plan: stage ", stages[i].stage, " does not fit");
    stages[i].at = *fits[i];
  }
  return With(plain.plan, stages);
}

Status MemoryFit::TooSmall(const Plan& plain, const std::vector<Limit>& limits,
                           const std::vector<Limit>& least) {
  const std::string& policy = options_.recompute.policy;
  const bool chosen = policy == "auto" || policy == "full";
  std::string text;
  short_by_ = 0;
  for (int v = 0; v < cluster_.size(); ++v) {
    const VcuPrediction& p = plain.vcus[v];
    short_by_ = std::max({short_by_, least[v].memory - limits[v].memory,
                          least[v].activations - limits[v].activations});
    const int64_t budget = cluster_.vcus[v].memory_bytes;
    if (least[v].memory > limits[v].memory) {
      const int64_t needed = p.state_bytes + p.step_bytes;
      absl::StrAppend(
          &text, text.empty() ? "" : "; ", "VCU ", p.name, " needs ", BytesLike(needed, budget),
          " (", p.state_bytes, " bytes of parameters and optimizer, ", p.step_bytes, " for a step)",
          chosen ? " without recomputation" : "", ", its budget is ", BytesLike(budget, budget),
          ": ", needed - budget, " bytes too many. The smallest budget that can",
          chosen ? ", with the tightest recomputation" : "", ": ",
          BytesLike(least[v].memory, budget), " (", least[v].memory, " bytes)");
    } else if (least[v].activations > limits[v].activations) {
      const double share = static_cast<double>(least[v].activations) /
                           static_cast<double>(std::max<int64_t>(1, p.activation_bytes));
      absl::StrAppend(&text, text.empty() ? "" : "; ", "VCU ", p.name, " keeps ",
                      p.activation_bytes, " bytes of activations without recomputation, ",
                      "parallel.activation_budget allows ", limits[v].activations,
                      ". The smallest that can, with the tightest recomputation: ",
                      absl::StrFormat("%.2f%%", std::ceil(share * 1e4) / 100), " (",
                      least[v].activations, " bytes)");
    }
  }
  if (text.empty()) text = "memory and parallel.activation_budget do not fit together";
  std::vector<std::string> help;
  if (!chosen) help.push_back("parallel.recompute: auto");
  if (plain.micro_batch > 1) {
    help.push_back(absl::StrCat("a micro-batch below ", plain.micro_batch, " (train.micro_batch)"));
  }
  if (!HalfTypeOf(graph_).has_value()) help.push_back("a half type (precision.amp_level: O2)");
  help.push_back("more VCUs in a chain (comm_options.pipeline_depth)");
  return ResourceExhausted(text, ". What else helps: ", absl::StrJoin(help, ", "));
}

StatusOr<PlannedProgram> MemoryFit::Fullest(const PlannedProgram& plain) {
  std::vector<int> all;
  for (int s = 0; s < plain.plan.pipeline_depth(); ++s) all.push_back(s);
  OC_ASSIGN_OR_RETURN(std::vector<StageChoices> stages,
                      ChoicesFor(plain, all, /*activations=*/false));
  for (StageChoices& s : stages) s.at = s.choices.size() - 1;
  return With(plain.plan, stages);
}

Status MemoryFit::TakeOut(Plan& plan) const {
  OC_ASSIGN_OR_RETURN(plan.offload, AskedOffload(options_.offload, cluster_));
  if (options_.offload.activations.empty()) return OkStatus();
  plan.offload.resize(cluster_.vcus.size());
  TypedGraphs typed(graph_);
  for (int v = 0; v < cluster_.size(); ++v) {
    if (cluster_.vcus[v].host_kind.empty()) continue;
    OC_ASSIGN_OR_RETURN(const DType dtype, ComputeTypeFor(graph_, cluster_.vcus[v]));
    OC_ASSIGN_OR_RETURN(const Graph* own, typed.In(dtype));
    OC_ASSIGN_OR_RETURN(plan.offload[v].activations,
                        ActivationsOf(options_.offload, *own, plan, v, cluster_, costs_));
  }
  return OkStatus();
}

StatusOr<PlannedProgram> MemoryFit::Fit(Plan plan, bool thorough) {
  OC_RETURN_IF_ERROR(TakeOut(plan));
  if (options_.offload.optimizer != "auto") return FitRecomputing(std::move(plan), thorough);
  // States leave the memory of the VCUs that are short, one after the other, unless it is faster to
  // let them stay and compute more again.
  Plan offloaded = plan;
  bool any = false;
  for (;;) {
    OC_ASSIGN_OR_RETURN(const PlannedProgram planned, Lowered(offloaded));
    if (!OffloadWhatIsTooLarge(options_.offload, cluster_, planned.program, offloaded)) break;
    any = true;
  }
  if (!any) return FitRecomputing(std::move(plan), thorough);
  auto staying = FitRecomputing(std::move(plan), /*thorough=*/false);
  if (!staying.ok() && !absl::IsResourceExhausted(staying.status())) return staying;
  auto leaving = FitRecomputing(std::move(offloaded), thorough && !staying.ok());
  if (!staying.ok()) return leaving;
  if (!leaving.ok()) return staying;
  return leaving->plan.predicted_step_seconds < staying->plan.predicted_step_seconds ? leaving
                                                                                     : staying;
}

StatusOr<PlannedProgram> MemoryFit::FitRecomputing(Plan plan, bool thorough) {
  const RecomputeOptions& recompute = options_.recompute;
  plan.recompute = recompute.policy;
  plan.recomputed.clear();
  OC_ASSIGN_OR_RETURN(const PlannedProgram plain, Lowered(std::move(plan)));
  OC_ASSIGN_OR_RETURN(const std::vector<Limit> limits, LimitsFor(plain.plan));
  std::vector<Limit> least;
  const auto note = [&](const Plan& p) {
    least.resize(p.vcus.size(), {kNoLimit, kNoLimit});
    for (size_t v = 0; v < p.vcus.size(); ++v) {
      least[v].memory = std::min(least[v].memory, p.vcus[v].state_bytes + p.vcus[v].step_bytes);
      least[v].activations = std::min(least[v].activations, p.vcus[v].activation_bytes);
    }
  };
  const auto checked = [&](PlannedProgram planned) -> StatusOr<PlannedProgram> {
    if (Fits(planned.plan, limits)) return planned;
    note(planned.plan);
    return TooSmall(planned.plan, limits, least);
  };
  if (recompute.policy == "none") return checked(plain);
  if (recompute.policy == "marked" || recompute.policy == "modules") {
    std::vector<bool> nodes = MarkedNodes(graph_);
    if (recompute.policy == "modules") {
      OC_ASSIGN_OR_RETURN(nodes, NodesOfModules(graph_, recompute.modules));
    }
    Plan chosen = plain.plan;
    chosen.recomputed = ForwardNodesOf(graph_, nodes);
    OC_ASSIGN_OR_RETURN(PlannedProgram planned, Lowered(std::move(chosen)));
    return checked(std::move(planned));
  }
  if (recompute.policy == "full") {
    OC_ASSIGN_OR_RETURN(PlannedProgram planned, Fullest(plain));
    return checked(std::move(planned));
  }
  if (recompute.policy != "auto") {
    return InvalidArgument("parallel.recompute '", recompute.policy,
                           "': there are auto, none, marked, full, and names of modules");
  }
  if (Fits(plain.plan, limits)) return plain;
  note(plain.plan);
  for (bool activations : {true, false}) {
    if (activations && !recompute.activations.any()) continue;
    auto planned = Choose(plain, limits, activations, thorough ? &least : nullptr);
    if (planned.ok() || !absl::IsResourceExhausted(planned.status())) return planned;
  }
  return TooSmall(plain.plan, limits, least);
}

}  // namespace oc

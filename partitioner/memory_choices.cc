// MemoryFit: the search for what is computed again and what waits with the host.
#include <algorithm>
#include <cmath>
#include <optional>

#include "openclaw/graph/passes.h"
#include "openclaw/partitioner/compute_types.h"
#include "openclaw/partitioner/memory_fit.h"
#include "openclaw/partitioner/recompute.h"
#include "openclaw/partitioner/schedules/schedule.h"

namespace oc {
namespace {

// Choices of a stage that are lowered at most: the same whatever the budget, so that the smallest
// budget that is told is one that works.
constexpr size_t kLowered = 128;
constexpr int kTries = 4;         // to use what a choice that fits has left over
constexpr int kChanges = 64;      // of what is away
constexpr double kFaster = 1e-6;  // a change must be: a part of the step

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

StatusOr<std::vector<RecomputeChoice>> MemoryFit::AllChoicesOf(const PlannedProgram& plain,
                                                               int stage, bool activations,
                                                               const std::vector<int>& away) {
  const StagePlan& s = plain.plan.stages[stage];
  const int vcu = *std::min_element(s.vcus.begin(), s.vcus.end(), [&](int a, int b) {
    return cluster_.vcus[a].memory_bytes < cluster_.vcus[b].memory_bytes;
  });
  OC_ASSIGN_OR_RETURN(const int in_flight, InFlight(plain.plan, stage, cluster_.size()));
  const VcuSpec& spec = cluster_.vcus[vcu];
  // One whose memory is the host's keeps what the others of its stage send there.
  const std::vector<int> gone = spec.host_kind.empty() ? std::vector<int>() : away;
  auto [at, is_new] =
      known_.try_emplace({s.first_origin, s.last_origin, spec.kind, in_flight, activations, gone});
  if (is_new) {
    TypedGraphs typed(graph_);
    OC_ASSIGN_OR_RETURN(const Graph* graph, typed.In(plain.plan.compute_types[vcu]));
    OC_ASSIGN_OR_RETURN(const StageAnalysis analysis, AnalyzeStages(*graph, plain.plan, {}));
    OC_ASSIGN_OR_RETURN(at->second, RecomputeChoices({*graph, analysis, stage, spec.kind, costs_,
                                                      in_flight, activations, gone}));
    at->second = Thinned(std::move(at->second));
  }
  std::vector<RecomputeChoice> choices = at->second;
  for (RecomputeChoice& c : choices) c.away = away;
  return choices;
}

StatusOr<std::vector<bool>> MemoryFit::AskedNodes() const {
  if (options_.recompute.policy == "marked") return MarkedNodes(graph_);
  return NodesOfModules(graph_, options_.recompute.modules);
}

StatusOr<std::vector<RecomputeChoice>> MemoryFit::ChoicesOf(const PlannedProgram& plain, int stage,
                                                            bool activations,
                                                            const std::vector<int>& away) {
  const std::string& policy = options_.recompute.policy;
  if (policy == "none") return std::vector<RecomputeChoice>{{.away = away}};
  if (policy == "marked" || policy == "modules") {
    OC_ASSIGN_OR_RETURN(const std::vector<bool> nodes, AskedNodes());
    RecomputeChoice choice{.away = away};
    for (const Node& node : graph_.nodes) {
      if (nodes[node.id] && StageOf(plain.plan, node) == stage) choice.nodes.push_back(node.id);
    }
    return std::vector<RecomputeChoice>{std::move(choice)};
  }
  OC_ASSIGN_OR_RETURN(auto choices, AllChoicesOf(plain, stage, activations, away));
  if (policy == "full") choices.erase(choices.begin(), choices.end() - 1);
  return choices;
}

StatusOr<PlannedProgram> MemoryFit::With(const Plan& plan,
                                         const std::vector<StageChoices>& stages) const {
  std::vector<bool> nodes(graph_.nodes.size(), false);
  Plan chosen = plan;
  if (ActivationsAreOpen(options_.offload)) {
    for (VcuOffload& o : chosen.offload) o.activations.clear();
  }
  for (const StageChoices& s : stages) {
    const RecomputeChoice& choice = s.choices[s.at];
    for (int id : choice.nodes) nodes[id] = true;
    if (choice.away.empty()) continue;
    chosen.offload.resize(cluster_.vcus.size());
    for (int v : plan.stages[s.stage].vcus) {
      if (cluster_.vcus[v].host_kind.empty()) continue;
      std::vector<int>& activations = chosen.offload[v].activations;
      activations.insert(activations.end(), choice.away.begin(), choice.away.end());
      std::sort(activations.begin(), activations.end());
    }
  }
  chosen.recomputed = ForwardNodesOf(graph_, nodes);
  return Lowered(std::move(chosen));
}

StatusOr<MemoryFit::WaysOut> MemoryFit::WaysOutOf(const Plan& plan, int stage) const {
  WaysOut ways;
  if (!ActivationsAreOpen(options_.offload)) return ways;
  for (int v : plan.stages[stage].vcus) {
    const VcuSpec& spec = cluster_.vcus[v];
    if (spec.host_kind.empty()) continue;
    TypedGraphs typed(graph_);
    OC_ASSIGN_OR_RETURN(const Graph* graph, typed.In(plan.compute_types[v]));
    OC_ASSIGN_OR_RETURN(const StageAnalysis analysis, AnalyzeStages(*graph, plan, {}));
    OC_ASSIGN_OR_RETURN(ways.items, AwayItems(*graph, analysis, stage, spec, costs_));
    ways.levels = AwayLevels(ways.items);
    break;
  }
  return ways;
}

StatusOr<PlannedProgram> MemoryFit::Within(const PlannedProgram& plain,
                                           const std::vector<Limit>& limits,
                                           std::vector<StageChoices> stages) const {
  for (StageChoices& s : stages) {
    // What is away already counts in the estimates, not in the plain plan.
    if (!s.choices[0].away.empty()) continue;
    s.at = FirstWithin(s.choices, 0, s.choices[0].peak_bytes - Excess(plain.plan, s.stage, limits));
  }
  for (bool stuck = false; !stuck;) {
    OC_ASSIGN_OR_RETURN(PlannedProgram planned, With(plain.plan, stages));
    if (FitsIn(planned.plan, limits)) {
      return Loosened(std::move(planned), std::move(stages), limits);
    }
    stuck = true;
    for (StageChoices& s : stages) {
      const int64_t excess = Excess(planned.plan, s.stage, limits);
      if (excess <= 0 || s.at + 1 >= s.choices.size()) continue;
      s.at = FirstWithin(s.choices, s.at + 1, s.choices[s.at].peak_bytes - excess);
      stuck = false;
    }
  }
  return ResourceExhausted("plan: no choice fits");
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
    if (FitsIn(trial.plan, limits)) {
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

Status MemoryFit::TryAways(Search& search, const Aways& aways) {
  std::vector<StageChoices> stages;
  for (size_t i = 0; i < search.stages.size(); ++i) {
    OC_ASSIGN_OR_RETURN(auto choices,
                        ChoicesOf(search.plain, search.stages[i], search.activations, aways[i]));
    stages.push_back({search.stages[i], std::move(choices)});
  }
  auto planned = Within(search.plain, search.limits, std::move(stages));
  if (absl::IsResourceExhausted(planned.status())) return OkStatus();
  OC_RETURN_IF_ERROR(planned.status());
  const double seconds = planned->plan.predicted_step_seconds;
  if (search.best.has_value() &&
      seconds >= search.best->plan.predicted_step_seconds * (1 - kFaster)) {
    return OkStatus();
  }
  search.best = *std::move(planned);
  search.aways = aways;
  return OkStatus();
}

// From the best on, the largest first: another level of one stage, one node that goes or stays.
Status MemoryFit::ChangeAways(Search& search) {
  int tried = 0;
  const auto better = [&](const Aways& aways) -> StatusOr<bool> {
    const double before = search.best->plan.predicted_step_seconds;
    ++tried;
    OC_RETURN_IF_ERROR(TryAways(search, aways));
    return search.best->plan.predicted_step_seconds < before;
  };
  for (bool any = true; any;) {
    any = false;
    for (size_t i = 0; i < search.stages.size(); ++i) {
      std::vector<std::vector<int>> sets;
      if (search.stages.size() > 1) sets = search.ways[i].levels;
      std::vector<AwayItem> items = search.ways[i].items;
      std::stable_sort(items.begin(), items.end(),
                       [](const AwayItem& a, const AwayItem& b) { return a.bytes > b.bytes; });
      for (size_t k = 0; k < sets.size() + items.size(); ++k) {
        if (tried >= kChanges || late()) return OkStatus();
        Aways aways = search.aways;
        std::vector<int>& set = aways[i];
        if (k < sets.size()) {
          if (set == sets[k]) continue;
          set = sets[k];
        } else {
          const int origin = items[k - sets.size()].origin;
          const auto at = std::lower_bound(set.begin(), set.end(), origin);
          if (at != set.end() && *at == origin) {
            set.erase(at);
          } else {
            set.insert(at, origin);
          }
        }
        OC_ASSIGN_OR_RETURN(const bool gained, better(aways));
        any |= gained;
      }
    }
  }
  return OkStatus();
}

StatusOr<PlannedProgram> MemoryFit::Choose(const PlannedProgram& plain,
                                           const std::vector<Limit>& limits, bool activations,
                                           std::vector<Limit>* least) {
  Search search{.plain = plain, .limits = limits, .activations = activations};
  size_t most = 1;
  const bool open = options_.recompute.policy == "auto";
  for (int s = 0; s < plain.plan.pipeline_depth(); ++s) {
    const bool is_short = Excess(plain.plan, s, limits) > 0;
    if (open && !is_short) continue;
    search.stages.push_back(s);
    OC_ASSIGN_OR_RETURN(WaysOut ways, WaysOutOf(plain.plan, s));
    search.ways.push_back(std::move(ways));
    most = std::max(most, search.ways.back().levels.size());
  }
  for (size_t level = 0; level < most; ++level) {
    if (search.best.has_value() && late()) break;
    Aways aways;
    for (const WaysOut& w : search.ways) {
      aways.push_back(w.levels[std::min(level, w.levels.size() - 1)]);
    }
    OC_RETURN_IF_ERROR(TryAways(search, aways));
    // What was asked for fits as it is.
    if (!open && level == 0 && search.best.has_value()) break;
  }
  if (search.best.has_value()) {
    if (most > 1 && (open || search.aways != Aways(search.stages.size()))) {
      OC_RETURN_IF_ERROR(ChangeAways(search));
    }
    return *std::move(search.best);
  }
  if (least == nullptr) return ResourceExhausted("plan: no choice fits");
  return ByTryingAll(search, *least);
}

// A stage's arenas hang on its own choice alone, so that all stages try theirs at once.
StatusOr<PlannedProgram> MemoryFit::ByTryingAll(Search& search, std::vector<Limit>& least) {
  std::vector<StageChoices> stages;
  size_t most = 0;
  for (size_t i = 0; i < search.stages.size(); ++i) {
    StageChoices all{.stage = search.stages[i]};
    const std::vector<std::vector<int>>& levels = search.ways[i].levels;
    const size_t each = std::max<size_t>(1, kLowered / levels.size());
    for (const std::vector<int>& away : levels) {
      OC_ASSIGN_OR_RETURN(auto choices,
                          ChoicesOf(search.plain, all.stage, search.activations, away));
      // The last of each, which take least, among them.
      const size_t step = (choices.size() + each - 1) / each;
      for (size_t k = (choices.size() - 1) % step; k < choices.size(); k += step) {
        all.choices.push_back(std::move(choices[k]));
      }
    }
    most = std::max(most, all.choices.size());
    stages.push_back(std::move(all));
  }
  std::vector<std::optional<size_t>> fits(stages.size());
  for (size_t k = 0; k < most; ++k) {
    for (StageChoices& s : stages) s.at = std::min(k, s.choices.size() - 1);
    OC_ASSIGN_OR_RETURN(const PlannedProgram planned, With(search.plain.plan, stages));
    for (size_t v = 0; v < least.size(); ++v) {
      const VcuPrediction& p = planned.plan.vcus[v];
      least[v].memory = std::min(least[v].memory, p.state_bytes + p.step_bytes);
      least[v].activations = std::min(least[v].activations, p.activation_bytes);
    }
    for (size_t i = 0; i < stages.size(); ++i) {
      if (!fits[i] && Excess(planned.plan, stages[i].stage, search.limits) <= 0) {
        fits[i] = stages[i].at;
      }
    }
  }
  for (size_t i = 0; i < stages.size(); ++i) {
    if (!fits[i]) return ResourceExhausted("plan: stage ", stages[i].stage, " does not fit");
    stages[i].at = *fits[i];
  }
  OC_ASSIGN_OR_RETURN(PlannedProgram planned, With(search.plain.plan, stages));
  if (!FitsIn(planned.plan, search.limits)) return ResourceExhausted("plan: no choice fits");
  return planned;
}

StatusOr<PlannedProgram> MemoryFit::Fullest(const PlannedProgram& plain) {
  std::vector<StageChoices> stages;
  for (int s = 0; s < plain.plan.pipeline_depth(); ++s) {
    OC_ASSIGN_OR_RETURN(auto choices, AllChoicesOf(plain, s, /*activations=*/false, {}));
    const size_t last = choices.size() - 1;
    stages.push_back({s, std::move(choices), last});
  }
  return With(plain.plan, stages);
}

}  // namespace oc

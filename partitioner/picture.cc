#include "openclaw/partitioner/picture.h"

#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <map>
#include <set>

#include "openclaw/partitioner/recompute.h"

#include "openclaw/partitioner/offload.h"

namespace oc {
namespace {

const char* Colour(const Command& c) {
  switch (c.kind) {
    case CommandKind::kCompute:
      if (c.name[0] == 'F') return "#4e79a7";
      if (c.name[0] == 'B') return "#59a14f";
      if (c.name[0] == 'N') return "#bab0ac";
      return "#b07aa1";
    case CommandKind::kSend:
    case CommandKind::kRecv:
      return "#f28e2b";
    case CommandKind::kCollective:
      return "#e15759";
    default:
      return "#9c9ede";
  }
}

std::string Modules(const Graph& graph, const StagePlan& stage) {
  std::vector<std::string> scopes;
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kForward || node.origin < stage.first_origin ||
        node.origin > stage.last_origin || node.scope.empty()) {
      continue;
    }
    if (scopes.empty() || scopes.back() != node.scope) scopes.push_back(node.scope);
  }
  if (scopes.empty()) return "-";
  return scopes.size() == 1 ? scopes[0] : absl::StrCat(scopes.front(), " .. ", scopes.back());
}

// Bytes of what the VCUs hold of a list of entries: all together, each name whole and once, and the
// most that one of them has.
std::pair<int64_t, int64_t> HeldBytes(const Program& program, const std::vector<int>& vcus,
                                      const std::vector<StateEntry> VcuProgram::*list) {
  std::map<std::string, int64_t> whole;
  int64_t most = 0;
  for (int vcu : vcus) {
    int64_t held = 0;
    for (const StateEntry& e : program.vcus[vcu].*list) {
      whole[e.name] = e.type.bytes();
      held += e.range.bytes;
    }
    most = std::max(most, held);
  }
  int64_t sum = 0;
  for (const auto& [name, bytes] : whole) sum += bytes;
  return {sum, most};
}

// What dividing state over the replicas saves, stage by stage.
std::string ShardText(const PlannedProgram& planned) {
  std::string text;
  const Plan& plan = planned.plan;
  for (int s = 0; plan.shard > 0 && s < plan.pipeline_depth(); ++s) {
    const std::vector<int>& vcus = plan.stages[s].vcus;
    if (vcus.size() < 2) continue;
    const auto [state, most_state] = HeldBytes(planned.program, vcus, &VcuProgram::state);
    const auto [sums, most_sums] = HeldBytes(planned.program, vcus, &VcuProgram::gradients);
    absl::StrAppendFormat(
        &text,
        "  shard %d: of stage %d's %.2f MiB of parameters and optimizer states each of %d replicas "
        "keeps at most %.2f, of %.2f MiB of gradients %.2f\n",
        plan.shard, s, state / 1048576.0, vcus.size(), most_state / 1048576.0, sums / 1048576.0,
        most_sums / 1048576.0);
  }
  return text;
}

// "recompute auto: in stage 0 12 gelu, 24 layer_norm are computed again in backward"
std::string Recomputed(const Plan& plan, const Graph& graph) {
  std::string text;
  const auto nodes = NodesOf(graph, plan.recomputed);
  for (int s = 0; nodes.ok() && s < plan.pipeline_depth(); ++s) {
    std::map<std::string, int> ops;
    for (const Node& node : graph.nodes) {
      if ((*nodes)[node.id] && StageOf(plan, node) == s) ++ops[node.def->name];
    }
    std::vector<std::string> list;
    for (const auto& [op, count] : ops) list.push_back(absl::StrCat(count, " ", op));
    if (list.empty()) continue;
    absl::StrAppend(&text, "  recompute ", plan.recompute, ": in stage ", s, " ",
                    absl::StrJoin(list, ", "), " are computed again in backward\n");
  }
  return text;
}

}  // namespace

std::string PlanText(const PlannedProgram& planned, const Graph& graph,
                     const ClusterSpec& cluster) {
  const Plan& plan = planned.plan;
  std::string text = absl::StrFormat(
      "%d stages, schedule %s, %d micro-batches of %d samples, predicted %.3f ms a step\n",
      plan.pipeline_depth(), plan.schedule, plan.micro_batches, plan.micro_batch,
      plan.predicted_step_seconds * 1e3);
  for (int s = 0; s < plan.pipeline_depth(); ++s) {
    const StagePlan& stage = plan.stages[s];
    std::vector<std::string> replicas;
    for (int v : stage.vcus) {
      replicas.push_back(absl::StrCat(cluster.vcus[v].name, " x",
                                      std::count(stage.owner.begin(), stage.owner.end(), v)));
    }
    absl::StrAppendFormat(&text, "  stage %d: %s\n    on %s\n", s, Modules(graph, stage),
                          absl::StrJoin(replicas, ", "));
  }
  absl::StrAppend(&text, Recomputed(plan, graph));
  absl::StrAppendFormat(&text, "  %-16s %12s %10s %14s %14s\n", "vcu", "step ms", "bubble",
                        "state MiB", "step MiB");
  for (const VcuPrediction& v : plan.vcus) {
    absl::StrAppendFormat(&text, "  %-16s %12.3f %9.1f%% %14.2f %14.2f\n", v.name,
                          v.step_seconds * 1e3, v.bubble_fraction * 100, v.state_bytes / 1048576.0,
                          v.step_bytes / 1048576.0);
  }
  text += ShardText(planned);
  for (const Substitute& s : plan.substitutes) {
    absl::StrAppendFormat(&text, "  %s lacks %s: %s; %d calls, %.3f ms a step\n", s.vcu, s.op, s.by,
                          s.calls, s.seconds * 1e3);
  }
  for (const std::string& line : OffloadLines(plan)) absl::StrAppend(&text, "  ", line, "\n");
  for (const NotDeterministic& n : plan.not_deterministic) {
    absl::StrAppendFormat(&text,
                          "  %s: %s may not repeat its results bit by bit; %d calls a step\n",
                          n.vcu, n.op, n.calls);
  }
  for (const std::string& line : plan.advice) absl::StrAppend(&text, "  advice: ", line, "\n");
  return text;
}

std::string MemoryText(const Plan& plan) {
  std::vector<int> uses;  // that something is used for
  for (int u = 0; u < kMemoryUses; ++u) {
    const bool used = std::any_of(plan.vcus.begin(), plan.vcus.end(),
                                  [&](const auto& v) { return v.memory.bytes[u] != 0; });
    if (used) uses.push_back(u);
  }
  std::string text = absl::StrFormat("memory when the arenas are fullest, MiB\n  %-16s", "vcu");
  for (int u : uses) absl::StrAppendFormat(&text, " %13s", Name(static_cast<MemoryUse>(u)));
  absl::StrAppendFormat(&text, " %13s %16s %10s\n", "= arenas", "activations <=", "host");
  for (const VcuPrediction& v : plan.vcus) {
    absl::StrAppendFormat(&text, "  %-16s", v.name);
    for (int u : uses) absl::StrAppendFormat(&text, " %13.2f", v.memory.bytes[u] / 1048576.0);
    absl::StrAppendFormat(&text, " %13.2f %16.2f %10.2f\n",
                          (v.state_bytes + v.step_bytes) / 1048576.0,
                          v.activation_bytes / 1048576.0, v.host_bytes / 1048576.0);
  }
  return text;
}

std::string AlternativesText(const std::vector<PlanAlternative>& alternatives) {
  size_t wide = 16;
  for (const PlanAlternative& a : alternatives) wide = std::max(wide, a.name.size());
  std::string text = absl::StrFormat(
      "  %-*s %6s %12s %16s  arenas MiB: %s\n", static_cast<int>(wide), "with", "fits", "step ms",
      "activations MiB", alternatives.empty() ? "" : absl::StrJoin(alternatives[0].vcus, " "));
  for (const PlanAlternative& a : alternatives) {
    std::string peaks;
    for (int64_t bytes : a.peak_bytes) absl::StrAppendFormat(&peaks, " %.2f", bytes / 1048576.0);
    absl::StrAppendFormat(&text, "  %-*s %6s %12.3f %16.2f %s%s%s%s\n", static_cast<int>(wide),
                          a.name, a.fits ? "yes" : "no", a.step_seconds * 1e3,
                          a.activation_bytes / 1048576.0, peaks, a.chosen ? "  this plan" : "",
                          a.why.empty() ? ""
                          : a.chosen    ? ": "
                                        : "  ",
                          a.why);
  }
  return text;
}

std::string TimelineSvg(const PlannedProgram& planned) {
  const Program& program = planned.program;
  constexpr double kLeft = 150, kWidth = 1200, kRow = 22, kTop = 40;
  const double scale = kWidth / std::max(planned.simulation.step_seconds, 1e-12);
  std::string body;
  double y = kTop;
  for (size_t vcu = 0; vcu < program.vcus.size(); ++vcu) {
    const VcuProgram& v = program.vcus[vcu];
    for (size_t lane = 0; lane < v.lanes.size(); ++lane) {
      absl::StrAppendFormat(
          &body, "<text x='4' y='%.1f'>%s %s</text>\n", y + 15, v.name,
          lane == 0
              ? ""
              : absl::StrCat("&#160;", v.lanes[lane].kind == LaneKind::kSend
                                           ? absl::StrCat("send to ", v.lanes[lane].index)
                                       : v.lanes[lane].kind == LaneKind::kRecv
                                           ? absl::StrCat("receive from ", v.lanes[lane].index)
                                           : ToString(v.lanes[lane])));
      absl::StrAppendFormat(&body,
                            "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f' fill='#f4f4f4'/>\n",
                            kLeft, y + 1, kWidth, kRow - 3);
      for (size_t i = 0; i < v.commands.size(); ++i) {
        const Command& c = v.commands[i];
        if (c.lane != static_cast<int>(lane)) continue;
        const CommandTime& t = planned.simulation.walk.times[vcu][i];
        const double x = kLeft + t.begin * scale, w = std::max(0.5, (t.end - t.begin) * scale);
        absl::StrAppendFormat(
            &body,
            "<rect x='%.2f' y='%.1f' width='%.2f' height='%.1f' fill='%s'><title>%s %s%s, "
            "%.3f ms</title></rect>\n",
            x, y + 1, w, kRow - 3, Colour(c), Name(c.kind), c.name,
            c.micro_batch == kNone ? "" : absl::StrCat(" #", c.micro_batch),
            (t.end - t.begin) * 1e3);
        if (c.kind == CommandKind::kCompute && w > 22) {
          absl::StrAppendFormat(&body, "<text x='%.2f' y='%.1f' fill='#fff'>%s</text>\n", x + 3,
                                y + 15, c.name);
        }
      }
      y += kRow;
    }
    y += 6;
  }
  const double height = y + 34;
  std::string svg = absl::StrFormat(
      "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' "
      "font-family='sans-serif' font-size='12'>\n<rect width='100%%' height='100%%' fill='#fff'/>\n"
      "<text x='4' y='18' font-size='14'>%s, %d micro-batches of %d: %.3f ms a step "
      "(predicted)</text>\n",
      kLeft + kWidth + 20, height, planned.plan.schedule, planned.plan.micro_batches,
      planned.plan.micro_batch, planned.plan.predicted_step_seconds * 1e3);
  svg += body;
  const std::pair<const char*, const char*> legend[] = {
      {"#4e79a7", "forward"},       {"#59a14f", "backward"},   {"#b07aa1", "norm, update"},
      {"#f28e2b", "send, receive"}, {"#e15759", "collective"}, {"#9c9ede", "host"}};
  double x = kLeft;
  for (const auto& [colour, label] : legend) {
    absl::StrAppendFormat(&svg,
                          "<rect x='%.0f' y='%.1f' width='12' height='12' fill='%s'/>"
                          "<text x='%.0f' y='%.1f'>%s</text>\n",
                          x, y + 8, colour, x + 16, y + 18, label);
    x += 130;
  }
  return svg + "</svg>\n";
}

}  // namespace oc

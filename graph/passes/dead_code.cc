#include <algorithm>

#include "openclaw/graph/passes.h"

namespace oc {

namespace {

// `forward` itself where it is kept, else the nearest kept forward node before it, else after it.
int NearestKeptForward(const Graph& graph, const std::vector<bool>& keep, int forward) {
  const auto kept = [&](int id) {
    const Phase phase = graph.nodes[id].phase;
    return keep[id] && (phase == Phase::kForward || phase == Phase::kPrologue);
  };
  const int size = static_cast<int>(graph.nodes.size());
  for (int id = forward; id >= 0; --id) {
    if (kept(id)) return id;
  }
  for (int id = forward + 1; id < size; ++id) {
    if (kept(id)) return id;
  }
  return kNone;
}

}  // namespace

Status RemoveDeadNodes(Graph& graph) {
  std::vector<bool> live(graph.values.size(), false);
  for (const auto& [name, v] : graph.outputs) live[v] = true;
  for (const Accumulator& a : graph.accumulators) {
    for (int v : a.contributions) live[v] = true;
  }
  for (const auto* list : {&graph.parameters, &graph.states}) {
    for (const Variable& v : *list) {
      if (v.updated != kNone) live[v.updated] = true;
    }
  }
  if (graph.loss_sum != kNone) live[graph.loss_sum] = true;
  if (graph.loss_count != kNone) live[graph.loss_count] = true;

  std::vector<bool> keep(graph.nodes.size(), false);
  for (int id = static_cast<int>(graph.nodes.size()) - 1; id >= 0; --id) {
    const Node& node = graph.nodes[id];
    keep[id] =
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](int v) { return live[v]; });
    if (!keep[id]) continue;
    for (int v : node.inputs) live[v] = true;
  }
  std::vector<int> order;
  for (const Node& node : graph.nodes) {
    if (keep[node.id]) order.push_back(node.id);
  }
  const bool idle_input =
      std::any_of(graph.values.begin(), graph.values.end(), [&](const Value& v) {
        return (v.kind == ValueKind::kScalar || v.kind == ValueKind::kReduced) && !live[v.id];
      });
  if (order.size() == graph.nodes.size() && !idle_input) return OkStatus();
  // A backward or recompute node keeps its forward node only through values; where that one is
  // gone, the nearest kept forward node takes its place (stages are cut by forward nodes).
  for (Node& node : graph.nodes) {
    if (!keep[node.id] || node.forward == kNone) continue;
    node.forward = NearestKeptForward(graph, keep, node.forward);
  }
  return Reorder(graph, order);
}

}  // namespace oc

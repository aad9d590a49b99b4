// ReplaceUses and Reorder: what every pass is written with.
#include <algorithm>

#include "openclaw/graph/passes.h"

namespace oc {

namespace {
// Applies f to every use of a value by the graph itself: outputs, sums, updates, the loss.
template <typename F>
void ForEachGraphUse(Graph& graph, F f) {
  for (auto& [name, v] : graph.outputs) f(v);
  for (Accumulator& a : graph.accumulators) {
    for (int& v : a.contributions) f(v);
  }
  for (auto* list : {&graph.parameters, &graph.states}) {
    for (Variable& v : *list) {
      if (v.updated != kNone) f(v.updated);
    }
  }
  if (graph.loss_sum != kNone) f(graph.loss_sum);
  if (graph.loss_count != kNone) f(graph.loss_count);
}

// The same, and the inputs of all nodes.
template <typename F>
void ForEachUse(Graph& graph, F f) {
  for (Node& node : graph.nodes) {
    for (int& v : node.inputs) f(v);
  }
  ForEachGraphUse(graph, f);
}

}  // namespace

void ReplaceUses(Graph& graph, int from, int to) {
  ForEachUse(graph, [&](int& v) {
    if (v == from) v = to;
  });
}

Status Reorder(Graph& graph, const std::vector<int>& order) {
  std::vector<int> new_node(graph.nodes.size(), kNone);
  for (size_t i = 0; i < order.size(); ++i) new_node[order[i]] = static_cast<int>(i);

  std::vector<bool> variable(graph.values.size(), false);
  for (const auto* list : {&graph.parameters, &graph.states}) {
    for (const Variable& v : *list) variable[v.value] = true;
  }
  std::vector<bool> used(graph.values.size(), false);
  for (int id : order) {
    for (int v : graph.nodes[id].inputs) used[v] = true;
  }
  ForEachGraphUse(graph, [&](int& v) { used[v] = true; });
  std::vector<int> new_value(graph.values.size(), kNone);
  std::vector<Value> values;
  const auto keep = [&](int id) {
    new_value[id] = static_cast<int>(values.size());
    values.push_back(graph.values[id]);
    Value& v = values.back();
    v.id = new_value[id];
    if (v.producer != kNone) {
      v.producer = new_node[v.producer];
      v.name = absl::StrCat(v.id);
    }
  };
  for (const Value& v : graph.values) {  // inputs first, in their order
    if (v.producer != kNone) continue;
    if (used[v.id] || variable[v.id] || v.kind == ValueKind::kData) keep(v.id);
  }
  std::vector<Node> nodes;
  for (int id : order) {
    nodes.push_back(std::move(graph.nodes[id]));
    for (int v : nodes.back().outputs) keep(v);
  }
  for (Node& node : nodes) {
    node.id = new_node[node.id];
    for (int& v : node.outputs) v = new_value[v];
    if (node.forward != kNone) node.forward = new_node[node.forward];
  }
  graph.nodes = std::move(nodes);
  graph.values = std::move(values);
  bool missing = false;
  ForEachUse(graph, [&](int& v) {
    v = new_value[v];
    missing |= v == kNone;
  });
  for (auto* list : {&graph.parameters, &graph.states}) {
    for (Variable& v : *list) v.value = new_value[v.value];
  }
  for (Accumulator& a : graph.accumulators) {
    if (a.target != kNone) a.target = new_value[a.target];
  }
  if (missing) return Internal("reorder graph ", graph.name, ": a kept node needs a dropped one");
  return OkStatus();
}

}  // namespace oc

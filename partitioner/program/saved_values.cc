#include "openclaw/partitioner/program/saved_values.h"

#include <algorithm>
#include <map>

namespace oc {
namespace {

const std::vector<int>& NodesOf(const StageAnalysis& a, int stage, Part part) {
  return a.nodes[stage][static_cast<int>(part)];
}

// Calls f(value, position) for what the nodes read and write.
template <typename F>
void ForUses(const Graph& graph, const std::vector<int>& nodes, const F& f) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = graph.node(nodes[i]);
    for (const auto* list : {&node.inputs, &node.outputs}) {
      for (int v : *list) f(v, static_cast<int>(i));
    }
  }
}

}  // namespace

std::vector<SavedValue> SavedValues(const Graph& graph, const StageAnalysis& a, int stage) {
  std::map<int, SavedValue> saved;  // by root
  for (int id : NodesOf(a, stage, Part::kForward)) {
    const Node& node = graph.node(id);
    for (int v : node.outputs) {
      if (a.root[v] != v || a.accumulator_only[v]) continue;
      saved[v] = {.root = v,
                  .origin = node.origin,
                  .bytes = graph.value(v).opaque ? 0 : graph.value(v).type.bytes(),
                  .first_backward = kNone};
    }
  }
  ForUses(graph, NodesOf(a, stage, Part::kForward), [&](int v, int position) {
    const auto it = saved.find(a.root[v]);
    if (it != saved.end()) it->second.last_forward = position + 1;
  });
  ForUses(graph, NodesOf(a, stage, Part::kBackward), [&](int v, int position) {
    const auto it = saved.find(a.root[v]);
    if (it != saved.end() && it->second.first_backward == kNone) {
      it->second.first_backward = position;
    }
  });
  for (const Value& v : graph.values) {
    if (!a.readers[v.id].empty() || a.fetched.count(v.id) != 0) saved.erase(a.root[v.id]);
  }
  std::vector<SavedValue> result;
  for (const auto& [root, value] : saved) {
    if (value.first_backward != kNone) result.push_back(value);
  }
  std::stable_sort(result.begin(), result.end(), [](const SavedValue& x, const SavedValue& y) {
    return x.last_forward < y.last_forward;
  });
  return result;
}

}  // namespace oc

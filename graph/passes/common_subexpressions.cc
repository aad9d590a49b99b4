#include <map>

#include "openclaw/graph/passes.h"

namespace oc {

Status MergeCommonSubexpressions(Graph& graph) {
  std::map<std::string, int> seen;  // what a node computes -> the first node that does
  bool merged = false;
  for (Node& node : graph.nodes) {
    if (node.def->random || !node.def->updates.empty()) continue;
    std::string key = absl::StrCat(node.def->name, "/", static_cast<int>(node.phase), "/",
                                   node.checkpoint, "/", node.attrs.ToString());
    // Backward nodes lie on the stages of their forward nodes: those of two may not become one.
    const bool backward = node.phase == Phase::kInputGrad || node.phase == Phase::kWeightGrad ||
                          node.phase == Phase::kRecompute;
    if (backward) absl::StrAppend(&key, "/", node.forward);
    for (int v : node.inputs) absl::StrAppend(&key, ",", v);
    auto [it, inserted] = seen.emplace(key, node.id);
    if (inserted) continue;
    // Copied: ReplaceUses walks all nodes, this one among them.
    const std::vector<int> from = node.outputs, to = graph.nodes[it->second].outputs;
    for (size_t i = 0; i < from.size(); ++i) ReplaceUses(graph, from[i], to[i]);
    merged = true;
  }
  return merged ? RemoveDeadNodes(graph) : OkStatus();
}

}  // namespace oc

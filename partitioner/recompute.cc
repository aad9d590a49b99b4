#include "openclaw/partitioner/recompute.h"

#include <map>

#include "openclaw/graph/passes.h"

namespace oc {
namespace {

// Calls f(node, its place among the forward nodes of its origin).
template <typename F>
void ForEachForwardNode(const Graph& graph, const F& f) {
  std::map<int, int> count;
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kForward) f(node, count[node.origin]++);
  }
}

}  // namespace

StatusOr<std::vector<bool>> NodesOf(const Graph& graph, const std::vector<ForwardNode>& nodes) {
  std::map<std::pair<int, int>, int> ids;
  ForEachForwardNode(graph, [&](const Node& node, int index) {
    ids[{node.origin, index}] = node.id;
  });
  std::vector<bool> chosen(graph.nodes.size(), false);
  for (const ForwardNode& n : nodes) {
    const auto at = ids.find({n.origin, n.index});
    if (at == ids.end()) {
      return InvalidArgument("plan: it computes forward node ", n.origin, ".", n.index,
                             " again, which the graph does not have");
    }
    chosen[at->second] = true;
  }
  return chosen;
}

std::vector<ForwardNode> ForwardNodesOf(const Graph& graph, const std::vector<bool>& nodes) {
  std::map<std::pair<int, int>, bool> chosen;
  ForEachForwardNode(graph, [&](const Node& node, int index) {
    if (nodes[node.id]) chosen[{node.origin, index}] = true;
  });
  std::vector<ForwardNode> result;
  for (const auto& [key, unused] : chosen) result.push_back({key.first, key.second});
  return result;
}

StatusOr<Graph> WithRecomputation(const Graph& graph, const Plan& plan) {
  OC_ASSIGN_OR_RETURN(const std::vector<bool> nodes, NodesOf(graph, plan.recomputed));
  Graph result = graph;
  OC_RETURN_IF_ERROR(
      Recompute(result, nodes, [&](const Node& node) { return StageOf(plan, node); }));
  return result;
}

}  // namespace oc

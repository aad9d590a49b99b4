#include <algorithm>
#include <map>
#include <set>

#include "openclaw/graph/passes.h"

namespace oc {
namespace {

bool IsBackward(const Node& node) {
  return node.phase == Phase::kInputGrad || node.phase == Phase::kWeightGrad;
}

// The forward nodes of `region` whose outputs its own backward nodes read, with their ancestors
// inside the region.
std::set<int> NodesToRepeat(const Graph& graph, int region) {
  std::set<int> repeat;
  std::vector<int> pending;
  for (const Node& node : graph.nodes) {
    if (!IsBackward(node) || node.forward == kNone) continue;
    if (graph.nodes[node.forward].checkpoint != region) continue;
    pending.insert(pending.end(), node.inputs.begin(), node.inputs.end());
  }
  while (!pending.empty()) {
    const int producer = graph.values[pending.back()].producer;
    pending.pop_back();
    if (producer == kNone) continue;
    const Node& node = graph.nodes[producer];
    if (node.phase != Phase::kForward || node.checkpoint != region) continue;
    if (!repeat.insert(producer).second) continue;
    pending.insert(pending.end(), node.inputs.begin(), node.inputs.end());
  }
  return repeat;
}

}  // namespace

Status RecomputeMarked(Graph& graph) {
  std::set<int> regions;
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kForward && node.checkpoint != kNone) regions.insert(node.checkpoint);
  }
  for (const Node& node : graph.nodes) {  // those that an earlier run has done
    if (node.phase == Phase::kRecompute && node.forward != kNone) {
      regions.erase(graph.nodes[node.forward].checkpoint);
    }
  }
  if (regions.empty()) return OkStatus();
  const int old_nodes = static_cast<int>(graph.nodes.size());
  std::map<int, std::vector<int>> before;  // backward node -> clones that run before it
  for (int region : regions) {
    std::map<int, int> clone;  // value -> its copy
    std::vector<int> clones;
    for (int id : NodesToRepeat(graph, region)) {
      Node like = graph.nodes[id];
      like.phase = Phase::kRecompute;
      like.forward = id;
      like.checkpoint = kNone;
      std::vector<int> inputs = like.inputs;
      for (int& v : inputs) {
        if (auto it = clone.find(v); it != clone.end()) v = it->second;
      }
      OC_ASSIGN_OR_RETURN(const int copy, graph.AddNode(like.def->name, inputs, like.attrs, like));
      clones.push_back(copy);
      for (size_t i = 0; i < like.outputs.size(); ++i) {
        clone[like.outputs[i]] = graph.nodes[copy].outputs[i];
      }
    }
    int first = kNone;
    for (Node& node : graph.nodes) {
      if (!IsBackward(node) || node.forward == kNone) continue;
      if (graph.nodes[node.forward].checkpoint != region) continue;
      if (first == kNone) first = node.id;
      for (int& v : node.inputs) {
        if (auto it = clone.find(v); it != clone.end()) v = it->second;
      }
    }
    if (first != kNone) before[first] = clones;
  }
  std::vector<int> order;
  for (const Node& node : graph.nodes) {
    if (node.id >= old_nodes) continue;
    if (auto it = before.find(node.id); it != before.end()) {
      order.insert(order.end(), it->second.begin(), it->second.end());
    }
    order.push_back(node.id);
  }
  return Reorder(graph, order);
}

}  // namespace oc

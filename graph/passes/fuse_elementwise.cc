// relu moves into the linear or batch norm before it. The pass runs on joint graphs too: relu_grad
// reads the fused output, whose sign it needs, and batch norm's gradient takes the gate over.
#include <algorithm>

#include "openclaw/graph/passes.h"

namespace oc {
namespace {

// How often each value is used, by nodes or by the graph itself.
std::vector<int> CountUses(const Graph& graph) {
  std::vector<int> uses(graph.values.size(), 0);
  for (const Node& node : graph.nodes) {
    for (int v : node.inputs) ++uses[v];
  }
  for (const auto& [name, v] : graph.outputs) ++uses[v];
  for (const Accumulator& a : graph.accumulators) {
    for (int v : a.contributions) ++uses[v];
  }
  for (const auto* list : {&graph.parameters, &graph.states}) {
    for (const Variable& v : *list) {
      if (v.updated != kNone) ++uses[v.updated];
    }
  }
  if (graph.loss_sum != kNone) ++uses[graph.loss_sum];
  if (graph.loss_count != kNone) ++uses[graph.loss_count];
  return uses;
}

// The node whose activation `relu` can become; null where there is none.
Node* Fusable(Graph& graph, const Node& relu, const std::vector<int>& uses) {
  if (relu.def->name != "relu") return nullptr;
  const Value& x = graph.values[relu.inputs[0]];
  if (x.producer == kNone || x.output != 0 || uses[x.id] != 1) return nullptr;
  Node& node = graph.nodes[x.producer];
  const bool takes_relu = node.def->name == "linear" || node.def->name == "batch_norm";
  const bool together = node.phase == relu.phase && node.checkpoint == relu.checkpoint;
  if (!takes_relu || !together) return nullptr;
  return node.attrs.String("activation", "none") == "none" ? &node : nullptr;
}

// batch_norm_grad(relu_grad(dy, y), x, ...) of `norm` becomes batch_norm_grad{activation: relu}(dy,
// x, ...).
void FuseBatchNormGradients(Graph& graph, const Node& norm) {
  for (Node& node : graph.nodes) {
    if (node.def->name != "batch_norm_grad" || node.forward != norm.id) continue;
    const int producer = graph.values[node.inputs[0]].producer;
    if (producer == kNone) continue;
    const Node& gate = graph.nodes[producer];
    if (gate.def->name != "relu_grad" || gate.inputs[1] != norm.outputs[0]) continue;
    node.inputs[0] = gate.inputs[0];
    node.attrs.Set("activation", std::string("relu"));
  }
}

}  // namespace

Status FuseElementwise(Graph& graph) {
  const std::vector<int> uses = CountUses(graph);
  bool fused = false;
  for (Node& relu : graph.nodes) {
    Node* node = Fusable(graph, relu, uses);
    if (node == nullptr) continue;
    node->attrs.Set("activation", std::string("relu"));
    ReplaceUses(graph, relu.outputs[0], node->outputs[0]);
    // The relu is dropped as dead; its backward belongs to the fused node from now on.
    for (Node& other : graph.nodes) {
      if (other.forward == relu.id) other.forward = node->id;
    }
    if (node->def->name == "batch_norm") FuseBatchNormGradients(graph, *node);
    fused = true;
  }
  return fused ? RemoveDeadNodes(graph) : OkStatus();
}

}  // namespace oc

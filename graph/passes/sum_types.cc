// A gradient of a half type that is cast to f32 to be summed comes out as f32 at once: rounded
// once, and not stored twice.
#include "openclaw/graph/passes.h"

namespace oc {
namespace {

// Per value: how often it is used, and the one cast that does; kNone where there is none or
// something else uses it.
struct Uses {
  std::vector<int> count, cast;
};

Uses FindUses(const Graph& graph) {
  Uses found{std::vector<int>(graph.values.size(), 0),
             std::vector<int>(graph.values.size(), kNone)};
  auto& [uses, cast] = found;
  for (const Node& node : graph.nodes) {
    for (int v : node.inputs) {
      ++uses[v];
      if (node.def->name == "cast") cast[v] = node.id;
    }
  }
  for (const auto& [name, v] : graph.outputs) ++uses[v];
  for (const Accumulator& a : graph.accumulators) {
    for (int v : a.contributions) ++uses[v];
  }
  if (graph.loss_sum != kNone) ++uses[graph.loss_sum];
  for (size_t v = 0; v < uses.size(); ++v) {
    if (uses[v] > 1) cast[v] = kNone;
  }
  return found;
}

}  // namespace

Status FuseSumTypes(Graph& graph) {
  const auto [uses, casts] = FindUses(graph);
  bool fused = false;
  for (Node& node : graph.nodes) {
    if (!TakesSumType(*node.def) || node.attrs.Has("dtype")) continue;
    // What the types would be, and whether every output that changes is wanted in that type alone.
    std::vector<TensorType> inputs;
    for (int v : node.inputs) inputs.push_back(graph.values[v].type);
    DType wanted = DType::kF32;
    for (int v : node.outputs) {
      if (casts[v] != kNone) {
        wanted = graph.values[graph.nodes[casts[v]].outputs[0]].type.dtype;
      }
    }
    Attributes attrs = node.attrs;
    attrs.Set("dtype", wanted);
    auto types = node.def->infer({inputs, attrs});
    if (!types.ok()) continue;  // a cast to something narrower
    bool all = true, any = false;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const int v = node.outputs[i];
      if ((*types)[i] == graph.values[v].type) continue;
      const bool cast =
          casts[v] != kNone && graph.values[graph.nodes[casts[v]].outputs[0]].type == (*types)[i];
      any |= cast;
      all &= cast || uses[v] == 0;
    }
    if (!all || !any) continue;
    node.attrs = std::move(attrs);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const int v = node.outputs[i];
      if ((*types)[i] == graph.values[v].type) continue;
      graph.values[v].type = (*types)[i];
      if (casts[v] != kNone) ReplaceUses(graph, graph.nodes[casts[v]].outputs[0], v);
    }
    fused = true;
  }
  return fused ? RemoveDeadNodes(graph) : OkStatus();
}

}  // namespace oc

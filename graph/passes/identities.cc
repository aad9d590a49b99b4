#include "openclaw/graph/passes.h"

namespace oc {

Status RemoveIdentities(Graph& graph) {
  for (const Node& node : graph.nodes) {
    const bool dropout_off = node.def->name == "dropout" &&
                             (!node.attrs.Bool("training", true) || node.attrs.Double("p") == 0.0);
    const bool same_shape = node.def->is_view &&
                            graph.values[node.inputs[0]].type == graph.values[node.outputs[0]].type;
    if (dropout_off || same_shape) {
      const int from = node.outputs[0], to = node.inputs[0];
      ReplaceUses(graph, from, to);
    }
  }
  return RemoveDeadNodes(graph);
}

}  // namespace oc

// Ops that do in one pass over memory what several nodes do. A graph never holds them: lowering
// takes them for the VCUs whose devices have a kernel of their own, and the simpler nodes are their
// decomposition everywhere else.
//
//   for (const Node& node : FuseNodes(graph, nodes, has_kernel)) Add(node);
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "openclaw/graph/graph.h"

namespace oc {

// Their names: add_layer_norm, layer_norm_grad, linear_gelu, linear_grad_input_gelu.
const std::vector<std::string>& FusedOps();
bool IsFused(const std::string& op);

// The nodes `ids` (ascending) in their order; where several of them are a fused op that `has`
// accepts, that instead, in the place of the last: with the values that it reads and writes, and
// id, scope and phase of the node that gives its first output. What only the replaced nodes used is
// no more.
std::vector<Node> FuseNodes(const Graph& graph, const std::vector<int>& ids,
                            const std::function<bool(const Node&)>& has);

}  // namespace oc

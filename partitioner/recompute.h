// Which of the forward's nodes a plan computes again in backward (graph/passes.h, Recompute), by
// their origins, so that the choice outlives the graph's ids.
#pragma once

#include <string>
#include <vector>

#include "openclaw/partitioner/plan.h"

namespace oc {

// kInvalidArgument: a node that the graph does not have.
StatusOr<std::vector<bool>> NodesOf(const Graph& graph, const std::vector<ForwardNode>& nodes);
// Ascending by origin. Only forward nodes count.
std::vector<ForwardNode> ForwardNodesOf(const Graph& graph, const std::vector<bool>& nodes);

// The joint graph as the plan runs it. A value that another stage reads is kept there.
StatusOr<Graph> WithRecomputation(const Graph& graph, const Plan& plan);

}  // namespace oc

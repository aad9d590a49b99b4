// Graph passes: an ordered list whose runner times each and verifies the graph after it.
//
//   OC_RETURN_IF_ERROR(RunPasses(joint, DefaultPasses(), {}));
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "openclaw/graph/graph.h"

namespace oc {

struct Pass {
  std::string name;
  std::function<Status(Graph&)> run;
};

struct PassOptions {
  std::vector<std::string> disabled;  // by name; unknown names are kInvalidArgument
  // Called after each pass: name, seconds. May be null.
  std::function<void(const std::string&, double, const Graph&)> observer;
};

// The passes of a joint training graph and of a forward graph, in their order
// (graph/passes/all_passes.cc is the list).
std::vector<Pass> DefaultPasses();

// Stops at the first error, naming the pass.
Status RunPasses(Graph& graph, const std::vector<Pass>& passes, const PassOptions& options);

// Removes nodes whose outputs reach no output, accumulator, update or loss, and inputs of kind
// kScalar and kReduced that nothing reads. Renumbers.
Status RemoveDeadNodes(Graph& graph);
// Merges nodes of the same op, attributes, inputs, phase and region, in backward also of the same
// forward node (never random or updating ones).
Status MergeCommonSubexpressions(Graph& graph);
// weight gradient + cast to f32 into a weight gradient of f32 (graph/ops/ops.h, WithSumType).
Status FuseSumTypes(Graph& graph);
// Linear + relu, batch norm + relu, add + relu and the like into one node, where the device's
// kernels gain by it; every fused op has a decomposition.
Status FuseElementwise(Graph& graph);
// Gradient checkpointing (Chen et al., "Training deep nets with sublinear memory cost", 2016): what
// the forward nodes `nodes` (by id) give is not kept for backward, which reads a repetition
// instead: nodes of phase kRecompute, each just before the first backward node that needs it, what
// only repetitions need included. Views follow what they view. The repetition of a random op has
// its stream, thus its numbers; states are never written twice. A reader of another `stage` keeps
// what it was sent. A local pass: lowering runs it (Plan::recomputed), it is in no list.
Status Recompute(Graph& graph, const std::vector<bool>& nodes,
                 const std::function<int(const Node&)>& stage = {});
// For Recompute: of regions (by node, kNone: in none) the nodes all of whose results are read
// inside the region alone; what leaves it is kept.
std::vector<bool> InteriorOf(const Graph& graph, const std::vector<int>& region);
// The interiors of marked regions (Node::checkpoint).
std::vector<bool> MarkedNodes(const Graph& graph);
// The interiors of the modules that the patterns (core/pattern.h) fit: a module is the first on the
// way from the model to a node. kInvalidArgument: a pattern fits none (names the nearest module).
StatusOr<std::vector<bool>> NodesOfModules(const Graph& graph,
                                           const std::vector<std::string>& patterns);
// Recompute of MarkedNodes.
Status RecomputeMarked(Graph& graph);
// What `training: false` makes an identity (dropout) is skipped.
Status RemoveIdentities(Graph& graph);

// For passes: rewrites every use of value `from` as `to` (inputs, outputs, accumulators, updates).
void ReplaceUses(Graph& graph, int from, int to);
// For passes: puts the nodes into `order` (ids, a subset: the others are dropped together with
// their values) and renumbers nodes and values. kInternal where a kept node needs a dropped one.
Status Reorder(Graph& graph, const std::vector<int>& order);

}  // namespace oc

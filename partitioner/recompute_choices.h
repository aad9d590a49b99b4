// What a stage may compute again in backward, and what that saves and costs: the choices among
// which a memory budget decides.
//
// A choice divides the stage's forward nodes, in their order, into groups. What leaves a group is
// kept, what stays inside is dropped after forward and computed again, once, when the group's
// backward comes to it. Only what something needs is: of a group that is a layer norm and the
// product behind it, the norm alone. Groups of one node keep all.
//
// The groups are found by dynamic programming over the places between nodes, with every trade of
// time, bytes kept and peak that no other one beats. On a chain that is every way to compute each
// node at most twice, so that the optimum is exact for any budget (Feng and Huang, "Optimal
// gradient checkpoint search for arbitrary computation graphs", 2021, with measured times instead
// of counts; Beaumont et al., "Optimal checkpointing for heterogeneous chains", 2019, also repeats
// more than once). On other graphs the places are lower sets of one order (Kusumoto et al., "A
// graph theoretic framework of recomputation algorithms", 2019): the best of that family. Two
// bounds keep long stages quick, and are exact where they do not bind: groups of more than
// kLongGroup nodes begin and end where least crosses, as between blocks; of trades that are close
// in bytes the fastest stays, once there are very many.
#pragma once

#include <string>
#include <vector>

#include "openclaw/core/cost_table.h"
#include "openclaw/graph/graph.h"
#include "openclaw/partitioner/program/stage_analysis.h"

namespace oc {

struct RecomputeChoice {
  std::vector<int> nodes;  // forward nodes that are computed again, ascending
  std::vector<int> away;   // RecomputeQuery::away
  double seconds = 0;      // that takes, a micro-batch; copies of what is away not counted
  int64_t kept_bytes = 0;  // from forward to backward, a micro-batch
  int64_t peak_bytes = 0;  // the most at any time, of all micro-batches in flight
};

struct RecomputeQuery {
  const Graph& graph;  // joint, bound, nothing computed again yet
  const StageAnalysis& analysis;
  int stage = 0;
  std::string kind;  // of the stage's VCUs
  const CostTable& costs;
  int in_flight = 1;  // micro-batches that have gone forward and not yet backward, at most
  // Count activations alone (MemoryUse::kActivations), not gradients on their way, workspaces and
  // what forward reads once.
  bool activations_alone = false;
  // Forward nodes, by Node::origin, ascending, whose saved values (saved_values.h) wait for
  // backward outside of the memory: they take none in between, and are not computed again.
  std::vector<int> away = {};
};

// The fastest first, which keeps everything; each further one takes longer and less memory.
// kFailedPrecondition: a cost is missing.
StatusOr<std::vector<RecomputeChoice>> RecomputeChoices(const RecomputeQuery& query);

}  // namespace oc

// Measures what ops cost on a VCU: the entries that planning asked for.
#pragma once

#include <vector>

#include "openclaw/partitioner/costs.h"
#include "openclaw/runtime/cluster.h"

namespace oc {

struct ProfileOptions {
  // false: only what Prepare tells (workspaces, which variants exist); seconds stay 0, and no
  // memory is taken.
  bool measure = true;
  // ProfileGraphs: entries that are there are compared with what Prepare says now; those that
  // another build of the kernels left are measured anew.
  bool check_known = false;
  double seconds = 3;  // about how long the measured rounds may take
  int min_rounds = 3;
  int max_rounds = 15;
  double timeout_seconds = 60;  // of the exchange between processes
  // ProfileGraphs: what each VCU of the cluster computes in, as a plan has it; empty: what it has.
  std::vector<DType> compute_types;
};

// Measures the requests one after the other, in rounds, as they would follow in a step: each reads
// what the one before it wrote, other operands are not warm. The median of each over the rounds.
StatusOr<CostTable> MeasureCosts(Slice& slice, const std::vector<CostRequest>& requests,
                                 const ProfileOptions& options);

// Brings `table` up to what planning needs of the graphs (bound; `update` may be null): each VCU of
// this process measures what is missing for its kind, all at once, since in a step they compute at
// once; the processes exchange what they found, and VCUs of one kind take the mean. Every process
// calls it and ends with the same table.
Status ProfileGraphs(Cluster& cluster, const Graph& graph, const Graph* update, CostTable& table,
                     const ProfileOptions& options);

}  // namespace oc

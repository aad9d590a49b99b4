// Brings the costs that planning needs together: every VCU measures what is missing for its kind.
#pragma once

#include "openclaw/runtime/cluster.h"
#include "openclaw/runtime/measure_costs.h"

namespace oc {

// Brings `table` up to what planning needs of the graphs (bound; `update` may be null): each VCU of
// this process measures what is missing for its kind, all at once, since in a step they compute at
// once; the processes exchange what they found, and VCUs of one kind take the mean. Every process
// calls it and ends with the same table.
Status ProfileGraphs(Cluster& cluster, const Graph& graph, const Graph* update, CostTable& table,
                     const ProfileOptions& options);

}  // namespace oc

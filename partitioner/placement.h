// Which VCU stands where: a grid of stages and replicas.
#pragma once

#include <vector>

#include "openclaw/core/cluster.h"

namespace oc {

// vcus[stage][replica].
using Placement = std::vector<std::vector<int>>;

// The placements worth trying for `depth` stages of `replicas` each. The first is that of
// neighbours: replica r is the chain of VCUs r * depth to r * depth + depth - 1. Where VCUs differ
// in kind or memory, those that differ by more than an exchange of like VCUs, or of whole chains,
// follow, at most `most` of them. Precondition: depth * replicas <= cluster.size(); VCUs beyond
// that stay out, and where VCUs differ any may.
std::vector<Placement> Placements(const ClusterSpec& cluster, int depth, int replicas,
                                  int most = 256);

}  // namespace oc

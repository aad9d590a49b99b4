// Levels of mixed precision: which a cluster has, and what each would take.
#pragma once

#include <vector>

#include "openclaw/core/cluster.h"
#include "openclaw/core/config.h"
#include "openclaw/partitioner/partition.h"
#include "openclaw/runtime/training_graphs.h"

namespace oc {

// Those that planning compares, from the widest; of the open ones, whose parameters are f32, it
// takes one by itself (precision.amp_level: auto).
const std::vector<AmpLevel>& ComparedLevels();
const std::vector<AmpLevel>& OpenLevels();

// At least one VCU must compute in a half type where the graph has one, and all must have the types
// of parameters and states: else kInvalidArgument.
Status CheckComputeTypes(const Graph& joint, const ClusterSpec& cluster);

// Samples a second that a plan with predictions takes.
double SamplesPerSecond(const Plan& plan);

// Whether a level that takes `rate` samples a second is to be taken rather than the wider one
// before it: by more than the costs are known to.
bool IsFasterLevel(double rate, double wider);

// What the graphs of a level would take: with the best plan that fits, else with the best one of
// VCUs without a budget.
StatusOr<PlanAlternative> LevelRow(AmpLevel level, const TrainingGraphs& graphs,
                                   const ClusterSpec& cluster, const CostTable& costs,
                                   const PartitionOptions& options);

}  // namespace oc

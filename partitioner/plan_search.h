// The search for a plan of one shape: placements, cuts and shares. Closed forms give the first
// candidates (the stage split's dynamic programming, shares by list scheduling); the simulator then
// decides among them and their neighbours. Internal to partitioner/.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "openclaw/partitioner/partition.h"
#include "openclaw/partitioner/placement.h"
#include "openclaw/partitioner/stage_costs.h"
#include "openclaw/partitioner/stage_split.h"

namespace oc {

// The shards that the options allow with so many replicas, ascending.
std::vector<int> AllowedShards(const PartitionOptions& options, int replicas);

// A plan in the terms of the search.
struct PlanCandidate {
  std::string schedule;
  Placement vcus;                        // [stage][replica]
  std::vector<int> begins;               // the first unit of each stage
  std::vector<std::vector<int>> shares;  // [stage][replica]: micro-batches
  int shard = 0;                         // Plan::shard
  bool alternating = false;              // replicas take micro-batches in turn
  double estimate = 0;                   // seconds a step, by closed form
};

class PlanSearch {
 public:
  // All must outlive it. kFailedPrecondition: a cost is missing.
  static StatusOr<PlanSearch> Create(const Graph& graph, const Graph* update,
                                     const ClusterSpec& cluster, const CostTable& costs,
                                     const PartitionOptions& options);

  // Where accumulation is open, unlike replicas get as many micro-batches as their shares need to
  // follow their speeds (within 5 %, at most 16 a replica); else the shape as it is.
  BatchShape Adjusted(const BatchShape& shape) const;

  // One candidate a placement, the best estimate first, where a share of the activations must be
  // kept (StageSplitOptions::stash_share); without one the budgets are not looked at.
  // kResourceExhausted: none fits the memory.
  StatusOr<std::vector<PlanCandidate>> Candidates(const BatchShape& shape,
                                                  const std::string& schedule, int shard,
                                                  std::optional<double> stash_share) const;
  // Candidates that differ by one cut that moves, a micro-batch that goes to another replica, or,
  // where it is open, the next shard.
  std::vector<PlanCandidate> Neighbours(const PlanCandidate& candidate) const;

  Plan ToPlan(const PlanCandidate& candidate) const;

 private:
  std::vector<double> ShardWeights() const;
  PlanSearch(const Graph& graph, const ClusterSpec& cluster, const PartitionOptions& options)
      : graph_(graph), cluster_(cluster), options_(options) {}
  StatusOr<PlanCandidate> CandidateOf(const BatchShape& shape, const std::string& schedule,
                                      const Placement& placement, int shard,
                                      std::optional<double> stash_share) const;
  const StageCosts& CostsOf(int vcu) const { return costs_.at(cluster_.vcus[vcu].kind); }
  // Seconds of a micro-batch on each replica of stage `s`.
  std::vector<double> StageSecondsOf(const PlanCandidate& candidate, int s) const;
  Status CutAfterModules();
  int least_share() const { return options_.data_parallel.has_value() ? 1 : 0; }
  // Over replicas that need so long for a micro-batch.
  std::vector<int> SharesFor(const std::vector<double>& seconds, int micro_batches,
                             int least) const;
  int units() const { return costs_.begin()->second.units(); }

  const Graph& graph_;
  const ClusterSpec& cluster_;
  const PartitionOptions& options_;
  std::map<std::string, StageCosts> costs_;  // by kind
  std::vector<int> fixed_cuts_;  // first units of the later stages, where modules name them
  bool alike_ = true;            // all VCUs are taken to be equally fast
};

}  // namespace oc

// The stage split: where a chain of units is cut, so that the slowest stage is as fast as can be
// and each fits its VCU's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "openclaw/core/status.h"
#include "openclaw/partitioner/stage_costs.h"

namespace oc {

struct StageSplitOptions {
  // For each stage the costs of its replicas, by their kinds of VCU, and the least of their
  // budgets.
  std::vector<std::vector<const StageCosts*>> costs;
  std::vector<int64_t> memory_bytes;
  // What of parameters, optimizer state and gradients a replica holds at least.
  double state_share = 1;
  // Of what a stage keeps from forward to backward, what it must: the rest may be computed again.
  double stash_share = 1;
  // In a step, shared out over the replicas as is fastest; each takes `least_share` at least.
  int micro_batches = 1;
  int least_share = 0;
  // Micro-batches that a replica of stage s keeps activations of at once.
  std::vector<int> in_flight;
  // Seconds to move so many bytes over the link between stages s and s + 1.
  std::vector<double> seconds_per_byte;
  std::vector<double> latency_seconds;
};

struct StageSplit {
  std::vector<int> begins;  // first unit of each stage; begins[0] = 0
  double bottleneck_seconds = 0;
};

// What each replica of a stage needs for a micro-batch: its computation and the messages of its
// boundaries, which both sides count.
std::vector<double> ReplicaSeconds(const StageSplitOptions& options, int stage, int begin, int end);
// What the search minimises the largest of: a stage's seconds for all micro-batches of a step, over
// their number.
double StageSeconds(const StageSplitOptions& options, int stage, int begin, int end);
int64_t StageBytes(const StageSplitOptions& options, int stage, int begin, int end);

// By dynamic programming over (stage, first unit): exact. kInvalidArgument: fewer places to cut
// than stages. kResourceExhausted: no split fits, with the smallest excess of bytes that was found.
StatusOr<StageSplit> SplitStages(const StageSplitOptions& options);

}  // namespace oc

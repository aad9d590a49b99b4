// The stage split: where a chain of units is cut, so that the slowest stage is as fast as can be
// and each fits its VCU's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "openclaw/core/status.h"
#include "openclaw/partitioner/stage_costs.h"

namespace oc {

struct StageSplitOptions {
  // One a stage: costs for its kind of VCU (the slowest of its replicas), and its budget.
  std::vector<const StageCosts*> costs;
  std::vector<int64_t> memory_bytes;
  // Micro-batches that stage s keeps activations of at once.
  std::vector<int> in_flight;
  // Seconds to move so many bytes over the link between stages s and s + 1.
  std::vector<double> seconds_per_byte;
  std::vector<double> latency_seconds;
};

struct StageSplit {
  std::vector<int> begins;  // first unit of each stage; begins[0] = 0
  double bottleneck_seconds = 0;
};

// What the search minimises: the largest over the stages of its seconds plus those of its
// boundaries, each boundary's messages counted on both sides.
double StageSeconds(const StageSplitOptions& options, int stage, int begin, int end);
int64_t StageBytes(const StageSplitOptions& options, int stage, int begin, int end);

// By dynamic programming over (stage, first unit): exact. kInvalidArgument: fewer places to cut
// than stages. kResourceExhausted: no split fits, with the smallest excess of bytes that was found.
StatusOr<StageSplit> SplitStages(const StageSplitOptions& options);

}  // namespace oc

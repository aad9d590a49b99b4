// What a stage keeps from the forward of a micro-batch to its backward.
#pragma once

#include <cstdint>
#include <vector>

#include "openclaw/partitioner/program/stage_analysis.h"

namespace oc {

// What is smaller stays in the device's memory.
inline constexpr int64_t kLeastSavedValue = 4 << 10;

struct SavedValue {
  int root = kNone;        // whose memory it is
  int origin = 0;          // of the forward node that makes it
  int64_t bytes = 0;       // 0: in a form of the device's own
  int last_forward = 0;    // positions among the stage's nodes of the part: behind the last that
  int first_backward = 0;  // touches it, and of the first
};

// Of stage `stage` of an analysed graph, what may leave the device's memory between its uses:
// neither sent to other stages nor taken by a snapshot. Ascending by last_forward.
std::vector<SavedValue> SavedValues(const Graph& graph, const StageAnalysis& analysis, int stage);

}  // namespace oc

// Static memory planning: offsets in an arena for buffers whose lifetimes are known.
#pragma once

#include <cstdint>
#include <vector>

namespace oc {

inline constexpr int64_t kArenaAlignment = 64;
inline constexpr int64_t AlignForArena(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// What memory is kept for. The first three lie in the state arena, the rest in a step's.
enum class MemoryUse : int32_t {
  kParameters = 0,
  kOptimizer = 1,      // moments, averages, counters
  kStatistics = 2,     // running statistics
  kGradients = 3,      // sums over a step's micro-batches
  kCasts = 4,          // parameters in a half type
  kActivations = 5,    // forward's values that backward reads, also those that are computed again
  kTransient = 6,      // a micro-batch's other values: gradients on their way, what is read once
  kUpdate = 7,         // values of the optimizer's update
  kWorkspace = 8,      // scratch of kernels
  kCommunication = 9,  // received gradients, scratch of collectives
  kFeeds = 10,         // data and scalars from the host
  kOther = 11,         // metrics, counts
  kGaps = 12,          // left unused between items that live at different times
};
inline constexpr int kMemoryUses = 13;

// Lives from tick `first` to tick `last`, inclusive.
struct ArenaItem {
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
  int64_t offset = 0;  // filled
  MemoryUse use = MemoryUse::kOther;
};

// Offsets such that no two items that live at one tick overlap; returns the arena's size. Larger
// items are placed first, each at the lowest gap that holds it (Pisarchyk and Lee, "Efficient
// memory management for deep neural net inference", 2020, greedy by size).
int64_t PlanArena(std::vector<ArenaItem>& items);

}  // namespace oc

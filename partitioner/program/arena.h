// Static memory planning: offsets in an arena for buffers whose lifetimes are known.
#pragma once

#include <cstdint>
#include <vector>

namespace oc {

inline constexpr int64_t kArenaAlignment = 64;

// Lives from tick `first` to tick `last`, inclusive.
struct ArenaItem {
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
  int64_t offset = 0;  // filled
};

// Offsets such that no two items that live at one tick overlap; returns the arena's size. Larger
// items are placed first, each at the lowest gap that holds it (Pisarchyk and Lee, "Efficient
// memory management for deep neural net inference", 2020, greedy by size).
int64_t PlanArena(std::vector<ArenaItem>& items);

}  // namespace oc

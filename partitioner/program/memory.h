// What a VCU's memory is used for: the rows of `ocl plan --memory`, of plans and of summaries.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "openclaw/partitioner/program/arena.h"

namespace oc {

// "parameters", "activations", ...
const char* Name(MemoryUse use);

// Bytes by use, as the arenas hold them: with the padding that alignment adds.
struct MemoryBreakdown {
  std::array<int64_t, kMemoryUses> bytes{};
  int64_t& operator[](MemoryUse use) { return bytes[static_cast<size_t>(use)]; }
  int64_t operator[](MemoryUse use) const { return bytes[static_cast<size_t>(use)]; }
  int64_t total() const;
  bool operator==(const MemoryBreakdown&) const = default;
};

// What lies in an arena of `arena_bytes` at the first tick at which most does. Adds up to the
// arena's size: what its items leave unused then is kGaps.
MemoryBreakdown BreakdownAtPeak(const std::vector<ArenaItem>& items, int64_t arena_bytes);

// The most that items of one use take at any tick, which need not be the arena's peak.
int64_t PeakOf(const std::vector<ArenaItem>& items, MemoryUse use);

}  // namespace oc

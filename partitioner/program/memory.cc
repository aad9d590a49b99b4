#include "openclaw/partitioner/program/memory.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace oc {

const char* Name(MemoryUse use) {
  switch (use) {
    case MemoryUse::kParameters:
      return "parameters";
    case MemoryUse::kOptimizer:
      return "optimizer";
    case MemoryUse::kStatistics:
      return "statistics";
    case MemoryUse::kGradients:
      return "gradients";
    case MemoryUse::kCasts:
      return "casts";
    case MemoryUse::kActivations:
      return "activations";
    case MemoryUse::kTransient:
      return "transient";
    case MemoryUse::kUpdate:
      return "update";
    case MemoryUse::kWorkspace:
      return "workspace";
    case MemoryUse::kCommunication:
      return "communication";
    case MemoryUse::kFeeds:
      return "feeds";
    case MemoryUse::kOther:
      return "other";
    case MemoryUse::kGaps:
      return "gaps";
  }
  return "?";
}

int64_t MemoryBreakdown::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

namespace {

// Calls f(tick, what lives there by use) after each tick at which something begins.
template <typename F>
void ForEachBeginning(const std::vector<ArenaItem>& items, const F& f) {
  std::map<int64_t, std::pair<MemoryBreakdown, MemoryBreakdown>> changes;  // begin, end behind it
  for (const ArenaItem& item : items) {
    changes[item.first].first[item.use] += AlignForArena(item.bytes);
    changes[item.last + 1].second[item.use] += AlignForArena(item.bytes);
  }
  MemoryBreakdown live;
  for (const auto& [tick, change] : changes) {
    for (size_t u = 0; u < kMemoryUses; ++u) {
      live.bytes[u] += change.first.bytes[u] - change.second.bytes[u];
    }
    f(live);
  }
}

}  // namespace

MemoryBreakdown BreakdownAtPeak(const std::vector<ArenaItem>& items, int64_t arena_bytes) {
  MemoryBreakdown peak;
  int64_t most = 0;
  ForEachBeginning(items, [&](const MemoryBreakdown& live) {
    if (live.total() <= most) return;
    most = live.total();
    peak = live;
  });
  peak[MemoryUse::kGaps] = arena_bytes - most;
  return peak;
}

int64_t PeakOf(const std::vector<ArenaItem>& items, MemoryUse use) {
  int64_t most = 0;
  ForEachBeginning(items, [&](const MemoryBreakdown& live) { most = std::max(most, live[use]); });
  return most;
}

}  // namespace oc

#include "openclaw/partitioner/program/arena.h"

#include <algorithm>
#include <numeric>

namespace oc {

int64_t PlanArena(std::vector<ArenaItem>& items) {
  std::vector<int> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if (items[a].bytes != items[b].bytes) return items[a].bytes > items[b].bytes;
    return items[a].first < items[b].first;
  });
  std::vector<int> placed;  // by ascending offset
  int64_t size = 0;
  for (int id : order) {
    ArenaItem& item = items[id];
    const int64_t bytes = AlignForArena(item.bytes);
    int64_t offset = 0;
    for (int other : placed) {
      const ArenaItem& o = items[other];
      if (o.last < item.first || item.last < o.first) continue;
      if (o.offset >= offset + bytes) break;  // the gap before it holds the item
      const int64_t end = AlignForArena(o.offset + o.bytes);
      offset = std::max(offset, end);
    }
    item.offset = offset;
    if (item.bytes > 0) {
      auto at = std::upper_bound(placed.begin(), placed.end(), offset,
                                 [&](int64_t value, int p) { return value < items[p].offset; });
      placed.insert(at, id);
      size = std::max(size, offset + bytes);
    }
  }
  return size;
}

}  // namespace oc

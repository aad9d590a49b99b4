#include "openclaw/comm/tag.h"

#include "openclaw/core/status.h"

namespace oc {

int64_t GroupTag(int64_t epoch, int64_t id, int64_t step) {
  OC_CHECK(epoch >= 0 && epoch <= kMaxGroupEpoch, "epoch ", epoch);
  OC_CHECK(id >= 0 && id <= kMaxGroupId, "group ", id);
  OC_CHECK(step >= 0 && step <= kMaxGroupStep, "step ", step);
  const uint64_t packed = static_cast<uint64_t>(epoch) << 48 | static_cast<uint64_t>(id) << 24 |
                          static_cast<uint64_t>(step);
  return static_cast<int64_t>(packed | uint64_t{1} << 63);
}

std::string TagName(int64_t tag) {
  if (tag >= 0) return absl::StrCat("tag ", tag);
  const uint64_t u = static_cast<uint64_t>(tag);
  return absl::StrCat("group ", (u >> 24) & kMaxGroupId, ", epoch ", (u >> 48) & kMaxGroupEpoch,
                      ", step ", u & kMaxGroupStep);
}

}  // namespace oc

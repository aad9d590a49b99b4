// How the 64-bit tags of messages are shared out: zero and above are the caller's, below zero the
// groups'.
#pragma once

#include <cstdint>
#include <string>

namespace oc {

// Bounds of what fits into a group's tag.
inline constexpr int64_t kMaxGroupEpoch = (int64_t{1} << 15) - 1;
inline constexpr int64_t kMaxGroupId = (int64_t{1} << 24) - 1;
inline constexpr int64_t kMaxGroupStep = (int64_t{1} << 24) - 1;

// Precondition: all within [0, bound].
int64_t GroupTag(int64_t epoch, int64_t id, int64_t step);

// "tag 7", or "group 7, epoch 0, step 3": for messages.
std::string TagName(int64_t tag);

}  // namespace oc

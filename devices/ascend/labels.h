// Indices that come as data: labels of classes, ids of a vocabulary. An operator that is given one
// out of range may take the device down, so they are checked, and what is out of range is replaced,
// before they are used.
#pragma once

#include <optional>
#include <string>

#include "openclaw/devices/ascend/plan.h"

namespace oc::ascend {

struct CheckedIndices {
  View values;  // i64, one axis, as they came
  View safe;    // i64, within 0..count-1
  View counts;  // bool: is not the ignored one; of no use where none is ignored
};

// `indices` of i32 or i64, of any shape. Those outside 0..count-1 that are not `ignored` are
// reported as `what`.
CheckedIndices CheckIndices(Plan& plan, const View& indices, int64_t count, const std::string& what,
                            std::optional<int64_t> ignored);

}  // namespace oc::ascend

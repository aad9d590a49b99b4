// How a dense tensor lies in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "openclaw/core/shape.h"

namespace oc {

// Elements between neighbours along each axis, row-major. Precondition: a bound shape.
inline std::vector<int64_t> Strides(const Shape& shape) {
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank()));
  int64_t stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[static_cast<size_t>(d)] = stride;
    stride *= shape[d].size();
  }
  return strides;
}

}  // namespace oc

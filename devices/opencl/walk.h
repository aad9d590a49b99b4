// Elements that lie strides apart, with as few dimensions as describe them.
#pragma once

#include <cstdint>
#include <vector>

#include "openclaw/core/shape.h"

namespace oc::opencl {

struct Walk {
  std::vector<int64_t> sizes, strides;

  // Dimensions of one element vanish, and neighbours that lie as one are one.
  void Add(int64_t size, int64_t stride) {
    if (size == 1) return;
    if (!sizes.empty() && strides.back() == size * stride) {
      sizes.back() *= size;
      strides.back() = stride;
      return;
    }
    sizes.push_back(size);
    strides.push_back(stride);
  }
  // To eight dimensions, as kernels take them. Precondition: at most eight.
  void Fill() {
    while (sizes.size() < 8) {
      sizes.insert(sizes.begin(), 1);
      strides.insert(strides.begin(), 0);
    }
  }
};

inline std::vector<int64_t> Strides(const Shape& shape) {
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank()));
  int64_t stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[static_cast<size_t>(d)] = stride;
    stride *= shape[d].size();
  }
  return strides;
}

}  // namespace oc::opencl

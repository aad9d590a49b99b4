// Elements that lie strides apart, with as few dimensions as describe them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "openclaw/core/shape.h"
#include "openclaw/devices/strides.h"

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

// A tensor as rows of its last axis.
struct RowSplit {
  explicit RowSplit(const Shape& shape)
      : columns(shape[-1].size()), count(shape.num_elements() / std::max<int64_t>(columns, 1)) {}
  int64_t columns, count;
};

}  // namespace oc::opencl

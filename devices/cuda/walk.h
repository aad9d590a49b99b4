// Elements that lie strides apart, with as few dimensions as describe them.
#pragma once

#include <vector>

#include "openclaw/devices/cuda/kernels/move.h"
#include "openclaw/devices/strides.h"

namespace oc::cuda {

class WalkBuilder {
 public:
  // From the outermost dimension inwards. Those of one element vanish, and neighbours that lie as
  // one are one.
  void Add(int64_t size, int64_t stride) {
    if (size == 1) return;
    if (!sizes_.empty() && strides_.back() == size * stride) {
      sizes_.back() *= size;
      strides_.back() = stride;
      return;
    }
    sizes_.push_back(size);
    strides_.push_back(stride);
  }
  int64_t elements() const {
    int64_t n = 1;
    for (int64_t s : sizes_) n *= s;
    return n;
  }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  const std::vector<int64_t>& strides() const { return strides_; }
  // kUnimplemented beyond the dimensions that kernels take.
  StatusOr<kernels::Walk> Build() const {
    if (sizes_.size() > kernels::kDims) {
      return Unimplemented("no kernel for ", sizes_.size(),
                           " dimensions that do not lie together; there is one for ",
                           kernels::kDims);
    }
    kernels::Walk walk;
    walk.dims = static_cast<int>(sizes_.size());
    for (size_t d = 0; d < sizes_.size(); ++d) {
      walk.sizes[d] = sizes_[d];
      walk.strides[d] = strides_[d];
    }
    return walk;
  }

 private:
  std::vector<int64_t> sizes_, strides_;
};

}  // namespace oc::cuda

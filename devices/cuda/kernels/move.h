// Elements that are moved, whatever they mean. All functions take any size and alignment (of the
// element), and use the widest loads that shapes and addresses allow.
#pragma once

#include "openclaw/devices/cuda/kernels/types.h"

namespace oc::cuda::kernels {

constexpr int kDims = 8;

// Element i of the walk lies at the sum of its coordinates times the strides, in elements; the last
// dimension is the innermost. No dimensions: one element.
struct Walk {
  int dims = 0;
  int64_t sizes[kDims] = {};
  int64_t strides[kDims] = {};
};

// y[i] = x[walk(i)], elements of `bytes` bytes.
cudaError_t Gather(int bytes, const void* x, const Walk& walk, void* y, cudaStream_t stream);

// Rows of `width` bytes, `x_row` and `y_row` bytes from one to the next.
cudaError_t CopyRows(const void* x, int64_t x_row, void* y, int64_t y_row, int64_t rows,
                     int64_t width, cudaStream_t stream);

}  // namespace oc::cuda::kernels

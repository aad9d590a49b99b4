// Convolutions over NHWC images by their definition: for shapes and addresses that the library does
// not take. And the two layouts of weights.
#pragma once

#include "openclaw/devices/cuda/kernels/types.h"

namespace oc::cuda::kernels {

// x[batch, height, width, in], w[out, in_group, tap_rows, tap_columns], y[batch, out_height,
// out_width, out]. Tap (i, j) of output (h, w) reads row h * stride_h - pad_top + i * dilation_h.
struct ConvShape {
  Type type = Type::kF32;
  int64_t batch, height, width, in, out, in_group, groups, out_height, out_width;
  int64_t tap_rows, tap_columns;
  int64_t stride_h, stride_w, pad_top, pad_left, pad_bottom, pad_right, dilation_h, dilation_w;

  int64_t taps() const { return tap_rows * tap_columns; }
  int64_t x_elements() const { return batch * height * width * in; }
  int64_t y_elements() const { return batch * out_height * out_width * out; }
  int64_t w_elements() const { return out * in_group * taps(); }
};

// bias may be null.
cudaError_t Conv2d(const ConvShape& shape, const void* x, const void* w, const void* bias, void* y,
                   cudaStream_t stream);
cudaError_t Conv2dGradInput(const ConvShape& shape, const void* dy, const void* w, void* dx,
                            cudaStream_t stream);
// dw is of the type `sum`.
cudaError_t Conv2dGradWeight(const ConvShape& shape, const void* dy, const void* x, Type sum,
                             bool accumulate, void* dw, cudaStream_t stream);

// From [out, in, taps] to [out, taps, in].
cudaError_t WeightsToLibrary(Type type, const void* from, void* to, int64_t out, int64_t in,
                             int64_t taps, cudaStream_t stream);
// And back, from one float type to another.
cudaError_t WeightsFromLibrary(Type from_type, Type to_type, const void* from, void* to,
                               int64_t out, int64_t in, int64_t taps, bool accumulate,
                               cudaStream_t stream);

}  // namespace oc::cuda::kernels

// Windows that slide over NHWC images: what convolutions and pools share, in shape rules and
// kernels.
//
//   OC_ASSIGN_OR_RETURN(Window2d window, Conv2dWindow(attrs, weight.shape));
//   const int64_t out = window.h.Output(height);
#pragma once

#include "openclaw/graph/attributes.h"
#include "openclaw/graph/op.h"

namespace oc::ops {

// One direction. Position k of window o reads element o * stride - before + k * dilation, where
// that is within the image, and zero (or nothing, pools) elsewhere.
struct WindowAxis {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t before = 0;  // padding
  int64_t after = 0;
  int64_t dilation = 1;

  // How many windows fit; 0 or less where none does.
  int64_t Output(int64_t input) const {
    const int64_t span = input + before + after - dilation * (kernel - 1) - 1;
    return span < 0 ? 0 : span / stride + 1;
  }
  int64_t Position(int64_t window, int64_t k) const {
    return window * stride - before + k * dilation;
  }
  // The window whose position k reads `position`; -1 where there is none among 0..outputs-1.
  int64_t Window(int64_t position, int64_t k, int64_t outputs) const {
    const int64_t start = position + before - k * dilation;
    if (start < 0 || start % stride != 0 || start / stride >= outputs) return -1;
    return start / stride;
  }
};

struct Window2d {
  WindowAxis h;
  WindowAxis w;
};

// From the attributes stride, padding, dilation of conv2d and its gradients; the kernel's size is
// that of the weight [O, I / groups, KH, KW]. kInvalidArgument names the attribute that cannot be.
StatusOr<Window2d> Conv2dWindow(const Attributes& attrs, const Shape& weight);
// From kernel, stride, padding of pools. Padding is smaller than the kernel: no window is empty.
StatusOr<Window2d> Pool2dWindow(const Attributes& attrs);

// Height and width of an NHWC shape; kInvalidArgument where they are not bound or the rank is
// not 4.
StatusOr<std::pair<int64_t, int64_t>> ImageSize(const Shape& image, const char* what);
// [B, H, W, c] -> [B, H', W', channels]; kInvalidArgument where no window fits.
StatusOr<Shape> WindowedShape(const Window2d& window, const Shape& image, Dim channels,
                              const char* what);

}  // namespace oc::ops

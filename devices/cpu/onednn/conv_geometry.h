// What the kernels of convolutions know of a request.
#pragma once

#include "openclaw/devices/cpu/onednn/shim.h"
#include "openclaw/devices/device.h"
#include "openclaw/graph/ops/window.h"

namespace oc::cpu {

struct ConvGeometry {
  onednn::ConvolutionSpec::Kind kind = onednn::ConvolutionSpec::Kind::kForward;
  DType dtype = DType::kF32;
  DType sum = DType::kF32;  // kGradWeight: of the gradient; dtype or f32
  ops::Window2d window;
  int64_t batch, height, width, in, out, in_group, groups, out_height, out_width;
  bool bias = false, accumulate = false;

  int64_t taps() const { return window.h.kernel * window.w.kernel; }
  int64_t out_pixels() const { return batch * out_height * out_width; }
  int64_t in_pixels() const { return batch * height * width; }
};

// kUnimplemented for dtypes other than f32 and bf16, and for tensors without elements.
StatusOr<ConvGeometry> ConvGeometryOf(onednn::ConvolutionSpec::Kind kind, const OpRequest& request);

}  // namespace oc::cpu

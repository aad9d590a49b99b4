#include "openclaw/devices/cpu/onednn/conv_geometry.h"

namespace oc::cpu {

StatusOr<ConvGeometry> ConvGeometryOf(onednn::ConvolutionSpec::Kind kind, const OpRequest& r) {
  using Kind = onednn::ConvolutionSpec::Kind;
  const TensorType& x = kind == Kind::kGradInput    ? r.outputs[0]
                        : kind == Kind::kGradWeight ? r.inputs[1]
                                                    : r.inputs[0];
  const Shape& w = (kind == Kind::kGradWeight ? r.outputs[0] : r.inputs[1]).shape;
  const Shape& y = (kind == Kind::kForward ? r.outputs[0] : r.inputs[0]).shape;
  if (x.dtype != DType::kF32 && x.dtype != DType::kBF16) {
    return Unimplemented("oneDNN convolutions are f32 and bf16, not ", Name(x.dtype));
  }
  if (x.shape.num_elements() == 0 || w.num_elements() == 0 || y.num_elements() == 0) {
    return Unimplemented("a convolution without elements");
  }
  ConvGeometry g;
  g.kind = kind;
  g.dtype = x.dtype;
  g.sum = r.outputs[0].dtype;
  if (g.sum != g.dtype && g.sum != DType::kF32) {
    return Unimplemented("oneDNN convolutions of ", Name(g.dtype), " into ", Name(g.sum));
  }
  OC_ASSIGN_OR_RETURN(g.window, ops::Conv2dWindow(r.attrs, w));
  g.batch = x.shape[0].size();
  g.height = x.shape[1].size();
  g.width = x.shape[2].size();
  g.in = x.shape[3].size();
  g.out = w[0].size();
  g.in_group = w[1].size();
  g.groups = r.attrs.Int("groups", 1);
  g.out_height = y[1].size();
  g.out_width = y[2].size();
  g.bias = kind == Kind::kForward && r.inputs.size() > 2;
  g.accumulate = (r.accumulate & 1) != 0;
  return g;
}

}  // namespace oc::cpu

// Convolution over NHWC images: x[B, H, W, I] * w[O, I / groups, KH, KW] -> y[B, H', W', O].
#include "openclaw/graph/ops/ops.h"
#include "openclaw/graph/ops/window.h"

namespace oc::ops {
namespace {

// Output channels o of group g read the input channels of group g alone.
Status CheckChannels(const Shape& weight, const Dim& input_channels, int64_t groups) {
  if (groups < 1) return InvalidArgument("groups is ", groups, ", wants at least 1");
  const int64_t out = weight[0].size(), in = weight[1].size();
  if (out % groups != 0) {
    return InvalidArgument(out, " output channels are no multiple of ", groups, " groups");
  }
  if (!(input_channels == Dim(in * groups))) {
    return InvalidArgument("the input has ", input_channels.ToString(), " channels, the weight ",
                           weight.ToString(), " in ", groups, " groups wants ", in * groups);
  }
  return OkStatus();
}

StatusOr<Shape> OutputShape(const Shape& x, const Shape& weight, const Attributes& attrs) {
  OC_ASSIGN_OR_RETURN(const Window2d window, Conv2dWindow(attrs, weight));
  if (x.rank() != 4) {
    return InvalidArgument("the input's shape is ", x.ToString(), ", wants [B, H, W, C]");
  }
  OC_RETURN_IF_ERROR(CheckChannels(weight, x[3], attrs.Int("groups", 1)));
  return WindowedShape(window, x, weight[0], "the input");
}

StatusOr<std::vector<TensorType>> InferConv2d(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  const TensorType& w = args.inputs[1];
  OC_RETURN_IF_ERROR(ExpectFloat(x, "the input"));
  if (w.dtype != x.dtype) return InvalidArgument("input ", x.ToString(), ", weight ", w.ToString());
  OC_ASSIGN_OR_RETURN(Shape y, OutputShape(x.shape, w.shape, args.attrs));
  if (args.inputs.size() == 3) {
    OC_RETURN_IF_ERROR(ExpectSame(args.inputs[2], {x.dtype, {w.shape[0]}}, "bias, wanted bias"));
  }
  return std::vector<TensorType>{{x.dtype, std::move(y)}};
}

// For the gradients: dy must be what conv2d gives for these input and weight shapes.
Status CheckGradient(const TensorType& dy, const Shape& x, const Shape& weight,
                     const Attributes& attrs) {
  OC_RETURN_IF_ERROR(ExpectFloat(dy, "dy"));
  OC_ASSIGN_OR_RETURN(Shape y, OutputShape(x, weight, attrs));
  return ExpectSame(dy, {dy.dtype, std::move(y)}, "dy, conv2d's output");
}

StatusOr<std::vector<TensorType>> InferGradInput(const InferArgs& args) {
  const TensorType& dy = args.inputs[0];
  const TensorType& w = args.inputs[1];
  if (w.dtype != dy.dtype) return InvalidArgument("dy ", dy.ToString(), ", weight ", w.ToString());
  Shape x = args.attrs.GetShape("input_shape");
  OC_RETURN_IF_ERROR(CheckGradient(dy, x, w.shape, args.attrs));
  return std::vector<TensorType>{{dy.dtype, std::move(x)}};
}

StatusOr<std::vector<TensorType>> InferGradWeight(const InferArgs& args) {
  const TensorType& dy = args.inputs[0];
  const TensorType& x = args.inputs[1];
  if (x.dtype != dy.dtype) return InvalidArgument("dy ", dy.ToString(), ", input ", x.ToString());
  Shape w = args.attrs.GetShape("weight_shape");
  OC_RETURN_IF_ERROR(CheckGradient(dy, x.shape, w, args.attrs));
  return std::vector<TensorType>{{dy.dtype, std::move(w)}};
}

Status Gradient(GradContext& c) {
  const Val dy = c.grad();
  Attributes attrs = c.attrs();
  if (c.needs(0)) {
    attrs.Set("input_shape", c.b.shape(c.input(0)));
    c.Set(0, c.b.Op("conv2d_grad_input", {dy, c.input(1)}, attrs));
  }
  if (c.needs(1)) {
    attrs = c.attrs();
    attrs.Set("weight_shape", c.b.shape(c.input(1)));
    c.Set(1, c.b.Op("conv2d_grad_weight", {dy, c.input(0)}, attrs));
  }
  if (c.needs(2)) c.Set(2, c.b.ReduceSum(dy, {0, 1, 2}));
  return OkStatus();
}

// A multiplication and an addition for each weight element and output pixel.
OpCost Cost(const InferArgs& args, const std::vector<TensorType>& outputs, const Shape& y,
            const Shape& weight) {
  return CostWithFlops(
      2.0 * static_cast<double>(y.num_elements()) * static_cast<double>(weight[1].size()) *
          static_cast<double>(weight[2].size()) * static_cast<double>(weight[3].size()),
      args, outputs);
}

std::vector<AttrSpec> Attrs() {
  return {{"stride", std::vector<int64_t>{1, 1}},
          {"padding", std::vector<int64_t>{0, 0, 0, 0}},
          {"dilation", std::vector<int64_t>{1, 1}},
          {"groups", int64_t{1}}};
}

}  // namespace

OpDef Conv2d() {
  OpDef def;
  def.name = "conv2d";
  def.min_inputs = 2;
  def.max_inputs = 3;
  def.attrs = Attrs();
  def.infer = InferConv2d;
  def.gradient = Gradient;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return Cost(args, outputs, outputs[0].shape, args.inputs[1].shape);
  };
  return def;
}

OpDef Conv2dGradInput() {
  OpDef def;
  def.name = "conv2d_grad_input";
  def.min_inputs = def.max_inputs = 2;
  def.attrs = Attrs();
  def.attrs.push_back({"input_shape", Shape(), true});
  def.infer = InferGradInput;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return Cost(args, outputs, args.inputs[0].shape, args.inputs[1].shape);
  };
  return def;
}

OpDef Conv2dGradWeight() {
  OpDef def;
  def.name = "conv2d_grad_weight";
  def.min_inputs = def.max_inputs = 2;
  def.attrs = Attrs();
  def.attrs.push_back({"weight_shape", Shape(), true});
  def.infer = InferGradWeight;
  def.accumulable = 1;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return Cost(args, outputs, args.inputs[0].shape, outputs[0].shape);
  };
  return WithSumType(std::move(def), 1);
}

}  // namespace oc::ops

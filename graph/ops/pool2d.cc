// Pools over NHWC images. Padding is left out of a maximum, and of a mean where count_include_pad
// is off.
#include "openclaw/graph/ops/norm.h"
#include "openclaw/graph/ops/window.h"

namespace oc::ops {
namespace {

constexpr int64_t kMaxWindow = 256;  // positions are stored as u8

StatusOr<Shape> OutputShape(const Shape& x, const Attributes& attrs, bool max) {
  OC_ASSIGN_OR_RETURN(const Window2d window, Pool2dWindow(attrs));
  if (max && window.h.kernel * window.w.kernel > kMaxWindow) {
    return InvalidArgument("a window of ", window.h.kernel, " by ", window.w.kernel,
                           " has more than ", kMaxWindow, " positions");
  }
  OC_RETURN_IF_ERROR(ImageSize(x, "the input").status());
  return WindowedShape(window, x, x[3], "the input");
}

StatusOr<std::vector<TensorType>> InferMax(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectFloat(x, "the input"));
  OC_ASSIGN_OR_RETURN(const Shape y, OutputShape(x.shape, args.attrs, true));
  return std::vector<TensorType>{{x.dtype, y}, {DType::kU8, y}};
}

StatusOr<std::vector<TensorType>> InferAvg(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectFloat(x, "the input"));
  OC_ASSIGN_OR_RETURN(const Shape y, OutputShape(x.shape, args.attrs, false));
  return std::vector<TensorType>{{x.dtype, y}};
}

StatusOr<std::vector<TensorType>> InferGrad(const InferArgs& args, bool max) {
  const TensorType& dy = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectFloat(dy, "dy"));
  Shape x = args.attrs.GetShape("input_shape");
  OC_ASSIGN_OR_RETURN(Shape y, OutputShape(x, args.attrs, max));
  if (max) OC_RETURN_IF_ERROR(ExpectSame(args.inputs[1], {DType::kU8, y}, "index, wanted index"));
  OC_RETURN_IF_ERROR(ExpectSame(dy, {dy.dtype, std::move(y)}, "dy, the pool's output"));
  return std::vector<TensorType>{{dy.dtype, std::move(x)}};
}

std::vector<AttrSpec> Attrs(bool max, bool gradient) {
  std::vector<AttrSpec> attrs = {{"kernel", std::vector<int64_t>{1, 1}, true},
                                 {"stride", std::vector<int64_t>{1, 1}},
                                 {"padding", std::vector<int64_t>{0, 0, 0, 0}}};
  if (!max) attrs.push_back({"count_include_pad", true});
  if (gradient) attrs.push_back({"input_shape", Shape(), true});
  return attrs;
}

OpCost Cost(const InferArgs& args, const std::vector<TensorType>& outputs, const Shape& pooled) {
  const auto kernel = args.attrs.Ints("kernel");
  return CostWithFlops(static_cast<double>(pooled.num_elements() * kernel[0] * kernel[1]), args,
                       outputs);
}

}  // namespace

OpDef MaxPool2d() {
  OpDef def;
  def.name = "max_pool2d";
  def.attrs = Attrs(true, false);
  def.infer = InferMax;
  def.gradient = [](GradContext& c) -> Status {
    OC_RETURN_IF_ERROR(OnlyFirstOutput(c, 2));
    Attributes attrs = c.attrs();
    attrs.Set("input_shape", c.b.shape(c.input(0)));
    c.Set(0, c.b.Op("max_pool2d_grad", {c.grad(), c.output(1)}, attrs));
    return OkStatus();
  };
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return Cost(args, outputs, outputs[0].shape);
  };
  return def;
}

OpDef MaxPool2dGrad() {
  OpDef def;
  def.name = "max_pool2d_grad";
  def.min_inputs = def.max_inputs = 2;
  def.attrs = Attrs(true, true);
  def.infer = [](const InferArgs& args) { return InferGrad(args, true); };
  return def;
}

OpDef AvgPool2d() {
  OpDef def;
  def.name = "avg_pool2d";
  def.attrs = Attrs(false, false);
  def.infer = InferAvg;
  def.gradient = [](GradContext& c) -> Status {
    Attributes attrs = c.attrs();
    attrs.Set("input_shape", c.b.shape(c.input(0)));
    c.Set(0, c.b.Op("avg_pool2d_grad", {c.grad()}, attrs));
    return OkStatus();
  };
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return Cost(args, outputs, outputs[0].shape);
  };
  return def;
}

OpDef AvgPool2dGrad() {
  OpDef def;
  def.name = "avg_pool2d_grad";
  def.attrs = Attrs(false, true);
  def.infer = [](const InferArgs& args) { return InferGrad(args, false); };
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return Cost(args, outputs, args.inputs[0].shape);
  };
  return def;
}

}  // namespace oc::ops

// Layer normalisation (Ba, Kiros and Hinton, 2016) of the last axis:
//   y = (x - mean) * rstd * gamma + beta, rstd = 1 / sqrt(var + eps), var biased.
#include "openclaw/graph/ops/norm.h"

namespace oc::ops {

DType StatisticsType(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

Status OnlyFirstOutput(const GradContext& c, int outputs) {
  for (int i = 1; i < outputs; ++i) {
    if (c.grad(i)) {
      return InvalidArgument("the loss depends on output ", i,
                             ", which is saved for the backward and has no gradient of its own");
    }
  }
  return OkStatus();
}

TensorType ChannelType(const TensorType& x, DType dtype) { return {dtype, {x.shape[-1]}}; }

TensorType RowType(const TensorType& x, DType dtype) {
  std::vector<Dim> dims = x.shape.dims();
  dims.pop_back();
  return {dtype, Shape(std::move(dims))};
}

Status ExpectRows(const TensorType& x, const char* what) {
  OC_RETURN_IF_ERROR(ExpectFloat(x, what));
  if (x.shape.rank() >= 1) return OkStatus();
  return InvalidArgument(what, " is ", x.ToString(), ", wants at least one dimension");
}

namespace {

StatusOr<std::vector<TensorType>> Infer(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectRows(x, "x"));
  for (size_t i = 1; i < args.inputs.size(); ++i) {
    OC_RETURN_IF_ERROR(ExpectSame(args.inputs[i], ChannelType(x, x.dtype),
                                  i == 1 ? "gamma, wanted gamma" : "beta, wanted beta"));
  }
  const TensorType rows = RowType(x, StatisticsType(x.dtype));
  return std::vector<TensorType>{x, rows, rows};
}

// dy, x, gamma?, mean, rstd: a gamma that the layer lacks is left out.
StatusOr<std::vector<TensorType>> InferGradInput(const InferArgs& args) {
  const TensorType& dy = args.inputs[0];
  const size_t n = args.inputs.size();
  OC_RETURN_IF_ERROR(ExpectRows(dy, "dy"));
  const TensorType rows = RowType(dy, StatisticsType(dy.dtype));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[1], dy, "x, dy"));
  if (n == 5) {
    OC_RETURN_IF_ERROR(
        ExpectSame(args.inputs[2], ChannelType(dy, dy.dtype), "gamma, wanted gamma"));
  }
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[n - 2], rows, "mean, wanted mean"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[n - 1], rows, "rstd, wanted rstd"));
  return std::vector<TensorType>{dy};
}

StatusOr<std::vector<TensorType>> InferGradWeight(const InferArgs& args) {
  const TensorType& dy = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectRows(dy, "dy"));
  const TensorType rows = RowType(dy, StatisticsType(dy.dtype));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[1], dy, "x, dy"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[2], rows, "mean, wanted mean"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[3], rows, "rstd, wanted rstd"));
  const TensorType gamma = ChannelType(dy, dy.dtype);
  return std::vector<TensorType>{gamma, gamma};
}

Status Gradient(GradContext& c) {
  OC_RETURN_IF_ERROR(OnlyFirstOutput(c, 3));
  const Val x = c.input(0), mean = c.output(1), rstd = c.output(2);
  if (c.needs(0)) {
    std::vector<Val> inputs = {c.grad(), x, mean, rstd};
    if (c.num_inputs() > 1) inputs.insert(inputs.begin() + 2, c.input(1));
    c.Set(0, c.b.Op("layer_norm_grad_input", inputs));
  }
  if (c.needs(1) || c.needs(2)) {
    const std::vector<Val> grads = c.b.OpN("layer_norm_grad_weight", {c.grad(), x, mean, rstd});
    OC_RETURN_IF_ERROR(c.b.status());
    if (c.needs(1)) c.Set(1, grads[0]);
    if (c.needs(2)) c.Set(2, grads[1]);
  }
  return OkStatus();
}

}  // namespace

OpDef LayerNorm() {
  OpDef def;
  def.name = "layer_norm";
  def.max_inputs = 3;
  def.attrs = {{"eps", 1e-5}};
  def.infer = Infer;
  def.gradient = Gradient;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) -> OpCost {
    return CostWithFlops(8.0 * static_cast<double>(outputs[0].shape.num_elements()), args, outputs);
  };
  return def;
}

OpDef LayerNormGradInput() {
  OpDef def;
  def.name = "layer_norm_grad_input";
  def.min_inputs = 4;
  def.max_inputs = 5;
  def.infer = InferGradInput;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) -> OpCost {
    return CostWithFlops(10.0 * static_cast<double>(outputs[0].shape.num_elements()), args,
                         outputs);
  };
  def.reuse = {0};
  return def;
}

OpDef LayerNormGradWeight() {
  OpDef def;
  def.name = "layer_norm_grad_weight";
  def.min_inputs = def.max_inputs = 4;
  def.infer = InferGradWeight;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) -> OpCost {
    return CostWithFlops(5.0 * static_cast<double>(args.inputs[0].shape.num_elements()), args,
                         outputs);
  };
  def.accumulable = 3;
  return WithSumType(std::move(def), 0b11);
}

}  // namespace oc::ops

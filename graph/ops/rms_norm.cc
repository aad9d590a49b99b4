// Root-mean-square normalisation (Zhang and Sennrich, 2019) of the last axis:
//   y = x * rstd * gamma, rstd = 1 / sqrt(mean(x^2) + eps).
#include "openclaw/graph/ops/norm.h"

namespace oc::ops {
namespace {

StatusOr<std::vector<TensorType>> Infer(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectRows(x, "x"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[1], ChannelType(x, x.dtype), "gamma, wanted gamma"));
  return std::vector<TensorType>{x, RowType(x, StatisticsType(x.dtype))};
}

StatusOr<std::vector<TensorType>> InferGradInput(const InferArgs& args) {
  const TensorType& dy = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectRows(dy, "dy"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[1], dy, "x, dy"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[2], ChannelType(dy, dy.dtype), "gamma, wanted gamma"));
  OC_RETURN_IF_ERROR(
      ExpectSame(args.inputs[3], RowType(dy, StatisticsType(dy.dtype)), "rstd, wanted rstd"));
  return std::vector<TensorType>{dy};
}

StatusOr<std::vector<TensorType>> InferGradWeight(const InferArgs& args) {
  const TensorType& dy = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectRows(dy, "dy"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[1], dy, "x, dy"));
  OC_RETURN_IF_ERROR(
      ExpectSame(args.inputs[2], RowType(dy, StatisticsType(dy.dtype)), "rstd, wanted rstd"));
  return std::vector<TensorType>{ChannelType(dy, dy.dtype)};
}

Status Gradient(GradContext& c) {
  OC_RETURN_IF_ERROR(OnlyFirstOutput(c, 2));
  const Val x = c.input(0), rstd = c.output(1);
  if (c.needs(0)) c.Set(0, c.b.Op("rms_norm_grad_input", {c.grad(), x, c.input(1), rstd}));
  if (c.needs(1)) c.Set(1, c.b.Op("rms_norm_grad_weight", {c.grad(), x, rstd}));
  return OkStatus();
}

}  // namespace

OpDef RmsNorm() {
  OpDef def;
  def.name = "rms_norm";
  def.min_inputs = def.max_inputs = 2;
  def.attrs = {{"eps", 1e-5}};
  def.infer = Infer;
  def.gradient = Gradient;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) -> OpCost {
    return CostWithFlops(4.0 * static_cast<double>(outputs[0].shape.num_elements()), args, outputs);
  };
  return def;
}

OpDef RmsNormGradInput() {
  OpDef def;
  def.name = "rms_norm_grad_input";
  def.min_inputs = def.max_inputs = 4;
  def.infer = InferGradInput;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) -> OpCost {
    return CostWithFlops(7.0 * static_cast<double>(outputs[0].shape.num_elements()), args, outputs);
  };
  def.reuse = {0};
  return def;
}

OpDef RmsNormGradWeight() {
  OpDef def;
  def.name = "rms_norm_grad_weight";
  def.min_inputs = def.max_inputs = 3;
  def.infer = InferGradWeight;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) -> OpCost {
    return CostWithFlops(3.0 * static_cast<double>(args.inputs[0].shape.num_elements()), args,
                         outputs);
  };
  def.accumulable = 1;
  return WithSumType(std::move(def), 1);
}

}  // namespace oc::ops

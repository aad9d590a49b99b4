// Batch normalisation (Ioffe and Szegedy, 2015) over all dimensions but the last:
//   y = (x - mean) / sqrt(var + eps) * gamma + beta, then relu where the activation asks for it.
// In training mean and var are those of the micro-batch, var biased; else the running statistics.
#include "openclaw/graph/ops/norm.h"

namespace oc::ops {
namespace {

Status CheckActivation(const Attributes& attrs) {
  const std::string activation = attrs.String("activation", "none");
  if (activation == "none" || activation == "relu") return OkStatus();
  return InvalidArgument("activation is \"", activation, "\", wants \"none\" or \"relu\"");
}

StatusOr<std::vector<TensorType>> Infer(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectRows(x, "x"));
  OC_RETURN_IF_ERROR(CheckActivation(args.attrs));
  const TensorType affine = ChannelType(x, x.dtype);
  const TensorType statistics = ChannelType(x, StatisticsType(x.dtype));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[1], affine, "gamma, wanted gamma"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[2], affine, "beta, wanted beta"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[3], statistics, "running_mean, wanted running_mean"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[4], statistics, "running_var, wanted running_var"));
  return std::vector<TensorType>{x, statistics, statistics};
}

StatusOr<std::vector<TensorType>> InferGrad(const InferArgs& args) {
  const TensorType& dy = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectRows(dy, "dy"));
  OC_RETURN_IF_ERROR(CheckActivation(args.attrs));
  const TensorType affine = ChannelType(dy, dy.dtype);
  const TensorType statistics = ChannelType(dy, StatisticsType(dy.dtype));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[1], dy, "x, dy"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[2], affine, "gamma, wanted gamma"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[3], affine, "beta, wanted beta"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[4], statistics, "mean, wanted mean"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[5], statistics, "var, wanted var"));
  return std::vector<TensorType>{dy, affine, affine};
}

// With fixed statistics y is linear in x.
Status FrozenGradient(GradContext& c, Val dy) {
  GraphBuilder& b = c.b;
  const TensorType x = b.type(c.input(0));
  const double eps = c.attrs().Double("eps", 1e-5);
  const Val rstd =
      b.Cast(b.Op("reciprocal", {b.Op("sqrt", {b.Scale(c.output(2), 1.0, eps)})}), x.dtype);
  std::vector<int64_t> rows;
  for (int i = 0; i + 1 < x.shape.rank(); ++i) rows.push_back(i);
  if (c.needs(0)) c.Set(0, b.Mul(dy, b.Mul(c.input(1), rstd)));
  if (c.needs(1)) {
    const Val centred = b.Sub(c.input(0), b.Cast(c.output(1), x.dtype));
    c.Set(1, b.Mul(b.ReduceSum(b.Mul(dy, centred), rows), rstd));
  }
  if (c.needs(2)) c.Set(2, b.ReduceSum(dy, rows));
  return OkStatus();
}

Status Gradient(GradContext& c) {
  OC_RETURN_IF_ERROR(OnlyFirstOutput(c, 3));
  Val dy = c.grad();
  const std::string activation = c.attrs().String("activation", "none");
  if (!c.attrs().Bool("training", true)) {
    if (activation == "relu") dy = c.b.Op("relu_grad", {dy, c.output(0)});
    return FrozenGradient(c, dy);
  }
  const std::vector<Val> grads =
      c.b.OpN("batch_norm_grad", {dy, c.input(0), c.input(1), c.input(2), c.output(1), c.output(2)},
              {{"eps", c.attrs().Double("eps", 1e-5)}, {"activation", activation}});
  OC_RETURN_IF_ERROR(c.b.status());
  for (int i = 0; i < 3; ++i) {
    if (c.needs(i)) c.Set(i, grads[i]);
  }
  return OkStatus();
}

// The fused relu as an op of its own.
StatusOr<std::vector<int>> Decompose(GraphBuilder& b, const std::vector<int>& inputs,
                                     const Attributes& attrs) {
  if (attrs.String("activation", "none") == "none") {
    return Unimplemented("batch_norm has no simpler ops");
  }
  std::vector<Val> operands;
  for (int id : inputs) operands.push_back({id});
  Attributes plain = attrs;
  plain.Set("activation", std::string("none"));
  const std::vector<Val> y = b.OpN("batch_norm", operands, plain);
  OC_RETURN_IF_ERROR(b.status());
  const Val relu = b.Relu(y[0]);
  OC_RETURN_IF_ERROR(b.status());
  return std::vector<int>{relu.id, y[1].id, y[2].id};
}

// The gate from the normalised x, which batch_norm gives for the same statistics.
StatusOr<std::vector<int>> DecomposeGrad(GraphBuilder& b, const std::vector<int>& inputs,
                                         const Attributes& attrs) {
  if (attrs.String("activation", "none") == "none") {
    return Unimplemented("batch_norm_grad has no simpler ops");
  }
  std::vector<Val> operands;
  for (int id : inputs) operands.push_back({id});
  Attributes forward = attrs, plain = attrs;
  forward.Set("training", false);
  plain.Set("activation", std::string("none"));
  const Val y = b.Op("batch_norm", {operands.begin() + 1, operands.end()}, forward);
  operands[0] = b.Op("relu_grad", {operands[0], y});
  const std::vector<Val> grads = b.OpN("batch_norm_grad", operands, plain);
  OC_RETURN_IF_ERROR(b.status());
  return std::vector<int>{grads[0].id, grads[1].id, grads[2].id};
}

StatusOr<std::vector<TensorType>> InferUnbiased(const InferArgs& args) {
  OC_RETURN_IF_ERROR(ExpectFloat(args.inputs[0], "var"));
  return std::vector<TensorType>{args.inputs[0]};
}

}  // namespace

OpDef BatchNorm() {
  OpDef def;
  def.name = "batch_norm";
  def.min_inputs = def.max_inputs = 5;
  def.attrs = {{"eps", 1e-5}, {"training", true}, {"activation", std::string("none")}};
  def.infer = Infer;
  def.gradient = Gradient;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) -> OpCost {
    return CostWithFlops(8.0 * static_cast<double>(outputs[0].shape.num_elements()), args, outputs);
  };
  def.couples_samples = true;
  def.decompose = Decompose;
  return def;
}

OpDef BatchNormGrad() {
  OpDef def;
  def.name = "batch_norm_grad";
  def.min_inputs = def.max_inputs = 6;
  def.attrs = {{"eps", 1e-5}, {"activation", std::string("none")}};
  def.infer = InferGrad;
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) -> OpCost {
    return CostWithFlops(12.0 * static_cast<double>(outputs[0].shape.num_elements()), args,
                         outputs);
  };
  def.reuse = {0, -1, -1};
  def.couples_samples = true;
  def.decompose = DecomposeGrad;
  return WithSumType(std::move(def), 0b110);
}

// How many samples a micro-batch has is known once it is bound: hence a shape, not a number.
OpDef UnbiasedVar() {
  OpDef def;
  def.name = "unbiased_var";
  def.attrs = {{"rows", Shape(), true}};
  def.infer = InferUnbiased;
  def.reuse = {0};
  return def;
}

}  // namespace oc::ops

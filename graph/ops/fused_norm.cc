// Layer normalisation with the residual sums around it, each in one pass over the activations
// (graph/fuse.h).
#include "openclaw/graph/ops/norm.h"

namespace oc::ops {
namespace {

using Ids = std::vector<int>;

// a, b, gamma, beta -> sum, y, mean, rstd.
StatusOr<std::vector<TensorType>> InferAddLayerNorm(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectRows(x, "a"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[1], x, "b, a"));
  const TensorType channels = ChannelType(x, x.dtype);
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[2], channels, "gamma, wanted gamma"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[3], channels, "beta, wanted beta"));
  const TensorType rows = RowType(x, StatisticsType(x.dtype));
  return std::vector<TensorType>{x, x, rows, rows};
}

// dy, x, gamma, mean, rstd, other? -> dx, dgamma, dbeta.
StatusOr<std::vector<TensorType>> InferLayerNormGrad(const InferArgs& args) {
  const TensorType& dy = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectRows(dy, "dy"));
  const TensorType rows = RowType(dy, StatisticsType(dy.dtype));
  const TensorType channels = ChannelType(dy, dy.dtype);
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[1], dy, "x, dy"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[2], channels, "gamma, wanted gamma"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[3], rows, "mean, wanted mean"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[4], rows, "rstd, wanted rstd"));
  if (args.inputs.size() > 5) OC_RETURN_IF_ERROR(ExpectSame(args.inputs[5], dy, "other, dy"));
  return std::vector<TensorType>{dy, channels, channels};
}

}  // namespace

OpDef AddLayerNorm() {
  OpDef def;
  def.name = "add_layer_norm";
  def.min_inputs = def.max_inputs = 4;
  def.attrs = {{"eps", 1e-5}};
  def.infer = InferAddLayerNorm;
  def.reuse = {0};
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return CostWithFlops(9.0 * static_cast<double>(outputs[0].shape.num_elements()), args, outputs);
  };
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes& attrs) -> StatusOr<Ids> {
    const Val sum = b.Add({in[0]}, {in[1]});
    const std::vector<Val> y = b.OpN("layer_norm", {sum, {in[2]}, {in[3]}}, attrs);
    OC_RETURN_IF_ERROR(b.status());
    return Ids{sum.id, y[0].id, y[1].id, y[2].id};
  };
  return def;
}

OpDef LayerNormGrad() {
  OpDef def;
  def.name = "layer_norm_grad";
  def.min_inputs = 5;
  def.max_inputs = 6;
  def.infer = InferLayerNormGrad;
  def.reuse = {5};
  def.cost = [](const InferArgs& args, const std::vector<TensorType>& outputs) {
    return CostWithFlops(16.0 * static_cast<double>(outputs[0].shape.num_elements()), args,
                         outputs);
  };
  def.accumulable = 0b110;
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes&) -> StatusOr<Ids> {
    const Val dy = {in[0]}, x = {in[1]}, mean = {in[3]}, rstd = {in[4]};
    Val dx = b.Op("layer_norm_grad_input", {dy, x, {in[2]}, mean, rstd});
    const std::vector<Val> sums = b.OpN("layer_norm_grad_weight", {dy, x, mean, rstd});
    OC_RETURN_IF_ERROR(b.status());
    if (in.size() > 5) dx = b.Add({in[5]}, dx);
    return Ids{dx.id, sums[0].id, sums[1].id};
  };
  return WithSumType(std::move(def), 0b110);
}

}  // namespace oc::ops

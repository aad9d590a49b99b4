// softmax over the last axis, and its gradient from the output.
#include "openclaw/graph/ops/ops.h"

namespace oc::ops {
namespace {

using Ids = std::vector<int>;

StatusOr<std::vector<TensorType>> InferSoftmax(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectFloat(x, "x"));
  if (x.shape.rank() < 1) return InvalidArgument("x is ", x.ToString(), ", wants a last axis");
  return std::vector<TensorType>{x};
}

// reduce(x) over the last axis, as large as x again.
Val RowWise(GraphBuilder& b, const char* reduce, Val x) {
  const Val row = b.Op(reduce, {x}, {{"axes", std::vector<int64_t>{-1}}, {"keep_dims", true}});
  return b.Op("broadcast_to", {row}, {{"shape", b.shape(x)}});
}

StatusOr<Ids> Decompose(GraphBuilder& b, const Ids& in, const Attributes&) {
  const Val x = {in[0]};
  const Val e = b.Op("exp", {b.Sub(x, RowWise(b, "reduce_max", x))});
  return Ids{b.Div(e, RowWise(b, "reduce_sum", e)).id};
}

// y (dy - sum(dy y)).
StatusOr<Ids> DecomposeGrad(GraphBuilder& b, const Ids& in, const Attributes&) {
  const Val dy = {in[0]}, y = {in[1]};
  return Ids{b.Mul(y, b.Sub(dy, RowWise(b, "reduce_sum", b.Mul(dy, y)))).id};
}

OpCost Cost(const InferArgs& args, const std::vector<TensorType>& outputs) {
  return CostWithFlops(5.0 * static_cast<double>(outputs[0].shape.num_elements()), args, outputs);
}

}  // namespace

OpDef Softmax() {
  OpDef def;
  def.name = "softmax";
  def.infer = InferSoftmax;
  def.gradient = [](GradContext& c) {
    c.Set(0, c.b.Op("softmax_grad", {c.grad(), c.output(0)}));
    return OkStatus();
  };
  def.cost = Cost;
  def.decompose = Decompose;
  return def;
}

OpDef SoftmaxGrad() {
  OpDef def;
  def.name = "softmax_grad";
  def.min_inputs = def.max_inputs = 2;
  def.infer = [](const InferArgs& args) -> StatusOr<std::vector<TensorType>> {
    OC_RETURN_IF_ERROR(ExpectSame(args.inputs[0], args.inputs[1], "dy and y"));
    return InferSoftmax(args);
  };
  def.cost = Cost;
  def.decompose = DecomposeGrad;
  return def;
}

}  // namespace oc::ops

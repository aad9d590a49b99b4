// dropout: x, rng i64[4] -> y. Which elements stay is a function of the seed, the step and the
// element's position in the global batch, so any plan drops the same ones, and the gradient is
// dropout of dy.
#include "openclaw/graph/ops/ops.h"

namespace oc::ops {
namespace {

StatusOr<std::vector<TensorType>> Infer(const InferArgs& args) {
  const TensorType& x = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectFloat(x, "x"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[1], {DType::kI64, {4}}, "rng and what it wants"));
  if (x.shape.rank() < 1) return InvalidArgument("x is ", x.ToString(), ", wants samples in front");
  const double p = args.attrs.Double("p");
  if (!(p >= 0 && p < 1)) return InvalidArgument("p is ", p, ", wants 0 <= p < 1");
  return std::vector<TensorType>{x};
}

}  // namespace

OpDef Dropout() {
  OpDef def;
  def.name = "dropout";
  def.min_inputs = def.max_inputs = 2;
  def.attrs = {
      {"p", 0.5, /*required=*/true}, {"stream", int64_t{0}, /*required=*/true}, {"training", true}};
  def.infer = Infer;
  def.gradient = [](GradContext& c) {
    c.Set(0, c.b.Op("dropout", {c.grad(), c.input(1)}, c.attrs()));
    return OkStatus();
  };
  def.reuse = {0};
  def.random = true;
  return def;
}

}  // namespace oc::ops

// What a step's update is made of: accumulate lerp sum_squares clip_factor sgd adamw. Scalars that
// change from step to step (lr, step, clip) are inputs.
#include <cmath>

#include "openclaw/graph/ops/ops.h"

namespace oc::ops {
namespace {

using Ids = std::vector<int>;
using Types = std::vector<TensorType>;

const TensorType kScalar = {DType::kF32, {}};

// A float tensor of the same shape, of any float dtype: gradients may be narrower than what they
// change.
Status ExpectSameShape(const TensorType& a, const TensorType& b, const char* what) {
  OC_RETURN_IF_ERROR(ExpectFloat(a, what));
  OC_RETURN_IF_ERROR(ExpectFloat(b, what));
  if (a.shape == b.shape) return OkStatus();
  return ExpectSame(a, b, what);
}

OpDef InPlace(const char* name, int inputs, std::vector<int> updates) {
  OpDef def;
  def.name = name;
  def.min_inputs = def.max_inputs = inputs;
  def.updates = std::move(updates);
  return def;
}

StatusOr<Types> InferStateAndValue(const InferArgs& args) {
  OC_RETURN_IF_ERROR(
      ExpectSameShape(args.inputs[0], args.inputs[1], "the state and what it takes up"));
  return Types{args.inputs[0]};
}

StatusOr<Types> InferSgd(const InferArgs& args) {
  const TensorType& p = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectSameShape(p, args.inputs[1], "p and g"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[2], kScalar, "lr and what it wants"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[3], kScalar, "clip and what it wants"));
  if (args.inputs.size() == 4) {
    if (args.attrs.Double("momentum") != 0) return InvalidArgument("momentum needs a buffer");
    return Types{p};
  }
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[4], p, "the momentum buffer and p"));
  return Types{p, p};
}

StatusOr<Types> InferAdamW(const InferArgs& args) {
  const TensorType& p = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectSameShape(p, args.inputs[1], "p and g"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[2], p, "m and p"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[3], p, "v and p"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[4], kScalar, "lr and what it wants"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[5], kScalar, "step and what it wants"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[6], kScalar, "clip and what it wants"));
  return Types{p, p, p};
}

// g * clip in p's dtype.
Val ClippedGradient(GraphBuilder& b, Val p, Val g, Val clip) {
  const DType dtype = b.type(p).dtype;
  return b.Mul(b.Cast(g, dtype), b.Cast(clip, dtype));
}

StatusOr<Ids> DecomposeSgd(GraphBuilder& b, const Ids& in, const Attributes& attrs) {
  const Val p = {in[0]};
  const double momentum = attrs.Double("momentum");
  Val g = ClippedGradient(b, p, {in[1]}, {in[3]});
  if (const double decay = attrs.Double("weight_decay"); decay != 0) {
    g = b.Add(g, b.Scale(p, decay));
  }
  Val buffer;
  if (in.size() > 4) {
    buffer = b.Add(b.Scale({in[4]}, momentum), g);
    g = attrs.Bool("nesterov") ? b.Add(g, b.Scale(buffer, momentum)) : buffer;
  }
  const Val next = b.Sub(p, b.Mul(g, b.Cast({in[2]}, b.type(p).dtype)));
  return buffer ? Ids{next.id, buffer.id} : Ids{next.id};
}

StatusOr<Ids> DecomposeAdamW(GraphBuilder& b, const Ids& in, const Attributes& attrs) {
  const Val p = {in[0]};
  const DType dtype = b.type(p).dtype;
  const Val lr = b.Cast({in[4]}, dtype), step = b.Cast({in[5]}, dtype);
  const double beta1 = attrs.Double("beta1", 0.9), beta2 = attrs.Double("beta2", 0.999);
  const Val g = ClippedGradient(b, p, {in[1]}, {in[6]});
  const Val m = b.Add(b.Scale({in[2]}, beta1), b.Scale(g, 1 - beta1));
  const Val v = b.Add(b.Scale({in[3]}, beta2), b.Scale(b.Mul(g, g), 1 - beta2));
  // 1 - beta^step.
  const auto correction = [&](double beta) {
    return b.Scale(b.Op("exp", {b.Scale(step, std::log(beta))}), -1.0, 1.0);
  };
  const Val root = b.Op("sqrt", {b.Div(v, correction(beta2))});
  const Val update =
      b.Div(b.Div(m, correction(beta1)), b.Scale(root, 1.0, attrs.Double("eps", 1e-8)));
  const Val keep = b.Scale(lr, -attrs.Double("weight_decay"), 1.0);
  return Ids{b.Sub(b.Mul(p, keep), b.Mul(update, lr)).id, m.id, v.id};
}

}  // namespace

OpDef Accumulate() {
  OpDef def = InPlace("accumulate", 2, {0});
  def.infer = InferStateAndValue;
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes&) -> StatusOr<Ids> {
    return Ids{b.Add({in[0]}, b.Cast({in[1]}, b.type({in[0]}).dtype)).id};
  };
  return def;
}

OpDef Lerp() {
  OpDef def = InPlace("lerp", 2, {0});
  def.attrs = {{"rate", 0.1, /*required=*/true}};
  def.infer = InferStateAndValue;
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes& attrs) -> StatusOr<Ids> {
    const Val state = {in[0]};
    const Val step = b.Sub(b.Cast({in[1]}, b.type(state).dtype), state);
    return Ids{b.Add(state, b.Scale(step, attrs.Double("rate"))).id};
  };
  return def;
}

OpDef SumSquares() {
  OpDef def;
  def.name = "sum_squares";
  def.max_inputs = -1;
  def.infer = [](const InferArgs& args) -> StatusOr<Types> {
    for (const TensorType& x : args.inputs) OC_RETURN_IF_ERROR(ExpectFloat(x, "x"));
    return Types{kScalar};
  };
  def.cost = [](const InferArgs& args, const Types& outputs) {
    double flops = 0;
    for (const TensorType& x : args.inputs)
      flops += 2.0 * static_cast<double>(x.shape.num_elements());
    return CostWithFlops(flops, args, outputs);
  };
  def.accumulable = 1;
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes&) -> StatusOr<Ids> {
    Val sum;
    for (int id : in) {
      const Val x = b.Cast({id}, DType::kF32);
      const Val one = b.ReduceSum(b.Mul(x, x), {});
      sum = sum ? b.Add(sum, one) : one;
    }
    return Ids{sum.id};
  };
  return def;
}

OpDef ClipFactor() {
  OpDef def;
  def.name = "clip_factor";
  def.attrs = {{"max_norm", 1.0, /*required=*/true}};
  def.infer = [](const InferArgs& args) -> StatusOr<Types> {
    OC_RETURN_IF_ERROR(ExpectSame(args.inputs[0], kScalar, "the sum of squares and what it wants"));
    if (!(args.attrs.Double("max_norm") > 0)) {
      return InvalidArgument("max_norm is ", args.attrs.Double("max_norm"),
                             ", wants a positive number");
    }
    return Types{kScalar};
  };
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes& attrs) -> StatusOr<Ids> {
    if (std::isinf(attrs.Double("max_norm"))) {
      const Val never = b.Op("less", {{in[0]}, {in[0]}});
      return Ids{b.Scale(b.Cast(never, DType::kF32), 0.0, 1.0).id};
    }
    const Val norm = b.Scale(b.Op("sqrt", {{in[0]}}), 1.0, 1e-6);
    const Val ratio = b.Scale(b.Op("reciprocal", {norm}), attrs.Double("max_norm"));
    const Val one = b.Scale(ratio, 0.0, 1.0);
    return Ids{b.Op("where", {b.Op("less", {ratio, one}), ratio, one}).id};
  };
  return def;
}

OpDef Sgd() {
  OpDef def = InPlace("sgd", 4, {0, 4});
  def.max_inputs = 5;
  def.attrs = {{"momentum", 0.0}, {"nesterov", false}, {"weight_decay", 0.0}};
  def.infer = InferSgd;
  def.cost = [](const InferArgs& args, const Types& outputs) {
    return CostWithFlops(6.0 * static_cast<double>(outputs[0].shape.num_elements()), args, outputs);
  };
  def.decompose = DecomposeSgd;
  return def;
}

OpDef AdamW() {
  OpDef def = InPlace("adamw", 7, {0, 2, 3});
  def.attrs = {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.0}};
  def.infer = InferAdamW;
  def.cost = [](const InferArgs& args, const Types& outputs) {
    return CostWithFlops(15.0 * static_cast<double>(outputs[0].shape.num_elements()), args,
                         outputs);
  };
  def.decompose = DecomposeAdamW;
  return def;
}

}  // namespace oc::ops

// LAMB in two ops (optim/lamb.h): lamb_moments takes the gradient up and sums, chunk by chunk, the
// squares of p and of the step that is wanted; lamb_step scales the step by the ratio of the norms
// of the whole tensor. Who holds whole chunks of a tensor runs both on them, given all its sums in
// between.
#include "openclaw/graph/ops/update.h"
#include "openclaw/graph/sum_chunks.h"

namespace oc::ops {
namespace {

using Types = std::vector<TensorType>;
using Vals = std::vector<Val>;

// The step before it is scaled: the bias-corrected Adam step, and the decay.
Val WantedStep(GraphBuilder& b, Val p, Val m, Val v, Val step, const Attributes& attrs) {
  const Val root = b.Op("sqrt", {Corrected(b, v, step, attrs.Double("beta2", 0.999))});
  const Val update = b.Div(Corrected(b, m, step, attrs.Double("beta1", 0.9)),
                           b.Scale(root, 1.0, attrs.Double("eps", 1e-6)));
  const double decay = attrs.Double("weight_decay");
  return decay == 0 ? update : b.Add(update, b.Scale(p, decay));
}

StatusOr<Types> InferMoments(const InferArgs& args) {
  const TensorType& p = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectSameShape(p, args.inputs[1], "p and g"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[2], p, "m and p"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[3], p, "v and p"));
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[4], "step"));
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[5], "clip"));
  if (!p.shape.bound()) return InvalidArgument("p is ", p.ToString(), ", wants a bound shape");
  const TensorType sums = {DType::kF32, {SumChunks(p.shape)}};
  return Types{p, p, sums, sums};
}

Vals DecomposeMoments(GraphBuilder& b, const Vals& in, const Attributes& attrs) {
  const double beta1 = attrs.Double("beta1", 0.9), beta2 = attrs.Double("beta2", 0.999);
  const Val g = ClippedGradient(b, in[0], in[1], in[5], attrs);
  const Val m = b.Add(b.Scale(in[2], beta1), b.Scale(g, 1 - beta1));
  const Val v = b.Add(b.Scale(in[3], beta2), b.Scale(b.Mul(g, g), 1 - beta2));
  return {m, v, ChunkSquares(b, in[0]), ChunkSquares(b, WantedStep(b, in[0], m, v, in[4], attrs))};
}

StatusOr<Types> InferStep(const InferArgs& args) {
  const TensorType& p = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectFloat(p, "p"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[1], p, "m and p"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[2], p, "v and p"));
  for (int i : {3, 4}) {
    OC_RETURN_IF_ERROR(ExpectRank(args.inputs[i], 1, "sums of squares"));
    OC_RETURN_IF_ERROR(
        ExpectSame(args.inputs[i], {DType::kF32, args.inputs[3].shape}, "sums of squares"));
  }
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[5], "lr"));
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[6], "step"));
  return Types{p};
}

Vals DecomposeStep(GraphBuilder& b, const Vals& in, const Attributes& attrs) {
  const Val p = in[0];
  const DType dtype = b.type(p).dtype;
  const DType scalar = ScalarDType(dtype);
  const Val p_squares = b.ReduceSum(b.Cast(in[3], scalar), {});
  const Val u_squares = b.ReduceSum(b.Cast(in[4], scalar), {});
  // 1 where one of them is zero.
  const Val zero = Like(b, p_squares, 0), one = Like(b, p_squares, 1);
  const Val ratio = b.Op("sqrt", {b.Div(p_squares, u_squares)});
  const Val some = b.Op("where", {b.Op("greater", {p_squares, zero}), ratio, one});
  const Val trust = b.Op("where", {b.Op("greater", {u_squares, zero}), some, one});
  const Val rate = b.Mul(ScaledRate(b, in[5], dtype, attrs), b.Cast(trust, dtype));
  return {b.Sub(p, b.Mul(WantedStep(b, p, in[1], in[2], in[6], attrs), rate))};
}

}  // namespace

OpDef LambMoments() {
  return MakeListOp(
      {.name = "lamb_moments",
       .operands = [](const Attributes&) { return 4; },
       .shared = 2,
       .updates = {2, 3, -1, -1},
       .flops = 20,
       .attrs =
           {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-6}, {"weight_decay", 0.0}, kClipValue},
       .infer = InferMoments,
       .decompose = DecomposeMoments});
}

OpDef LambStep() {
  return MakeListOp(
      {.name = "lamb_step",
       .operands = [](const Attributes&) { return 5; },
       .shared = 2,
       .updates = {0},
       .flops = 12,
       .attrs = {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-6}, {"weight_decay", 0.0}, kLrScale},
       .infer = InferStep,
       .decompose = DecomposeStep});
}

}  // namespace oc::ops

// adafactor (optim/adafactor.h): one op of a whole tensor, since the sums over rows and columns
// and the norm of the step do not divide. Of tensors of two dimensions and more it keeps row and
// column means of the last two; of others the whole second moment.
#include <cmath>

#include "openclaw/graph/ops/update.h"

namespace oc::ops {
namespace {

using Types = std::vector<TensorType>;
using Vals = std::vector<Val>;

bool Factored(const Attributes& attrs) { return attrs.Bool("factored", true); }

// p's shape with the axis of size 1.
Shape Without(const Shape& shape, int axis) {
  Shape result = shape;
  result[axis] = Dim(1);
  return result;
}

StatusOr<Types> InferAdafactor(const InferArgs& args) {
  const TensorType& p = args.inputs[0];
  const bool factored = Factored(args.attrs);
  OC_RETURN_IF_ERROR(ExpectSameShape(p, args.inputs[1], "p and g"));
  Types outputs = {p};
  if (factored) {
    if (p.shape.rank() < 2) {
      return InvalidArgument("p is ", p.ToString(), ", wants two dimensions to factor");
    }
    const TensorType rows = {p.dtype, Without(p.shape, -1)};
    const TensorType columns = {p.dtype, Without(p.shape, -2)};
    OC_RETURN_IF_ERROR(ExpectSame(args.inputs[2], rows, "the row means and what they want"));
    OC_RETURN_IF_ERROR(ExpectSame(args.inputs[3], columns, "the column means and what they want"));
    outputs.insert(outputs.end(), {rows, columns});
  } else {
    OC_RETURN_IF_ERROR(ExpectSame(args.inputs[2], p, "v and p"));
    outputs.push_back(p);
  }
  const size_t shared = factored ? 4 : 3;
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[shared], "lr"));
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[shared + 1], "step"));
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[shared + 2], "clip"));
  return outputs;
}

// The root of the mean square.
Val RootMeanSquare(GraphBuilder& b, Val x) {
  const auto n = static_cast<double>(b.shape(x).num_elements());
  const Val wide = b.Cast(x, ScalarDType(b.type(x).dtype));
  return b.Op("sqrt", {b.Scale(b.ReduceSum(b.Mul(wide, wide), {}), 1 / n)});
}

Vals DecomposeAdafactor(GraphBuilder& b, const Vals& in, const Attributes& attrs) {
  const Val p = in[0];
  const DType dtype = b.type(p).dtype;
  const bool factored = Factored(attrs);
  const size_t shared = factored ? 4 : 3;
  const DType scalar = ScalarDType(dtype);
  const Val rate = ScaledRate(b, in[shared], scalar, attrs);
  const Val step = b.Cast(in[shared + 1], scalar);
  const Val g = ClippedGradient(b, p, in[1], in[shared + 2], attrs);
  const double eps1 = attrs.Double("eps1", 0x1p-23), eps2 = attrs.Double("eps2", 1e-3);
  // step^beta2_decay, and 1 / sqrt(step).
  const Val log_step = b.Op("log", {step});
  const auto power = [&](double exponent) { return b.Op("exp", {b.Scale(log_step, exponent)}); };
  const Val fresh = b.Cast(power(attrs.Double("beta2_decay", -0.8)), dtype);
  const Val kept = b.Scale(fresh, -1.0, 1.0);
  const auto take_up = [&](Val state, Val x) { return b.Add(b.Mul(state, kept), b.Mul(x, fresh)); };
  const Val rho = Minimum(b, rate, power(-0.5));
  const Val size = RootMeanSquare(b, p);
  const Val alpha = b.Mul(Maximum(b, size, Like(b, size, eps2)), rho);

  const Val squares = b.Mul(g, g);
  Vals states;
  Val estimate;
  if (factored) {
    const auto mean = [&](Val x, int64_t axis) {
      return b.Op("reduce_mean", {x}, {{"axes", std::vector<int64_t>{axis}}, {"keep_dims", true}});
    };
    const Val rows = take_up(in[2], mean(squares, -1));
    const Val columns = take_up(in[3], mean(squares, -2));
    const Val row_mean = mean(rows, -2);
    const Val least = Maximum(b, row_mean, Like(b, row_mean, eps1));
    const Attributes whole = {{"shape", b.shape(p)}};
    const Attributes of_rows = {{"shape", b.shape(rows)}};
    const Val scaled = b.Div(rows, b.Op("broadcast_to", {least}, of_rows));
    estimate = b.Mul(b.Op("broadcast_to", {scaled}, whole), b.Op("broadcast_to", {columns}, whole));
    states = {rows, columns};
  } else {
    estimate = take_up(in[2], squares);
    states = {estimate};
  }
  const Val least = Maximum(b, estimate, Like(b, estimate, eps1 * eps1));
  const Val update = b.Div(g, b.Op("sqrt", {least}));
  const Val excess = b.Scale(RootMeanSquare(b, update), 1 / attrs.Double("d", 1.0));
  const Val damping = Maximum(b, excess, Like(b, excess, 1.0));
  const Val change = b.Mul(update, b.Cast(b.Div(alpha, damping), dtype));
  const Val keep = b.Cast(b.Scale(rate, -attrs.Double("weight_decay"), 1.0), dtype);
  Vals outputs = {b.Sub(b.Mul(p, keep), change)};
  outputs.insert(outputs.end(), states.begin(), states.end());
  return outputs;
}

}  // namespace

OpDef Adafactor() {
  OpDef def = MakeListOp({.name = "adafactor",
                          .operands = [](const Attributes& a) { return Factored(a) ? 4 : 3; },
                          .shared = 3,
                          .updates = {0, 2, 3},
                          .flops = 20,
                          .attrs = {{"factored", true},
                                    {"beta2_decay", -0.8},
                                    {"eps1", 0x1p-23},
                                    {"eps2", 1e-3},
                                    {"d", 1.0},
                                    {"weight_decay", 0.0},
                                    kLrScale,
                                    kClipValue},
                          .infer = InferAdafactor,
                          .decompose = DecomposeAdafactor});
  return def;
}

}  // namespace oc::ops

// What Muon (optim/muon.h) needs besides products: muon_momentum, which makes of a gradient the
// matrix that is orthogonalised, and decayed_step, which takes a given step. Both go element by
// element.
#include "openclaw/graph/ops/update.h"

namespace oc::ops {
namespace {

using Types = std::vector<TensorType>;
using Vals = std::vector<Val>;

StatusOr<Types> InferMomentum(const InferArgs& args) {
  const TensorType& m = args.inputs[1];
  OC_RETURN_IF_ERROR(ExpectSameShape(m, args.inputs[0], "the momentum and g"));
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[2], "clip"));
  return Types{m, m};
}

Vals DecomposeMomentum(GraphBuilder& b, const Vals& in, const Attributes& attrs) {
  const double momentum = attrs.Double("momentum", 0.95);
  const Val g = ClippedGradient(b, in[1], in[0], in[2], attrs);
  const Val m = Lerp(b, in[1], g, 1 - momentum);
  return {attrs.Bool("nesterov", true) ? Lerp(b, g, m, momentum) : b.Scale(m, 1.0), m};
}

StatusOr<Types> InferStep(const InferArgs& args) {
  OC_RETURN_IF_ERROR(ExpectSameShape(args.inputs[0], args.inputs[1], "p and its step"));
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[2], "lr"));
  return Types{args.inputs[0]};
}

Vals DecomposeStep(GraphBuilder& b, const Vals& in, const Attributes& attrs) {
  const Val p = in[0];
  const DType dtype = b.type(p).dtype;
  const Val rate = ScaledRate(b, in[2], dtype, attrs);
  const Val rest = b.Mul(p, b.Scale(rate, -attrs.Double("weight_decay"), 1.0));
  const Val step = b.Scale(b.Cast(in[1], dtype), attrs.Double("factor", 1.0));
  return {b.Sub(rest, b.Mul(step, rate))};
}

}  // namespace

OpDef MuonMomentum() {
  return MakeListOp({.name = "muon_momentum",
                     .operands = [](const Attributes&) { return 2; },
                     .shared = 1,
                     .updates = {-1, 1},
                     .flops = 8,
                     .attrs = {{"momentum", 0.95}, {"nesterov", true}, kClipValue},
                     .infer = InferMomentum,
                     .decompose = DecomposeMomentum,
                     .parts = OpDef::Parts::kElements});
}

OpDef DecayedStep() {
  return MakeListOp({.name = "decayed_step",
                     .operands = [](const Attributes&) { return 2; },
                     .shared = 1,
                     .updates = {0},
                     .flops = 4,
                     .attrs = {{"factor", 1.0}, {"weight_decay", 0.0}, kLrScale},
                     .infer = InferStep,
                     .decompose = DecomposeStep,
                     .parts = OpDef::Parts::kElements});
}

}  // namespace oc::ops

// Optimizers that go element by element: sgd adam adamw lion. Their formulas stand in
// optim/NAME.h. p, its state and what changes from step to step are inputs; the results take the
// memory of what they replace. No element depends on another, so an op may be run on any part of
// a tensor.
#include "openclaw/graph/ops/update.h"

namespace oc::ops {
namespace {

using Types = std::vector<TensorType>;
using Vals = std::vector<Val>;

Status ExpectState(const InferArgs& args, size_t first, size_t end) {
  const TensorType& p = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectSameShape(p, args.inputs[1], "p and g"));
  for (size_t i = first; i < end; ++i) {
    OC_RETURN_IF_ERROR(ExpectSame(args.inputs[i], p, "a state and p"));
  }
  return OkStatus();
}

bool HasMomentum(const Attributes& attrs) { return attrs.Double("momentum") != 0; }

StatusOr<Types> InferSgd(const InferArgs& args) {
  const size_t operands = HasMomentum(args.attrs) ? 3 : 2;
  OC_RETURN_IF_ERROR(ExpectState(args, 2, operands));
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[operands], "lr"));
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[operands + 1], "clip"));
  return Types(operands - 1, args.inputs[0]);
}

Vals DecomposeSgd(GraphBuilder& b, const Vals& in, const Attributes& attrs) {
  const Val p = in[0];
  const size_t operands = HasMomentum(attrs) ? 3 : 2;
  const double momentum = attrs.Double("momentum");
  Val g = ClippedGradient(b, p, in[1], in[operands + 1], attrs);
  if (const double decay = attrs.Double("weight_decay"); decay != 0) {
    g = b.Add(g, b.Scale(p, decay));
  }
  Val buffer;
  if (HasMomentum(attrs)) {
    buffer = b.Add(b.Scale(in[2], momentum), g);
    g = attrs.Bool("nesterov") ? b.Add(g, b.Scale(buffer, momentum)) : buffer;
  }
  const Val rate = ScaledRate(b, in[operands], b.type(p).dtype, attrs);
  const Val next = b.Sub(p, b.Mul(g, rate));
  return buffer ? Vals{next, buffer} : Vals{next};
}

StatusOr<Types> InferAdam(const InferArgs& args) {
  OC_RETURN_IF_ERROR(ExpectState(args, 2, 4));
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[4], "lr"));
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[5], "step"));
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[6], "clip"));
  return Types(3, args.inputs[0]);
}

// p', m', v' of `rest` of p, after what decays otherwise, and of the gradient g.
Vals AdamStep(GraphBuilder& b, const Vals& in, Val rest, Val g, const Attributes& attrs) {
  const double beta1 = attrs.Double("beta1", 0.9), beta2 = attrs.Double("beta2", 0.999);
  const Val m = b.Add(b.Scale(in[2], beta1), b.Scale(g, 1 - beta1));
  const Val v = b.Add(b.Scale(in[3], beta2), b.Scale(b.Mul(g, g), 1 - beta2));
  const Val root = b.Op("sqrt", {Corrected(b, v, in[5], beta2)});
  const Val update =
      b.Div(Corrected(b, m, in[5], beta1), b.Scale(root, 1.0, attrs.Double("eps", 1e-8)));
  const Val rate = ScaledRate(b, in[4], b.type(in[0]).dtype, attrs);
  return {b.Sub(rest, b.Mul(update, rate)), m, v};
}

Vals DecomposeAdam(GraphBuilder& b, const Vals& in, const Attributes& attrs) {
  Val g = ClippedGradient(b, in[0], in[1], in[6], attrs);
  if (const double decay = attrs.Double("weight_decay"); decay != 0) {
    g = b.Add(g, b.Scale(in[0], decay));
  }
  return AdamStep(b, in, in[0], g, attrs);
}

Vals DecomposeAdamW(GraphBuilder& b, const Vals& in, const Attributes& attrs) {
  const Val rate = ScaledRate(b, in[4], b.type(in[0]).dtype, attrs);
  const Val rest = b.Mul(in[0], b.Scale(rate, -attrs.Double("weight_decay"), 1.0));
  return AdamStep(b, in, rest, ClippedGradient(b, in[0], in[1], in[6], attrs), attrs);
}

StatusOr<Types> InferLion(const InferArgs& args) {
  OC_RETURN_IF_ERROR(ExpectState(args, 2, 3));
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[3], "lr"));
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[4], "clip"));
  return Types(2, args.inputs[0]);
}

Vals DecomposeLion(GraphBuilder& b, const Vals& in, const Attributes& attrs) {
  const Val p = in[0], m = in[2];
  const DType dtype = b.type(p).dtype;
  const double beta1 = attrs.Double("beta1", 0.9), beta2 = attrs.Double("beta2", 0.99);
  const Val g = ClippedGradient(b, p, in[1], in[4], attrs);
  const Val mixed = b.Add(b.Scale(m, beta1), b.Scale(g, 1 - beta1));
  const Val zero = Like(b, mixed, 0);
  const Val sign = b.Sub(b.Cast(b.Op("greater", {mixed, zero}), dtype),
                         b.Cast(b.Op("less", {mixed, zero}), dtype));
  const Val rate = ScaledRate(b, in[3], dtype, attrs);
  const Val rest = b.Mul(p, b.Scale(rate, -attrs.Double("weight_decay"), 1.0));
  return {b.Sub(rest, b.Mul(sign, rate)), b.Add(b.Scale(m, beta2), b.Scale(g, 1 - beta2))};
}

const std::vector<AttrSpec> kAdamAttrs = {{"beta1", 0.9},        {"beta2", 0.999}, {"eps", 1e-8},
                                          {"weight_decay", 0.0}, kLrScale,         kClipValue};

OpDef AdamLike(const char* name, DecomposeOne decompose) {
  return MakeListOp({.name = name,
                     .operands = [](const Attributes&) { return 4; },
                     .shared = 3,
                     .updates = {0, 2, 3},
                     .flops = 15,
                     .attrs = kAdamAttrs,
                     .infer = InferAdam,
                     .decompose = decompose,
                     .parts = OpDef::Parts::kElements});
}

}  // namespace

OpDef Sgd() {
  return MakeListOp(
      {.name = "sgd",
       .version = 2,
       .operands = [](const Attributes& a) { return HasMomentum(a) ? 3 : 2; },
       .shared = 2,
       .updates = {0, 2},
       .flops = 6,
       .attrs =
           {{"momentum", 0.0}, {"nesterov", false}, {"weight_decay", 0.0}, kLrScale, kClipValue},
       .infer = InferSgd,
       .decompose = DecomposeSgd,
       .parts = OpDef::Parts::kElements});
}

OpDef Adam() { return AdamLike("adam", DecomposeAdam); }
OpDef AdamW() { return AdamLike("adamw", DecomposeAdamW); }

OpDef Lion() {
  return MakeListOp(
      {.name = "lion",
       .operands = [](const Attributes&) { return 3; },
       .shared = 2,
       .updates = {0, 2},
       .flops = 8,
       .attrs = {{"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.0}, kLrScale, kClipValue},
       .infer = InferLion,
       .decompose = DecomposeLion,
       .parts = OpDef::Parts::kElements});
}

}  // namespace oc::ops

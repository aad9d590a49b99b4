// add sub mul div: a, b -> y of a's type; b may be a suffix of a.
#include "openclaw/graph/ops/ops.h"

namespace oc::ops {
namespace {

StatusOr<std::vector<TensorType>> InferBinary(const InferArgs& args) {
  OC_RETURN_IF_ERROR(ExpectNumeric(args.inputs[0], "a"));
  OC_RETURN_IF_ERROR(ExpectSuffix(args.inputs[0], args.inputs[1]));
  return std::vector<TensorType>{args.inputs[0]};
}

StatusOr<std::vector<TensorType>> InferDiv(const InferArgs& args) {
  OC_RETURN_IF_ERROR(ExpectFloat(args.inputs[0], "a"));
  return InferBinary(args);
}

OpDef Binary(const char* name, std::function<Status(GradContext&)> gradient) {
  OpDef def;
  def.name = name;
  def.min_inputs = def.max_inputs = 2;
  def.infer = InferBinary;
  def.gradient = std::move(gradient);
  def.reuse = {0};
  return def;
}

// The gradient of b from one of a's shape.
void SetSecond(GradContext& c, Val grad) { c.Set(1, SumToSuffix(c.b, grad, c.b.type(c.input(1)))); }

}  // namespace

OpDef Add() {
  return Binary("add", [](GradContext& c) {
    if (c.needs(0)) c.Set(0, c.grad());
    if (c.needs(1)) SetSecond(c, c.grad());
    return OkStatus();
  });
}

OpDef Sub() {
  return Binary("sub", [](GradContext& c) {
    if (c.needs(0)) c.Set(0, c.grad());
    // Summed first: the negation is then of the smaller shape.
    if (c.needs(1)) {
      c.Set(1, c.b.Scale(SumToSuffix(c.b, c.grad(), c.b.type(c.input(1))), -1.0));
    }
    return OkStatus();
  });
}

OpDef Mul() {
  return Binary("mul", [](GradContext& c) {
    if (c.needs(0)) c.Set(0, c.b.Mul(c.grad(), c.input(1)));
    if (c.needs(1)) SetSecond(c, c.b.Mul(c.grad(), c.input(0)));
    return OkStatus();
  });
}

OpDef Div() {
  OpDef def = Binary("div", [](GradContext& c) {
    const Val da = c.b.Div(c.grad(), c.input(1));
    if (c.needs(0)) c.Set(0, da);
    if (c.needs(1)) {
      const Val product = c.b.Mul(da, c.output(0));
      c.Set(1, c.b.Scale(SumToSuffix(c.b, product, c.b.type(c.input(1))), -1.0));
    }
    return OkStatus();
  });
  def.infer = InferDiv;
  return def;
}

}  // namespace oc::ops

// equal less greater: a, b -> bool y, b may be a suffix of a. where: c, a, b -> c ? a : b.
#include "openclaw/graph/ops/ops.h"

namespace oc::ops {
namespace {

OpDef Compare(const char* name) {
  OpDef def;
  def.name = name;
  def.min_inputs = def.max_inputs = 2;
  def.infer = [](const InferArgs& args) -> StatusOr<std::vector<TensorType>> {
    OC_RETURN_IF_ERROR(ExpectSuffix(args.inputs[0], args.inputs[1]));
    return std::vector<TensorType>{{DType::kBool, args.inputs[0].shape}};
  };
  return def;
}

StatusOr<std::vector<TensorType>> InferWhere(const InferArgs& args) {
  const TensorType& c = args.inputs[0];
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[1], args.inputs[2], "a and b"));
  OC_RETURN_IF_ERROR(ExpectSame(c, {DType::kBool, args.inputs[1].shape}, "c and what it wants"));
  return std::vector<TensorType>{args.inputs[1]};
}

Status WhereGradient(GradContext& c) {
  const Val dy = c.grad();
  // Zeros of dy's type: nothing is less than itself, not even an infinity or a NaN, which a product
  // with zero would keep.
  const Val zero = c.b.Cast(c.b.Op("less", {dy, dy}), c.b.type(dy).dtype);
  if (c.needs(1)) c.Set(1, c.b.Op("where", {c.input(0), dy, zero}));
  if (c.needs(2)) c.Set(2, c.b.Op("where", {c.input(0), zero, dy}));
  return OkStatus();
}

}  // namespace

OpDef Equal() { return Compare("equal"); }
OpDef Less() { return Compare("less"); }
OpDef Greater() { return Compare("greater"); }

OpDef Where() {
  OpDef def;
  def.name = "where";
  def.min_inputs = def.max_inputs = 3;
  def.infer = InferWhere;
  def.gradient = WhereGradient;
  def.reuse = {1};
  return def;
}

}  // namespace oc::ops

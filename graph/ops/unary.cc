// Ops of one float tensor, element by element, their gradients, and cast.
#include <cmath>

#include "openclaw/graph/ops/ops.h"

namespace oc::ops {
namespace {

using Ids = std::vector<int>;

StatusOr<std::vector<TensorType>> InferUnary(const InferArgs& args) {
  OC_RETURN_IF_ERROR(ExpectFloat(args.inputs[0], "x"));
  return std::vector<TensorType>{args.inputs[0]};
}

StatusOr<std::vector<TensorType>> InferUnaryGrad(const InferArgs& args) {
  OC_RETURN_IF_ERROR(ExpectFloat(args.inputs[0], "dy"));
  OC_RETURN_IF_ERROR(ExpectSame(args.inputs[0], args.inputs[1], "dy and the saved tensor"));
  return std::vector<TensorType>{args.inputs[0]};
}

OpDef Unary(const char* name, std::function<Status(GradContext&)> gradient) {
  OpDef def;
  def.name = name;
  def.infer = InferUnary;
  def.gradient = std::move(gradient);
  def.reuse = {0};
  return def;
}

OpDef UnaryGrad(const char* name) {
  OpDef def;
  def.name = name;
  def.min_inputs = def.max_inputs = 2;
  def.infer = InferUnaryGrad;
  def.reuse = {0};
  return def;
}

// A gradient rule that is the op `name` of dy and the output, or of dy and the input.
std::function<Status(GradContext&)> FromOutput(const char* name) {
  return [name](GradContext& c) {
    c.Set(0, c.b.Op(name, {c.grad(), c.output(0)}, c.attrs()));
    return OkStatus();
  };
}
std::function<Status(GradContext&)> FromInput(const char* name) {
  return [name](GradContext& c) {
    c.Set(0, c.b.Op(name, {c.grad(), c.input(0)}, c.attrs()));
    return OkStatus();
  };
}

Val SigmoidOf(GraphBuilder& b, Val x) { return b.Op("sigmoid", {x}); }

// Halves in f32 and back, for formulas that lose digits.
Val Widened(GraphBuilder& b, Val x) {
  return SizeInBits(b.type(x).dtype) < 32 ? b.Cast(x, DType::kF32) : x;
}
Val Narrowed(GraphBuilder& b, Val x, DType dtype) {
  return b.type(x).dtype == dtype ? x : b.Cast(x, dtype);
}

constexpr double kGeluCubic = 0.044715;
const double kSqrtTwoOverPi = std::sqrt(2.0 / M_PI);

// sqrt(2/pi) (x + 0.044715 x^3), the argument of gelu's tanh.
Val GeluInner(GraphBuilder& b, Val x) {
  return b.Mul(x, b.Scale(b.Mul(x, x), kSqrtTwoOverPi * kGeluCubic, kSqrtTwoOverPi));
}

Status ExpectApproximate(const Attributes& attrs) {
  const std::string mode = attrs.String("approximate", "none");
  if (mode == "none" || mode == "tanh") return OkStatus();
  return InvalidArgument("approximate is \"", mode, "\", wants \"none\" or \"tanh\"");
}

// There is no op for erf, so exact gelu stays whole.
Status ExpectTanh(const char* op, const Attributes& attrs) {
  if (attrs.String("approximate", "none") == "tanh") return OkStatus();
  return Unimplemented("decompose ", op, ": exact (erf) gelu has no simpler ops");
}

}  // namespace

OpDef Relu() { return Unary("relu", FromOutput("relu_grad")); }
OpDef Tanh() { return Unary("tanh", FromOutput("tanh_grad")); }
OpDef Sigmoid() { return Unary("sigmoid", FromOutput("sigmoid_grad")); }
OpDef Sqrt() { return Unary("sqrt", FromOutput("sqrt_grad")); }

OpDef Exp() {
  return Unary("exp", [](GradContext& c) {
    c.Set(0, c.b.Mul(c.grad(), c.output(0)));
    return OkStatus();
  });
}

OpDef Log() {
  return Unary("log", [](GradContext& c) {
    c.Set(0, c.b.Div(c.grad(), c.input(0)));
    return OkStatus();
  });
}

OpDef Reciprocal() {
  return Unary("reciprocal", [](GradContext& c) {
    const Val y = c.output(0);
    c.Set(0, c.b.Scale(c.b.Mul(c.b.Mul(c.grad(), y), y), -1.0));
    return OkStatus();
  });
}

OpDef Scale() {
  OpDef def = Unary("scale", [](GradContext& c) {
    c.Set(0, c.b.Scale(c.grad(), c.attrs().Double("factor", 1.0)));
    return OkStatus();
  });
  def.attrs = {{"factor", 1.0}, {"offset", 0.0}};
  return def;
}

OpDef Silu() {
  OpDef def = Unary("silu", FromInput("silu_grad"));
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes&) -> StatusOr<Ids> {
    return Ids{b.Mul({in[0]}, SigmoidOf(b, {in[0]})).id};
  };
  return def;
}

OpDef Gelu() {
  OpDef def = Unary("gelu", FromInput("gelu_grad"));
  def.attrs = {{"approximate", std::string("none")}};
  def.infer = [](const InferArgs& args) -> StatusOr<std::vector<TensorType>> {
    OC_RETURN_IF_ERROR(ExpectApproximate(args.attrs));
    return InferUnary(args);
  };
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes& attrs) -> StatusOr<Ids> {
    OC_RETURN_IF_ERROR(ExpectTanh("gelu", attrs));
    // (1 + tanh(u)) / 2 is sigmoid(2u), without its cancellation where u is far below 0.
    const DType dtype = b.type({in[0]}).dtype;
    const Val x = Widened(b, {in[0]});
    const Val s = SigmoidOf(b, b.Scale(GeluInner(b, x), 2.0));
    return Ids{Narrowed(b, b.Mul(x, s), dtype).id};
  };
  return def;
}

OpDef ReluGrad() {
  OpDef def = UnaryGrad("relu_grad");
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes&) -> StatusOr<Ids> {
    const Val dy = {in[0]}, y = {in[1]};
    const Val zero = b.Cast(b.Op("less", {y, y}), b.type(y).dtype);
    return Ids{b.Op("where", {b.Op("greater", {y, zero}), dy, zero}).id};
  };
  return def;
}

OpDef TanhGrad() {
  OpDef def = UnaryGrad("tanh_grad");
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes&) -> StatusOr<Ids> {
    const Val dy = {in[0]}, y = {in[1]};
    return Ids{b.Mul(dy, b.Scale(b.Mul(y, y), -1.0, 1.0)).id};
  };
  return def;
}

OpDef SigmoidGrad() {
  OpDef def = UnaryGrad("sigmoid_grad");
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes&) -> StatusOr<Ids> {
    const Val dy = {in[0]}, y = {in[1]};
    return Ids{b.Mul(dy, b.Mul(y, b.Scale(y, -1.0, 1.0))).id};
  };
  return def;
}

OpDef SqrtGrad() {
  OpDef def = UnaryGrad("sqrt_grad");
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes&) -> StatusOr<Ids> {
    return Ids{b.Scale(b.Div({in[0]}, {in[1]}), 0.5).id};
  };
  return def;
}

OpDef SiluGrad() {
  OpDef def = UnaryGrad("silu_grad");
  // s (1 + x (1 - s)), s = sigmoid(x).
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes&) -> StatusOr<Ids> {
    const Val dy = {in[0]}, x = {in[1]};
    const Val s = SigmoidOf(b, x);
    const Val inner = b.Scale(b.Mul(x, b.Scale(s, -1.0, 1.0)), 1.0, 1.0);
    return Ids{b.Mul(dy, b.Mul(s, inner)).id};
  };
  return def;
}

OpDef GeluGrad() {
  OpDef def = UnaryGrad("gelu_grad");
  def.attrs = {{"approximate", std::string("none")}};
  def.infer = [](const InferArgs& args) -> StatusOr<std::vector<TensorType>> {
    OC_RETURN_IF_ERROR(ExpectApproximate(args.attrs));
    return InferUnaryGrad(args);
  };
  // s + 2 x s (1 - s) u', s = sigmoid(2u), u' = sqrt(2/pi) (1 + 3 * 0.044715 x^2). The two terms
  // nearly cancel around x = -0.75, which halves would not survive.
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes& attrs) -> StatusOr<Ids> {
    OC_RETURN_IF_ERROR(ExpectTanh("gelu_grad", attrs));
    const DType dtype = b.type({in[1]}).dtype;
    const Val dy = Widened(b, {in[0]}), x = Widened(b, {in[1]});
    const Val u = GeluInner(b, x);
    const Val s = SigmoidOf(b, b.Scale(u, 2.0)), rest = SigmoidOf(b, b.Scale(u, -2.0));
    const Val slope = b.Scale(b.Mul(x, x), 3 * kSqrtTwoOverPi * kGeluCubic, kSqrtTwoOverPi);
    const Val factor = b.Scale(b.Mul(b.Mul(x, rest), slope), 2.0, 1.0);
    return Ids{Narrowed(b, b.Mul(dy, b.Mul(s, factor)), dtype).id};
  };
  return def;
}

OpDef Cast() {
  OpDef def;
  def.name = "cast";
  def.parts = OpDef::Parts::kElements;
  def.attrs = {{"dtype", DType::kF32, /*required=*/true}};
  def.infer = [](const InferArgs& args) -> StatusOr<std::vector<TensorType>> {
    return std::vector<TensorType>{
        {args.attrs.GetDType("dtype", DType::kF32), args.inputs[0].shape}};
  };
  def.gradient = [](GradContext& c) {
    c.Set(0, c.b.Cast(c.grad(), c.b.type(c.input(0)).dtype));
    return OkStatus();
  };
  return def;
}

}  // namespace oc::ops

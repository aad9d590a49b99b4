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
Val TanhOf(GraphBuilder& b, Val x) { return b.Op("tanh", {x}); }

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
    const Val x = {in[0]};
    return Ids{b.Mul(x, b.Scale(TanhOf(b, GeluInner(b, x)), 0.5, 0.5)).id};
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
  // (1 + t) / 2 + x/2 (1 - t^2) u', t = tanh(u), u' = sqrt(2/pi) (1 + 3 * 0.044715 x^2).
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes& attrs) -> StatusOr<Ids> {
    OC_RETURN_IF_ERROR(ExpectTanh("gelu_grad", attrs));
    const Val dy = {in[0]}, x = {in[1]};
    const Val t = TanhOf(b, GeluInner(b, x));
    const Val slope = b.Scale(b.Mul(x, x), 3 * kSqrtTwoOverPi * kGeluCubic, kSqrtTwoOverPi);
    const Val second = b.Mul(b.Mul(b.Scale(x, 0.5), b.Scale(b.Mul(t, t), -1.0, 1.0)), slope);
    return Ids{b.Mul(dy, b.Add(b.Scale(t, 0.5, 0.5), second)).id};
  };
  return def;
}

OpDef Cast() {
  OpDef def;
  def.name = "cast";
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

#include "openclaw/devices/opencl/plan.h"

namespace oc::opencl {
namespace {

int64_t Elements(const OpRequest& r) { return r.outputs[0].shape.num_elements(); }

// y from x.
Status Unary(const OpRequest& r, OpPlan& plan, const std::string& expression) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  plan.Kernel("elementwise", "unary")
      .Define("A", "E")
      .Define("R", "E")
      .Define("UNARY(x)", absl::StrCat("(", expression, ")"))
      .In(0)
      .Out(0)
      .Int(Elements(r))
      .Items(Elements(r));
  return OkStatus();
}

Status Binary(const OpRequest& r, OpPlan& plan, const std::string& expression) {
  OC_ASSIGN_OR_RETURN(const std::string type, TypeName(r.inputs[0].dtype));
  OC_ASSIGN_OR_RETURN(const std::string result, TypeName(r.outputs[0].dtype));
  plan.Kernel("elementwise", "binary")
      .Define("A", type)
      .Define("R", result)
      .Define("BINARY(a, b)", absl::StrCat("(", expression, ")"))
      .In(0)
      .In(1)
      .Out(0)
      .Int(Elements(r))
      .Int(r.inputs[1].shape.num_elements())
      .Items(Elements(r));
  return OkStatus();
}

// dx from dy (a) and what the forward saved (b).
Status Slope(const OpRequest& r, OpPlan& plan, const std::string& expression) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  return Binary(r, plan, expression);
}

bool IsTanh(const OpRequest& r) { return r.attrs.String("approximate", "none") == "tanh"; }

Status Gelu(const OpRequest& r, const Limits&, OpPlan& plan) {
  return Unary(r, plan, IsTanh(r) ? "gelu_tanh(x)" : "gelu_exact(x)");
}
Status GeluGrad(const OpRequest& r, const Limits&, OpPlan& plan) {
  return Slope(r, plan, IsTanh(r) ? "a * gelu_tanh_slope(b)" : "a * gelu_exact_slope(b)");
}
Status Scale(const OpRequest& r, const Limits&, OpPlan& plan) {
  return Unary(r, plan,
               absl::StrCat(Literal(r.attrs.Double("factor", 1)), " * x + ",
                            Literal(r.attrs.Double("offset"))));
}
Status Div(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  return Binary(r, plan, "a / b");
}

Status Where(const OpRequest& r, const Limits&, OpPlan& plan) {
  plan.Kernel("elementwise", "choose")
      .Define("M", MoveType(r.inputs[1].dtype))
      .In(0)
      .In(1)
      .In(2)
      .Out(0)
      .Int(Elements(r))
      .Items(Elements(r));
  return OkStatus();
}

// Whole numbers keep their lower bits; floats lose their fraction and stop at the ends of the
// range, and what is no number becomes 0.
Status Cast(const OpRequest& r, const Limits& limits, OpPlan& plan) {
  const DType from = r.inputs[0].dtype, to = r.outputs[0].dtype;
  const auto name = [&](DType dtype) {
    if (dtype == DType::kF64 && limits.has_doubles) return StatusOr<std::string>("double");
    return TypeName(dtype);
  };
  OC_ASSIGN_OR_RETURN(const std::string type, name(from));
  OC_ASSIGN_OR_RETURN(const std::string result, name(to));
  std::string expression = absl::StrCat("(COMPUTED(R))(x)");
  if (to == DType::kBool) {
    expression = "(x) != 0";
  } else if (IsFloat(from) && !IsFloat(to)) {
    expression = absl::StrCat("isnan(x) ? (", result, ")0 : convert_", result, "_sat(x)");
  }
  plan.Kernel("elementwise", "unary")
      .Define("A", type)
      .Define("R", result)
      .Define("UNARY(x)", absl::StrCat("(", expression, ")"))
      .In(0)
      .Out(0)
      .Int(Elements(r))
      .Items(Elements(r));
  return OkStatus();
}

}  // namespace

#define OC_UNARY_(name, expression) \
  registry[name] = {                \
      [](const OpRequest& r, const Limits&, OpPlan& p) { return Unary(r, p, expression); }}
#define OC_BINARY_(name, expression) \
  registry[name] = {                 \
      [](const OpRequest& r, const Limits&, OpPlan& p) { return Binary(r, p, expression); }}
#define OC_SLOPE_(name, expression) \
  registry[name] = {                \
      [](const OpRequest& r, const Limits&, OpPlan& p) { return Slope(r, p, expression); }}

void RegisterElementwise(PlanRegistry& registry) {
  OC_BINARY_("add", "a + b");
  OC_BINARY_("sub", "a - b");
  OC_BINARY_("mul", "a * b");
  registry["div"] = {Div};
  OC_BINARY_("equal", "a == b");
  OC_BINARY_("less", "a < b");
  OC_BINARY_("greater", "a > b");
  registry["where"] = {Where};
  OC_UNARY_("relu", "x < 0 ? 0.0f : x");
  OC_UNARY_("silu", "x * sigmoid(x)");
  OC_UNARY_("tanh", "tanh(x)");
  OC_UNARY_("sigmoid", "sigmoid(x)");
  OC_UNARY_("exp", "exp(x)");
  OC_UNARY_("log", "log(x)");
  OC_UNARY_("sqrt", "sqrt(x)");
  OC_UNARY_("reciprocal", "1.0f / x");
  registry["gelu"] = {Gelu};
  registry["scale"] = {Scale};
  registry["cast"] = {Cast};
  // Not a product with 0 or 1, which would keep what is not finite in dy.
  OC_SLOPE_("relu_grad", "b > 0 ? a : 0.0f");
  OC_SLOPE_("tanh_grad", "a * (1.0f - b * b)");
  OC_SLOPE_("sigmoid_grad", "a * b * (1.0f - b)");
  OC_SLOPE_("sqrt_grad", "a * 0.5f / b");
  OC_SLOPE_("silu_grad", "a * silu_slope(b)");
  registry["gelu_grad"] = {GeluGrad};
}

#undef OC_UNARY_
#undef OC_BINARY_
#undef OC_SLOPE_

}  // namespace oc::opencl

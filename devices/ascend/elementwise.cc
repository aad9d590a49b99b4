#include "openclaw/devices/ascend/plan.h"

namespace oc::ascend {
namespace {

bool IsTanh(const OpRequest& r) { return r.attrs.String("approximate", "none") == "tanh"; }

Status WantFloat(const View& view) {
  if (IsFloat(view.dtype)) return OkStatus();
  return Unimplemented("no kernel for ", Name(view.dtype), "; there are f32, bf16, f16");
}

template <Operator op>
Status Unary(const OpRequest&, Plan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(plan.In(0)));
  plan.Call(op, {plan.In(0), plan.Out(0)});
  return OkStatus();
}

// A second operand that is a suffix of the first broadcasts as operators have it.
template <Operator op>
Status Binary(const OpRequest&, Plan& plan) {
  plan.Call(op, {plan.In(0), plan.In(1), plan.Out(0)});
  return OkStatus();
}

Status Add(const OpRequest&, Plan& plan) {
  plan.Add(plan.In(0), plan.In(1), plan.Out(0));
  return OkStatus();
}

Status Sub(const OpRequest&, Plan& plan) {
  plan.Add(plan.In(0), plan.In(1), plan.Out(0), -1);
  return OkStatus();
}

// With u8 the difference is below zero on its way.
Status SubOrWide(const OpRequest& r, Plan& plan) {
  const View a = plan.In(0), b = plan.In(1);
  if (a.dtype != DType::kU8) return Sub(r, plan);
  const View wide_a = plan.Reserve(DType::kI32, a.dims), wide_b = plan.Reserve(DType::kI32, b.dims);
  const View difference = plan.Reserve(DType::kI32, a.dims);
  plan.Call(Operator::kCast, {a, DType::kI32, wide_a});
  plan.Call(Operator::kCast, {b, DType::kI32, wide_b});
  plan.Add(wide_a, wide_b, difference, -1);
  plan.Call(Operator::kBitwiseAndScalar, {difference, Whole{255}, difference});
  plan.Call(Operator::kCast, {difference, DType::kU8, plan.Out(0)});
  return OkStatus();
}

Status Div(const OpRequest&, Plan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(plan.In(0)));
  plan.Call(Operator::kDiv, {plan.In(0), plan.In(1), plan.Out(0)});
  return OkStatus();
}

Status Where(const OpRequest&, Plan& plan) {
  plan.Call(Operator::kSWhere, {plan.In(0), plan.In(1), plan.In(2), plan.Out(0)});
  return OkStatus();
}

Status Scale(const OpRequest& r, Plan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(plan.In(0)));
  const double factor = r.attrs.Double("factor", 1), offset = r.attrs.Double("offset");
  if (offset == 0) {
    plan.Scale(plan.In(0), factor, plan.Out(0));
    return OkStatus();
  }
  const View x = plan.InF32(0), scaled = plan.Reserve(DType::kF32, x.dims);
  plan.Scale(x, factor, scaled);
  plan.Call(Operator::kAdds, {scaled, Number{offset}, Number{1}, plan.OutF32(0)});
  return OkStatus();
}

Status Gelu(const OpRequest& r, Plan& plan) {
  plan.Call(Operator::kGeluV2, {plan.In(0), Int{IsTanh(r) ? 1 : 0}, plan.Out(0)});
  return OkStatus();
}
Status GeluGrad(const OpRequest& r, Plan& plan) {
  plan.Call(Operator::kGeluBackwardV2,
            {plan.In(0), plan.In(1), Text{IsTanh(r) ? "tanh" : "none"}, plan.Out(0)});
  return OkStatus();
}

Status ReluGrad(const OpRequest&, Plan& plan) {
  plan.Call(Operator::kThresholdBackward, {plan.In(0), plan.In(1), Number{0}, plan.Out(0)});
  return OkStatus();
}

// dy * 0.5 / y.
Status SqrtGrad(const OpRequest&, Plan& plan) {
  const View dy = plan.InF32(0), y = plan.InF32(1);
  const View ratio = plan.Reserve(DType::kF32, dy.dims);
  plan.Call(Operator::kDiv, {dy, y, ratio});
  plan.Scale(ratio, 0.5, plan.OutF32(0));
  return OkStatus();
}

Status Cast(const OpRequest&, Plan& plan) {
  plan.Call(Operator::kCast, {plan.In(0), plan.Out(0).dtype, plan.Out(0)});
  return OkStatus();
}

}  // namespace

void RegisterElementwise(PlanRegistry& registry) {
  registry["add"] = {Add};
  registry["sub"] = {SubOrWide};
  registry["mul"] = {Binary<Operator::kMul>};
  registry["div"] = {Div};
  registry["equal"] = {Binary<Operator::kEqTensor>};
  registry["less"] = {Binary<Operator::kLtTensor>};
  registry["greater"] = {Binary<Operator::kGtTensor>};
  registry["where"] = {Where};
  registry["relu"] = {Unary<Operator::kRelu>};
  registry["silu"] = {Unary<Operator::kSilu>};
  registry["tanh"] = {Unary<Operator::kTanh>};
  registry["sigmoid"] = {Unary<Operator::kSigmoid>};
  registry["exp"] = {Unary<Operator::kExp>};
  registry["log"] = {Unary<Operator::kLog>};
  registry["sqrt"] = {Unary<Operator::kSqrt>};
  registry["reciprocal"] = {Unary<Operator::kReciprocal>};
  registry["gelu"] = {Gelu};
  registry["scale"] = {Scale};
  registry["cast"] = {Cast};
  registry["relu_grad"] = {ReluGrad};
  registry["tanh_grad"] = {Binary<Operator::kTanhBackward>};
  registry["sigmoid_grad"] = {Binary<Operator::kSigmoidBackward>};
  registry["silu_grad"] = {Binary<Operator::kSiluBackward>};
  registry["sqrt_grad"] = {SqrtGrad};
  registry["gelu_grad"] = {GeluGrad};
}

}  // namespace oc::ascend

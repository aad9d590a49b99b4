#include "openclaw/devices/cuda/kernels/elementwise.h"

#include "openclaw/devices/cuda/plan.h"

namespace oc::cuda {
namespace {

using kernels::BinaryOp;
using kernels::CompareOp;
using kernels::UnaryOp;

int64_t Elements(const OpRequest& r) { return r.outputs[0].shape.num_elements(); }

Status Unary(const OpRequest& r, OpPlan& plan, UnaryOp op, double factor = 1, double offset = 0) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  plan.Launch([=, type = TypeOf(r.inputs[0].dtype), n = Elements(r)](const Call& c) {
    return kernels::Unary(type, op, static_cast<float>(factor), static_cast<float>(offset), c.In(0),
                          c.Out(0), n, c.stream);
  });
  return OkStatus();
}

Status Binary(const OpRequest& r, OpPlan& plan, BinaryOp op) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const bool of_floats = op > BinaryOp::kMul;
  if (of_floats) OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  plan.Launch([=, type = TypeOf(r.inputs[0].dtype), n = Elements(r),
               period = r.inputs[1].shape.num_elements()](const Call& c) {
    return kernels::Binary(type, op, c.In(0), c.In(1), c.Out(0), n, period, c.stream);
  });
  return OkStatus();
}

Status Compare(const OpRequest& r, OpPlan& plan, CompareOp op) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  plan.Launch([=, type = TypeOf(r.inputs[0].dtype), n = Elements(r),
               period = r.inputs[1].shape.num_elements()](const Call& c) {
    return kernels::Compare(type, op, c.In(0), c.In(1), c.Out(0), n, period, c.stream);
  });
  return OkStatus();
}

bool IsTanh(const OpRequest& r) { return r.attrs.String("approximate", "none") == "tanh"; }

Status Gelu(const OpRequest& r, const Traits&, OpPlan& plan) {
  return Unary(r, plan, IsTanh(r) ? UnaryOp::kGeluTanh : UnaryOp::kGelu);
}
Status GeluGrad(const OpRequest& r, const Traits&, OpPlan& plan) {
  return Binary(r, plan, IsTanh(r) ? BinaryOp::kGeluTanhGrad : BinaryOp::kGeluGrad);
}
Status Scale(const OpRequest& r, const Traits&, OpPlan& plan) {
  return Unary(r, plan, UnaryOp::kScale, r.attrs.Double("factor", 1), r.attrs.Double("offset"));
}

Status Where(const OpRequest& r, const Traits&, OpPlan& plan) {
  plan.Launch([bytes = SizeInBytes(r.inputs[1].dtype), n = Elements(r)](const Call& c) {
    return kernels::Select(bytes, c.In(0), c.In(1), c.In(2), c.Out(0), n, c.stream);
  });
  return OkStatus();
}

Status Cast(const OpRequest& r, const Traits&, OpPlan& plan) {
  plan.Launch([from = TypeOf(r.inputs[0].dtype), to = TypeOf(r.outputs[0].dtype),
               n = Elements(r)](const Call& c) {
    return kernels::Cast(from, to, c.In(0), c.Out(0), n, c.stream);
  });
  return OkStatus();
}

template <UnaryOp op>
Status PlanUnary(const OpRequest& r, const Traits&, OpPlan& plan) {
  return Unary(r, plan, op);
}
template <BinaryOp op>
Status PlanBinary(const OpRequest& r, const Traits&, OpPlan& plan) {
  return Binary(r, plan, op);
}
template <CompareOp op>
Status PlanCompare(const OpRequest& r, const Traits&, OpPlan& plan) {
  return Compare(r, plan, op);
}

}  // namespace

void RegisterElementwise(PlanRegistry& registry) {
  registry["add"] = {PlanBinary<BinaryOp::kAdd>};
  registry["sub"] = {PlanBinary<BinaryOp::kSub>};
  registry["mul"] = {PlanBinary<BinaryOp::kMul>};
  registry["div"] = {PlanBinary<BinaryOp::kDiv>};
  registry["equal"] = {PlanCompare<CompareOp::kEqual>};
  registry["less"] = {PlanCompare<CompareOp::kLess>};
  registry["greater"] = {PlanCompare<CompareOp::kGreater>};
  registry["where"] = {Where};
  registry["relu"] = {PlanUnary<UnaryOp::kRelu>};
  registry["silu"] = {PlanUnary<UnaryOp::kSilu>};
  registry["tanh"] = {PlanUnary<UnaryOp::kTanh>};
  registry["sigmoid"] = {PlanUnary<UnaryOp::kSigmoid>};
  registry["exp"] = {PlanUnary<UnaryOp::kExp>};
  registry["log"] = {PlanUnary<UnaryOp::kLog>};
  registry["sqrt"] = {PlanUnary<UnaryOp::kSqrt>};
  registry["reciprocal"] = {PlanUnary<UnaryOp::kReciprocal>};
  registry["gelu"] = {Gelu};
  registry["scale"] = {Scale};
  registry["cast"] = {Cast};
  registry["relu_grad"] = {PlanBinary<BinaryOp::kReluGrad>};
  registry["tanh_grad"] = {PlanBinary<BinaryOp::kTanhGrad>};
  registry["sigmoid_grad"] = {PlanBinary<BinaryOp::kSigmoidGrad>};
  registry["sqrt_grad"] = {PlanBinary<BinaryOp::kSqrtGrad>};
  registry["silu_grad"] = {PlanBinary<BinaryOp::kSiluGrad>};
  registry["gelu_grad"] = {GeluGrad};
}

}  // namespace oc::cuda

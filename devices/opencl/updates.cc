#include <cmath>

#include "openclaw/devices/opencl/reduce.h"

namespace oc::opencl {
namespace {

int64_t Elements(const OpRequest& r) { return r.outputs[0].shape.num_elements(); }

// A kernel of updates.cl for the types of what is changed (P) and of what it takes up (G).
StatusOr<KernelStep*> Update(const OpRequest& r, OpPlan& plan, const char* kernel) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  OC_ASSIGN_OR_RETURN(const std::string changed, TypeName(r.inputs[0].dtype));
  OC_ASSIGN_OR_RETURN(const std::string taken, TypeName(r.inputs[1].dtype));
  return &plan.Kernel("updates", kernel).Define("P", changed).Define("G", taken);
}

Status Accumulate(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(KernelStep * step, Update(r, plan, "accumulate"));
  step->In(0).In(1).Out(0).Int(Elements(r)).Items(Elements(r));
  return OkStatus();
}

Status Lerp(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(KernelStep * step, Update(r, plan, "lerp"));
  step->In(0).In(1).Out(0).Int(Elements(r)).Float(r.attrs.Double("rate")).Items(Elements(r));
  return OkStatus();
}

Status SumSquares(const OpRequest& r, const Limits&, OpPlan& plan) {
  for (size_t i = 0; i < r.inputs.size(); ++i) {
    OC_RETURN_IF_ERROR(WantFloat(r.inputs[i]));
    OC_ASSIGN_OR_RETURN(const std::string type, TypeName(r.inputs[i].dtype));
    AddSum(plan, In(static_cast<int>(i)), r.inputs[i].shape.num_elements(), Out(0),
           i > 0 || r.accumulate != 0, type, "((x) * (x))");
  }
  return OkStatus();
}

Status ClipFactor(const OpRequest& r, const Limits&, OpPlan& plan) {
  plan.Kernel("updates", "clip_factor").In(0).Out(0).Float(r.attrs.Double("max_norm")).Items(1);
  return OkStatus();
}

Status Sgd(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_ASSIGN_OR_RETURN(KernelStep * step, Update(r, plan, "sgd"));
  const bool has_buffer = r.inputs.size() > 4;
  step->In(0)
      .In(1)
      .In(2)
      .In(3)
      .Add(has_buffer ? In(4) : Operand{})
      .Out(0)
      .Add(has_buffer ? Out(1) : Operand{})
      .Int(Elements(r))
      .Float(r.attrs.Double("momentum"))
      .Float(r.attrs.Double("weight_decay"))
      .Int32(r.attrs.Bool("nesterov") ? 1 : 0)
      .Int32(has_buffer ? 1 : 0)
      .Items(Elements(r));
  return OkStatus();
}

Status AdamW(const OpRequest& r, const Limits&, OpPlan& plan) {
  const double beta1 = r.attrs.Double("beta1", 0.9), beta2 = r.attrs.Double("beta2", 0.999);
  const Operand corrections = plan.Reserve(2);
  plan.Kernel("updates", "adamw_corrections")
      .In(5)
      .Add(corrections)
      .Float(std::log(beta1))
      .Float(std::log(beta2))
      .Items(1);
  OC_ASSIGN_OR_RETURN(KernelStep * step, Update(r, plan, "adamw"));
  step->In(0)
      .In(1)
      .In(2)
      .In(3)
      .In(4)
      .In(6)
      .Add(corrections)
      .Out(0)
      .Out(1)
      .Out(2)
      .Int(Elements(r))
      .Float(beta1)
      .Float(1 - beta1)
      .Float(beta2)
      .Float(1 - beta2)
      .Float(r.attrs.Double("eps", 1e-8))
      .Float(r.attrs.Double("weight_decay"))
      .Items(Elements(r));
  return OkStatus();
}

Status Dropout(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  const Shape& shape = r.inputs[0].shape;
  const int64_t n = shape.num_elements();
  if (n == 0) return OkStatus();
  const bool off = !r.attrs.Bool("training", true);
  const double p = r.attrs.Double("p");
  plan.Kernel("updates", "dropout")
      .In(0)
      .In(1)
      .Out(0)
      .Int(n)
      .Uint64(static_cast<uint64_t>(r.attrs.Int("stream")))
      .Uint64(static_cast<uint64_t>(n / shape[0].size()))
      .Float(off ? 0 : p)
      .Float(off ? 1 : 1 / (1 - p))
      .Items(n);
  return OkStatus();
}

}  // namespace

void RegisterUpdates(PlanRegistry& registry) {
  registry["accumulate"] = {Accumulate};
  registry["lerp"] = {Lerp};
  registry["sum_squares"] = {SumSquares, 1};
  registry["clip_factor"] = {ClipFactor};
  registry["sgd"] = {Sgd};
  registry["adamw"] = {AdamW};
  registry["dropout"] = {Dropout};
}

}  // namespace oc::opencl

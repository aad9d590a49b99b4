#include "openclaw/devices/opencl/plan.h"
#include "openclaw/graph/sum_chunks.h"

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

Status Ema(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const TensorList list = ListOf(*r.def, r.attrs, r.inputs.size());
  for (int t = 0; t < list.tensors; ++t) {
    const TensorType& average = r.inputs[2 * t];
    OC_ASSIGN_OR_RETURN(const std::string changed, TypeName(average.dtype));
    OC_ASSIGN_OR_RETURN(const std::string taken, TypeName(r.inputs[2 * t + 1].dtype));
    plan.Kernel("updates", "ema")
        .Define("P", changed)
        .Define("G", taken)
        .In(2 * t)
        .In(2 * t + 1)
        .In(2 * list.tensors)
        .Out(t)
        .Int(average.shape.num_elements())
        .Float(1 - r.attrs.Double("decay"))
        .Items(average.shape.num_elements());
  }
  return OkStatus();
}

// A group a chunk of each tensor.
Status SumSquares(const OpRequest& r, const Limits&, OpPlan& plan) {
  for (size_t i = 0; i < r.inputs.size(); ++i) {
    OC_RETURN_IF_ERROR(WantFloat(r.inputs[i]));
    OC_ASSIGN_OR_RETURN(const std::string type, TypeName(r.inputs[i].dtype));
    const int64_t n = r.inputs[i].shape.num_elements();
    plan.Kernel("updates", "chunk_squares")
        .Define("T", type)
        .In(static_cast<int>(i))
        .Out(static_cast<int>(i))
        .Int(n)
        .Int(kSumChunk)
        .Groups(SumChunks(n), kRow);
  }
  return OkStatus();
}

Status SumPartials(const OpRequest& r, const Limits&, OpPlan& plan) {
  for (size_t i = 0; i < r.inputs.size(); ++i) {
    plan.Kernel("updates", "sum_partials")
        .In(static_cast<int>(i))
        .Out(0)
        .Int(r.inputs[i].shape.num_elements())
        .Int32(i > 0 || r.accumulate != 0 ? 1 : 0)
        .Groups(1, kRow);
  }
  return OkStatus();
}

Status ClipFactor(const OpRequest& r, const Limits&, OpPlan& plan) {
  plan.Kernel("updates", "clip_factor").In(0).Out(0).Float(r.attrs.Double("max_norm")).Items(1);
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
  registry["ema"] = {Ema};
  registry["sum_squares"] = {SumSquares};
  registry["sum_partials"] = {SumPartials, 1};
  registry["clip_factor"] = {ClipFactor};
  registry["dropout"] = {Dropout};
}

}  // namespace oc::opencl

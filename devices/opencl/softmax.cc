#include "openclaw/devices/opencl/reduce.h"

namespace oc::opencl {
namespace {

Status Softmax(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  const RowSplit rows(r.inputs[0].shape);
  plan.Kernel("softmax", "softmax").In(0).Out(0).Int(rows.columns).Groups(rows.count, kRow);
  return OkStatus();
}

Status SoftmaxGrad(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  const RowSplit rows(r.inputs[0].shape);
  plan.Kernel("softmax", "softmax_grad")
      .In(0)
      .In(1)
      .Out(0)
      .Int(rows.columns)
      .Groups(rows.count, kRow);
  return OkStatus();
}

int64_t Ignored(const OpRequest& r) { return r.attrs.Int("ignore_index", -1); }

void CheckLabels(const OpRequest& r, OpPlan& plan, int labels, const RowSplit& rows) {
  const Operand flags = plan.Flags(
      "label", absl::StrCat("0..", rows.columns - 1, " (and not ignore_index ", Ignored(r), ")"));
  plan.Kernel("softmax", "check_labels")
      .In(labels)
      .Add(flags)
      .Int(rows.count)
      .Int(rows.columns)
      .Int(Ignored(r))
      .Items(rows.count);
}

Status CrossEntropy(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  const RowSplit rows(r.inputs[0].shape);
  CheckLabels(r, plan, 1, rows);
  const Operand losses = plan.Reserve(rows.count);
  plan.Kernel("softmax", "cross_entropy")
      .In(0)
      .In(1)
      .Out(1)
      .Add(losses)
      .Int(rows.columns)
      .Int(Ignored(r))
      .Groups(rows.count, kRow);
  AddSum(plan, losses, rows.count, Out(0), /*accumulate=*/false);
  return OkStatus();
}

Status CrossEntropyGrad(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const RowSplit rows(r.inputs[1].shape);
  CheckLabels(r, plan, 2, rows);
  plan.Kernel("softmax", "cross_entropy_grad")
      .In(0)
      .In(1)
      .In(2)
      .In(3)
      .Out(0)
      .Int(rows.count)
      .Int(rows.columns)
      .Int(Ignored(r))
      .Items(rows.count * rows.columns);
  return OkStatus();
}

Status CountValid(const OpRequest& r, const Limits&, OpPlan& plan) {
  const int64_t n = r.inputs[0].shape.num_elements();
  const Operand ones = plan.Reserve(n);
  plan.Kernel("softmax", "valid").In(0).Add(ones).Int(n).Int(Ignored(r)).Items(n);
  AddSum(plan, ones, n, Out(0), /*accumulate=*/false);
  return OkStatus();
}

Status CountCorrect(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloat(r.inputs[0]));
  const RowSplit rows(r.inputs[0].shape);
  CheckLabels(r, plan, 1, rows);
  const Operand ones = plan.Reserve(rows.count);
  plan.Kernel("softmax", "correct")
      .In(0)
      .In(1)
      .Add(ones)
      .Int(rows.columns)
      .Int(Ignored(r))
      .Groups(rows.count, kRow);
  AddSum(plan, ones, rows.count, Out(0), /*accumulate=*/false);
  return OkStatus();
}

}  // namespace

void RegisterSoftmax(PlanRegistry& registry) {
  registry["softmax"] = {Softmax};
  registry["softmax_grad"] = {SoftmaxGrad};
  registry["cross_entropy"] = {CrossEntropy};
  registry["cross_entropy_grad"] = {CrossEntropyGrad};
  registry["count_valid"] = {CountValid};
  registry["count_correct"] = {CountCorrect};
}

}  // namespace oc::opencl

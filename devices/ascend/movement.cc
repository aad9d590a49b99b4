#include "openclaw/devices/ascend/plan.h"

namespace oc::ascend {
namespace {

int Axis(const OpRequest& r) {
  const int64_t axis = r.attrs.Int("axis");
  return static_cast<int>(axis < 0 ? axis + r.inputs[0].shape.rank() : axis);
}

Status Transpose(const OpRequest& r, Plan& plan) {
  std::vector<int> axes;
  for (int64_t axis : r.attrs.Ints("permutation")) axes.push_back(static_cast<int>(axis));
  plan.Copy(plan.In(0).Permuted(axes), plan.Out(0));
  return OkStatus();
}

// NumPy's rule is that of the operators.
Status Copy(const OpRequest&, Plan& plan) {
  plan.Copy(plan.In(0), plan.Out(0));
  return OkStatus();
}

Status Slice(const OpRequest& r, Plan& plan) {
  const int axis = Axis(r);
  const View y = plan.Out(0);
  plan.Copy(plan.In(0).Sliced(axis, r.attrs.Int("begin"), y.dims[static_cast<size_t>(axis)]), y);
  return OkStatus();
}

Status Pad(const OpRequest& r, Plan& plan) {
  const int axis = Axis(r);
  const View x = plan.In(0), y = plan.Out(0);
  plan.Clear(y);
  plan.Copy(x, y.Sliced(axis, r.attrs.Int("before"), x.dims[static_cast<size_t>(axis)]));
  return OkStatus();
}

Status Concat(const OpRequest& r, Plan& plan) {
  const int axis = Axis(r);
  int64_t at = 0;
  for (size_t i = 0; i < r.inputs.size(); ++i) {
    const View x = plan.In(static_cast<int>(i));
    const int64_t size = x.dims[static_cast<size_t>(axis)];
    plan.Copy(x, plan.Out(0).Sliced(axis, at, size));
    at += size;
  }
  return OkStatus();
}

}  // namespace

void RegisterMovement(PlanRegistry& registry) {
  registry["transpose"] = {Transpose};
  registry["broadcast_to"] = {Copy};
  registry["slice"] = {Slice};
  registry["pad"] = {Pad};
  registry["concat"] = {Concat};
  registry["copy"] = {Copy};
}

}  // namespace oc::ascend

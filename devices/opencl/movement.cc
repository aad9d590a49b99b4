#include "openclaw/devices/opencl/plan.h"
#include "openclaw/devices/opencl/walk.h"

namespace oc::opencl {
namespace {

Status Gather(const OpRequest& r, OpPlan& plan, Walk walk) {
  if (walk.sizes.size() > 8) {
    return Unimplemented("no kernel for ", walk.sizes.size(),
                         " dimensions that do not lie together; there is one for 8");
  }
  walk.Fill();
  const int64_t n = r.outputs[0].shape.num_elements();
  plan.Kernel("movement", "gather")
      .Define("M", MoveType(r.inputs[0].dtype))
      .In(0)
      .Out(0)
      .Int(n)
      .Ints(walk.sizes, 1)
      .Ints(walk.strides, 0)
      .Items(n);
  return OkStatus();
}

Status Transpose(const OpRequest& r, const Limits&, OpPlan& plan) {
  const std::vector<int64_t> strides = Strides(r.inputs[0].shape);
  Walk walk;
  for (int64_t axis : r.attrs.Ints("permutation")) {
    walk.Add(r.inputs[0].shape[static_cast<int>(axis)].size(), strides[static_cast<size_t>(axis)]);
  }
  return Gather(r, plan, std::move(walk));
}

Status BroadcastTo(const OpRequest& r, const Limits&, OpPlan& plan) {
  const Shape& x = r.inputs[0].shape;
  const Shape& y = r.outputs[0].shape;
  const std::vector<int64_t> strides = Strides(x);
  const int added = y.rank() - x.rank();
  Walk walk;
  for (int d = 0; d < y.rank(); ++d) {
    const bool repeats = d < added || x[d - added].size() == 1;
    walk.Add(y[d].size(), repeats ? 0 : strides[static_cast<size_t>(d - added)]);
  }
  return Gather(r, plan, std::move(walk));
}

int Axis(const OpRequest& r) {
  const int64_t axis = r.attrs.Int("axis");
  return static_cast<int>(axis < 0 ? axis + r.inputs[0].shape.rank() : axis);
}

int64_t StepsBefore(const Shape& shape, int axis) {
  int64_t steps = 1;
  for (int d = 0; d < axis; ++d) steps *= shape[d].size();
  return steps;
}

// Elements of one step along the axis.
int64_t StepSize(const Shape& shape, int axis) {
  int64_t size = 1;
  for (int d = axis + 1; d < shape.rank(); ++d) size *= shape[d].size();
  return size;
}

struct Rows {
  int64_t rows, width, x_row, x_begin, y_row, y_begin;
};

void CopyRows(const OpRequest& r, OpPlan& plan, int input, const Rows& c) {
  plan.Kernel("movement", "copy_rows")
      .Define("M", MoveType(r.inputs[0].dtype))
      .In(input)
      .Out(0)
      .Int(c.rows)
      .Int(c.width)
      .Int(c.x_row)
      .Int(c.x_begin)
      .Int(c.y_row)
      .Int(c.y_begin)
      .Items(c.rows * c.width);
}

Status Slice(const OpRequest& r, const Limits&, OpPlan& plan) {
  const int axis = Axis(r);
  const Shape& x = r.inputs[0].shape;
  const int64_t step = StepSize(x, axis), width = r.outputs[0].shape[axis].size() * step;
  CopyRows(
      r, plan, 0,
      {StepsBefore(x, axis), width, x[axis].size() * step, r.attrs.Int("begin") * step, width, 0});
  return OkStatus();
}

Status Pad(const OpRequest& r, const Limits&, OpPlan& plan) {
  const int axis = Axis(r);
  const Shape& x = r.inputs[0].shape;
  const Shape& y = r.outputs[0].shape;
  const int64_t step = StepSize(x, axis), width = x[axis].size() * step;
  plan.Kernel("movement", "zero")
      .Define("M", MoveType(r.inputs[0].dtype))
      .Out(0)
      .Int(y.num_elements())
      .Items(y.num_elements());
  CopyRows(
      r, plan, 0,
      {StepsBefore(x, axis), width, width, 0, y[axis].size() * step, r.attrs.Int("before") * step});
  return OkStatus();
}

Status Concat(const OpRequest& r, const Limits&, OpPlan& plan) {
  const int axis = Axis(r);
  const Shape& y = r.outputs[0].shape;
  const int64_t step = StepSize(y, axis), y_row = y[axis].size() * step;
  int64_t at = 0;
  for (size_t i = 0; i < r.inputs.size(); ++i) {
    const int64_t width = r.inputs[i].shape[axis].size() * step;
    CopyRows(r, plan, static_cast<int>(i), {StepsBefore(y, axis), width, width, 0, y_row, at});
    at += width;
  }
  return OkStatus();
}

Status Copy(const OpRequest& r, const Limits&, OpPlan& plan) {
  const int64_t n = r.outputs[0].shape.num_elements();
  CopyRows(r, plan, 0, {1, n, n, 0, n, 0});
  return OkStatus();
}

}  // namespace

void RegisterMovement(PlanRegistry& registry) {
  registry["transpose"] = {Transpose};
  registry["broadcast_to"] = {BroadcastTo};
  registry["slice"] = {Slice};
  registry["pad"] = {Pad};
  registry["concat"] = {Concat};
  registry["copy"] = {Copy};
}

}  // namespace oc::opencl

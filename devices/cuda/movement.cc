#include "openclaw/devices/cuda/plan.h"
#include "openclaw/devices/cuda/walk.h"

namespace oc::cuda {
namespace {

Status Gather(const OpRequest& r, OpPlan& plan, const WalkBuilder& walk) {
  OC_ASSIGN_OR_RETURN(const kernels::Walk built, walk.Build());
  plan.Launch([built, bytes = SizeInBytes(r.inputs[0].dtype)](const Call& c) {
    return kernels::Gather(bytes, c.In(0), built, c.Out(0), c.stream);
  });
  return OkStatus();
}

Status Transpose(const OpRequest& r, const Traits&, OpPlan& plan) {
  const std::vector<int64_t> strides = Strides(r.inputs[0].shape);
  WalkBuilder walk;
  for (int64_t axis : r.attrs.Ints("permutation")) {
    walk.Add(r.inputs[0].shape[static_cast<int>(axis)].size(), strides[static_cast<size_t>(axis)]);
  }
  return Gather(r, plan, walk);
}

Status BroadcastTo(const OpRequest& r, const Traits&, OpPlan& plan) {
  const Shape& x = r.inputs[0].shape;
  const Shape& y = r.outputs[0].shape;
  const std::vector<int64_t> strides = Strides(x);
  const int added = y.rank() - x.rank();
  WalkBuilder walk;
  for (int d = 0; d < y.rank(); ++d) {
    const bool repeats = d < added || x[d - added].size() == 1;
    walk.Add(y[d].size(), repeats ? 0 : strides[static_cast<size_t>(d - added)]);
  }
  return Gather(r, plan, walk);
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

// Bytes of one step along the axis.
int64_t StepBytes(const TensorType& type, int axis) {
  int64_t bytes = SizeInBytes(type.dtype);
  for (int d = axis + 1; d < type.shape.rank(); ++d) bytes *= type.shape[d].size();
  return bytes;
}

// Rows of x from x_begin on to rows of y from y_begin on; in bytes.
struct Rows {
  int64_t rows, width, x_row, x_begin, y_row, y_begin;
};

void AddRows(OpPlan& plan, int input, const Rows& rows) {
  plan.Launch([=](const Call& c) {
    return kernels::CopyRows(c.In<char>(input) + rows.x_begin, rows.x_row,
                             c.Out<char>(0) + rows.y_begin, rows.y_row, rows.rows, rows.width,
                             c.stream);
  });
}

Status SliceOf(const OpRequest& r, const Traits&, OpPlan& plan) {
  const int axis = Axis(r);
  const Shape& x = r.inputs[0].shape;
  const int64_t step = StepBytes(r.inputs[0], axis);
  const int64_t width = r.outputs[0].shape[axis].size() * step;
  AddRows(
      plan, 0,
      {StepsBefore(x, axis), width, x[axis].size() * step, r.attrs.Int("begin") * step, width, 0});
  return OkStatus();
}

Status Pad(const OpRequest& r, const Traits&, OpPlan& plan) {
  const int axis = Axis(r);
  const Shape& x = r.inputs[0].shape;
  const int64_t step = StepBytes(r.inputs[0], axis), width = x[axis].size() * step;
  plan.Launch([bytes = r.outputs[0].bytes()](const Call& c) {
    if (bytes == 0) return cudaSuccess;
    return cudaMemsetAsync(c.Out(0), 0, static_cast<size_t>(bytes), c.stream);
  });
  AddRows(plan, 0,
          {StepsBefore(x, axis), width, width, 0, r.outputs[0].shape[axis].size() * step,
           r.attrs.Int("before") * step});
  return OkStatus();
}

Status Concat(const OpRequest& r, const Traits&, OpPlan& plan) {
  const int axis = Axis(r);
  const Shape& y = r.outputs[0].shape;
  const int64_t step = StepBytes(r.outputs[0], axis), y_row = y[axis].size() * step;
  int64_t at = 0;
  for (size_t i = 0; i < r.inputs.size(); ++i) {
    const int64_t width = r.inputs[i].shape[axis].size() * step;
    AddRows(plan, static_cast<int>(i), {StepsBefore(y, axis), width, width, 0, y_row, at});
    at += width;
  }
  return OkStatus();
}

Status Copy(const OpRequest& r, const Traits&, OpPlan& plan) {
  const int64_t bytes = r.outputs[0].bytes();
  AddRows(plan, 0, {1, bytes, bytes, 0, bytes, 0});
  return OkStatus();
}

}  // namespace

void RegisterMovement(PlanRegistry& registry) {
  registry["transpose"] = {Transpose};
  registry["broadcast_to"] = {BroadcastTo};
  registry["slice"] = {SliceOf};
  registry["pad"] = {Pad};
  registry["concat"] = {Concat};
  registry["copy"] = {Copy};
}

}  // namespace oc::cuda

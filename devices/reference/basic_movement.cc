// What moves elements does so byte by byte, whatever the dtype.
#include <cstring>

#include "openclaw/devices/reference/basic.h"
#include "openclaw/devices/reference/dispatch.h"

namespace oc::reference {
namespace {

// out[i] = in[first + walk.Offset(i)].
void Gather(const OpRequest& request, const KernelArgs& args, const Walk& walk, int64_t first) {
  const auto size = static_cast<size_t>(SizeInBytes(request.inputs[0].dtype));
  const int64_t n = walk.elements();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t from = first + walk.Offset(i);
    std::memcpy(args.outputs[0] + static_cast<size_t>(i) * size,
                args.inputs[0] + static_cast<size_t>(from) * size, size);
  }
}

Status Transpose(const OpRequest& request, const KernelArgs& args) {
  const std::vector<int64_t> strides = Strides(request.inputs[0].shape);
  Walk walk{request.outputs[0].shape.sizes(), {}};
  for (int64_t axis : request.attrs.Ints("permutation")) {
    walk.strides.push_back(strides[static_cast<size_t>(axis)]);
  }
  Gather(request, args, walk, 0);
  return OkStatus();
}

Status BroadcastTo(const OpRequest& request, const KernelArgs& args) {
  const Shape& x = request.inputs[0].shape;
  const std::vector<int64_t> strides = Strides(x);
  Walk walk{request.outputs[0].shape.sizes(), {}};
  const int added = static_cast<int>(walk.sizes.size()) - x.rank();
  for (int d = 0; d < static_cast<int>(walk.sizes.size()); ++d) {
    const bool repeats = d < added || x[d - added].size() == 1;
    walk.strides.push_back(repeats ? 0 : strides[static_cast<size_t>(d - added)]);
  }
  Gather(request, args, walk, 0);
  return OkStatus();
}

// The attribute, counted from the front.
int Axis(const OpRequest& request) {
  const int64_t axis = request.attrs.Int("axis");
  return static_cast<int>(axis < 0 ? axis + request.inputs[0].shape.rank() : axis);
}

// Bytes of a tensor behind the axis, for one step along it.
int64_t BytesAStep(const TensorType& type, int axis) {
  int64_t bytes = SizeInBytes(type.dtype);
  for (int d = axis + 1; d < type.shape.rank(); ++d) bytes *= type.shape[d].size();
  return bytes;
}

int64_t StepsBefore(const TensorType& type, int axis) {
  int64_t steps = 1;
  for (int d = 0; d < axis; ++d) steps *= type.shape[d].size();
  return steps;
}

Status Slice(const OpRequest& request, const KernelArgs& args) {
  const int axis = Axis(request);
  const int64_t step = BytesAStep(request.inputs[0], axis);
  const int64_t from_row = request.inputs[0].shape[axis].size() * step;
  const int64_t to_row = request.outputs[0].shape[axis].size() * step;
  const std::byte* from = args.inputs[0] + request.attrs.Int("begin") * step;
  const int64_t rows = StepsBefore(request.inputs[0], axis);
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(args.outputs[0] + row * to_row, from + row * from_row, static_cast<size_t>(to_row));
  }
  return OkStatus();
}

Status Pad(const OpRequest& request, const KernelArgs& args) {
  const int axis = Axis(request);
  const int64_t step = BytesAStep(request.inputs[0], axis);
  const int64_t from_row = request.inputs[0].shape[axis].size() * step;
  const int64_t to_row = request.outputs[0].shape[axis].size() * step;
  std::memset(args.outputs[0], 0, static_cast<size_t>(request.outputs[0].bytes()));
  std::byte* to = args.outputs[0] + request.attrs.Int("before") * step;
  const int64_t rows = StepsBefore(request.inputs[0], axis);
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(to + row * to_row, args.inputs[0] + row * from_row, static_cast<size_t>(from_row));
  }
  return OkStatus();
}

Status Concat(const OpRequest& request, const KernelArgs& args) {
  const int axis = Axis(request);
  const int64_t rows = StepsBefore(request.outputs[0], axis);
  std::byte* to = args.outputs[0];
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      const TensorType& type = request.inputs[i];
      const int64_t bytes = type.shape[axis].size() * BytesAStep(type, axis);
      if (bytes == 0) continue;
      std::memcpy(to, args.inputs[i] + row * bytes, static_cast<size_t>(bytes));
      to += bytes;
    }
  }
  return OkStatus();
}

Status Copy(const OpRequest& request, const KernelArgs& args) {
  std::memcpy(args.outputs[0], args.inputs[0], static_cast<size_t>(request.outputs[0].bytes()));
  return OkStatus();
}

}  // namespace

void RegisterMovement(KernelRegistry& registry) {
  registry.Add("transpose", StatelessKernel(Transpose, "reference"));
  registry.Add("broadcast_to", StatelessKernel(BroadcastTo, "reference"));
  registry.Add("slice", StatelessKernel(Slice, "reference"));
  registry.Add("pad", StatelessKernel(Pad, "reference"));
  registry.Add("concat", StatelessKernel(Concat, "reference"));
  registry.Add("copy", StatelessKernel(Copy, "reference"));
}

}  // namespace oc::reference

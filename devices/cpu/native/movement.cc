#include <cstring>
#include <vector>

#include "openclaw/devices/cpu/native/glue.h"
#include "openclaw/devices/cpu/native/movement_loops.h"

namespace oc::cpu {
namespace {

using Kernel = StatusOr<std::unique_ptr<HostKernel>>;

// A dimension of the output and how far apart its elements lie in input and output.
struct Axis {
  int64_t size, from, to;
};

// y, walked axis by axis, takes x's elements. The innermost one or two axes are a loop of their
// own.
struct Walk {
  int64_t size = 1;         // bytes of an element
  std::vector<Axis> outer;  // the last runs fastest
  Axis row = {1, 0, 0};     // the input's contiguous axis, where it is not `last`
  Axis last = {1, 1, 1};    // the output's contiguous axis
  int64_t steps = 1;        // of the outer axes
  int64_t strips = 1;       // of the row axis
};

constexpr int64_t kStrip = 64;

// Axes without extent go, and neighbours that continue each other on both sides become one.
std::vector<Axis> Coalesce(const std::vector<Axis>& axes) {
  std::vector<Axis> merged;
  for (const Axis& a : axes) {
    if (a.size == 1) continue;
    if (!merged.empty() && merged.back().from == a.from * a.size &&
        merged.back().to == a.to * a.size) {
      merged.back() = {merged.back().size * a.size, a.from, a.to};
    } else {
      merged.push_back(a);
    }
  }
  return merged;
}

Walk MakeWalk(std::vector<Axis> axes, int64_t size) {
  Walk w;
  w.size = size;
  axes = Coalesce(axes);
  if (!axes.empty()) {
    w.last = axes.back();
    axes.pop_back();
  }
  if (w.last.from > 1) {
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].from != 1) continue;
      w.row = axes[i];
      axes.erase(axes.begin() + static_cast<int64_t>(i));
      break;
    }
  }
  w.outer = std::move(axes);
  for (const Axis& a : w.outer) w.steps *= a.size;
  w.strips = (w.row.size + kStrip - 1) / kStrip;
  return w;
}

void RunStep(const Walk& w, int64_t step, const std::byte* x, std::byte* y) {
  const MovementLoops& loops = GetMovementLoops();
  const int bits = __builtin_ctzll(static_cast<uint64_t>(w.size));
  int64_t rest = step / w.strips, from = 0, to = 0;
  for (size_t i = w.outer.size(); i-- > 0;) {
    const Axis& a = w.outer[i];
    from += rest % a.size * a.from;
    to += rest % a.size * a.to;
    rest /= a.size;
  }
  if (w.last.from == 1) {
    std::memcpy(y + to * w.size, x + from * w.size, static_cast<size_t>(w.last.size * w.size));
  } else if (w.last.from == 0) {
    loops.fill[bits](x + from * w.size, y + to * w.size, w.last.size);
  } else {
    // The input's columns, a strip of them, become the output's rows.
    const int64_t begin = step % w.strips * kStrip;
    const int64_t count = std::min(kStrip, w.row.size - begin);
    loops.transpose[bits](x + (from + begin * w.row.from) * w.size,
                          y + (to + begin * w.row.to) * w.size, w.last.size, count, w.last.from,
                          w.row.to);
  }
}

Kernel MakeWalkKernel(std::vector<Axis> axes, int64_t size) {
  for (const Axis& a : axes) {
    if (a.size == 0) return MakeKernel([](const KernelArgs&) {});
  }
  Walk w = MakeWalk(std::move(axes), size);
  if (w.outer.empty() && w.last.from == 1) {  // one run: split it
    return MakeKernel([n = w.last.size * size](const KernelArgs& args) {
      if (args.outputs[0] == args.inputs[0]) return;
      Split(args.pool, n, 1, 64, [&](int64_t begin, int64_t end) {
        std::memcpy(args.outputs[0] + begin, args.inputs[0] + begin,
                    static_cast<size_t>(end - begin));
      });
    });
  }
  return MakeKernel([w = std::move(w)](const KernelArgs& args) {
    const int64_t cost = w.last.size * std::min(w.row.size, kStrip);
    Split(args.pool, w.steps * w.strips, cost, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) RunStep(w, i, args.inputs[0], args.outputs[0]);
    });
  });
}

// Elements between neighbours of each dimension.
std::vector<int64_t> StridesOf(const Shape& shape) {
  std::vector<int64_t> strides(shape.rank());
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape[i].size();
  }
  return strides;
}

Kernel MakeTranspose(const OpRequest& request, int) {
  const Shape& x = request.inputs[0].shape;
  const std::vector<int64_t> permutation = request.attrs.Ints("permutation");
  const std::vector<int64_t> from = StridesOf(x), to = StridesOf(request.outputs[0].shape);
  std::vector<Axis> axes;
  for (size_t i = 0; i < permutation.size(); ++i) {
    const int p = static_cast<int>(permutation[i]);
    axes.push_back({x[p].size(), from[p], to[i]});
  }
  return MakeWalkKernel(std::move(axes), SizeInBytes(request.inputs[0].dtype));
}

Kernel MakeBroadcast(const OpRequest& request, int) {
  const Shape& x = request.inputs[0].shape;
  const Shape& y = request.outputs[0].shape;
  const std::vector<int64_t> from = StridesOf(x), to = StridesOf(y);
  const int added = y.rank() - x.rank();
  std::vector<Axis> axes;
  for (int i = 0; i < y.rank(); ++i) {
    const bool repeated = i < added || x[i - added].size() != y[i].size();
    axes.push_back({y[i].size(), repeated ? 0 : from[i - added], to[i]});
  }
  return MakeWalkKernel(std::move(axes), SizeInBytes(request.inputs[0].dtype));
}

Kernel MakeCopy(const OpRequest& request, int) {
  return MakeWalkKernel({{request.inputs[0].shape.num_elements(), 1, 1}},
                        SizeInBytes(request.inputs[0].dtype));
}

// A tensor seen along one axis: `outer` runs of `run` bytes.
struct Runs {
  int64_t outer = 1, run = 1;
};
int AxisOf(const OpRequest& request) {
  const int64_t axis = request.attrs.Int("axis");
  return static_cast<int>(axis < 0 ? axis + request.inputs[0].shape.rank() : axis);
}
Runs RunsOf(const TensorType& type, int axis) {
  Runs runs;
  runs.run = SizeInBytes(type.dtype);
  for (int i = 0; i < type.shape.rank(); ++i) {
    (i < axis ? runs.outer : runs.run) *= type.shape[i].size();
  }
  return runs;
}

// Copies `bytes` of each of `outer` runs.
void CopyRuns(WorkerPool& pool, int64_t outer, int64_t bytes, const std::byte* from,
              int64_t from_stride, std::byte* to, int64_t to_stride) {
  if (bytes == 0) return;
  Split(pool, outer, bytes / 4 + 1, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(bytes));
    }
  });
}

Kernel MakeSlice(const OpRequest& request, int) {
  const int axis = AxisOf(request);
  const Runs x = RunsOf(request.inputs[0], axis), y = RunsOf(request.outputs[0], axis);
  const int64_t size = request.inputs[0].shape[axis].size();
  const int64_t skip = size == 0 ? 0 : request.attrs.Int("begin") * (x.run / size);
  return MakeKernel([=](const KernelArgs& args) {
    CopyRuns(args.pool, y.outer, y.run, args.inputs[0] + skip, x.run, args.outputs[0], y.run);
  });
}

Kernel MakePad(const OpRequest& request, int) {
  const int axis = AxisOf(request);
  const Runs x = RunsOf(request.inputs[0], axis), y = RunsOf(request.outputs[0], axis);
  const int64_t size = request.outputs[0].shape[axis].size();
  const int64_t before = size == 0 ? 0 : request.attrs.Int("before") * (y.run / size);
  const int64_t after = y.run - before - x.run;
  return MakeKernel([=](const KernelArgs& args) {
    Split(args.pool, y.outer, y.run / 4 + 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::byte* to = args.outputs[0] + i * y.run;
        if (before > 0) std::memset(to, 0, static_cast<size_t>(before));
        if (x.run > 0) {
          std::memcpy(to + before, args.inputs[0] + i * x.run, static_cast<size_t>(x.run));
        }
        if (after > 0) std::memset(to + before + x.run, 0, static_cast<size_t>(after));
      }
    });
  });
}

Kernel MakeConcat(const OpRequest& request, int) {
  const int axis = AxisOf(request);
  const Runs y = RunsOf(request.outputs[0], axis);
  std::vector<int64_t> runs;
  for (const TensorType& x : request.inputs) runs.push_back(RunsOf(x, axis).run);
  return MakeKernel([=, runs = std::move(runs)](const KernelArgs& args) {
    int64_t at = 0;
    for (size_t i = 0; i < runs.size(); ++i) {
      CopyRuns(args.pool, y.outer, runs[i], args.inputs[i], runs[i], args.outputs[0] + at, y.run);
      at += runs[i];
    }
  });
}

}  // namespace

void RegisterMovement(KernelRegistry& registry) {
  registry.Add("transpose", MakeTranspose);
  registry.Add("broadcast_to", MakeBroadcast);
  registry.Add("copy", MakeCopy);
  registry.Add("slice", MakeSlice);
  registry.Add("pad", MakePad);
  registry.Add("concat", MakeConcat);
}

}  // namespace oc::cpu

#include "openclaw/devices/cpu/native/reduce_loops.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "openclaw/devices/cpu/native/glue.h"

namespace oc::cpu {
namespace {

using Kernel = StatusOr<std::unique_ptr<HostKernel>>;

// Neighbouring dimensions that are both kept or both reduced are one; sizes of one are left out.
struct Group {
  int64_t size;
  bool reduced;
};

std::vector<Group> GroupDims(const OpRequest& request) {
  const Shape& shape = request.inputs[0].shape;
  const std::vector<int64_t> axes = request.attrs.Ints("axes");
  std::vector<bool> reduced(shape.rank(), axes.empty());
  for (int64_t a : axes) reduced[a < 0 ? a + shape.rank() : a] = true;
  std::vector<Group> groups;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t size = shape[i].size();
    if (size == 1) continue;
    if (!groups.empty() && groups.back().reduced == reduced[i]) {
      groups.back().size *= size;
    } else {
      groups.push_back({size, reduced[i]});
    }
  }
  return groups;
}

// What reduces one request: x as [outer][reduced][inner], or more groups than that.
struct Plan {
  ReduceKind op;
  FloatKind kind, result;     // of x and of the result
  int64_t size, result_size;  // bytes of an element
  int64_t outputs = 1;        // elements
  float scale = 1;            // of the result: a mean's
  bool accumulate = false;
  int64_t outer = 1, reduced = 1, inner = 1;
  int64_t pieces = 1;  // in which the reduced dimension is cut, so that all workers find work

  float start() const { return op == kReduceSum ? 0.0f : -std::numeric_limits<float>::infinity(); }
};

// Rows of a piece: never fewer than this, and a number of pieces that does not depend on the
// threads.
int64_t PiecesOf(const Plan& plan) {
  constexpr int64_t kElements = 32768, kMost = 64;
  const int64_t independent = plan.inner == 1 ? plan.outer : plan.outer * (plan.inner / 256);
  if (independent >= 32) return 1;
  return std::clamp<int64_t>(plan.reduced * plan.inner / kElements, 1, kMost);
}

// [outer][reduced]: whole rows, or pieces of rows whose results are then reduced again.
void RunRows(const Plan& p, const KernelArgs& args) {
  const ReduceLoops& loops = GetReduceLoops();
  float* const result = reinterpret_cast<float*>(args.workspace);
  if (p.pieces == 1) {
    Split(args.pool, p.outer, p.reduced, 1, [&](int64_t begin, int64_t end) {
      loops.rows[p.op][p.kind](args.inputs[0] + begin * p.reduced * p.size, result + begin,
                               end - begin, p.reduced);
    });
  } else {
    float* const partial = result + p.outputs;
    Split(args.pool, p.outer * p.pieces, p.reduced / p.pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const WorkRange range =
            SplitWork(p.reduced, 64, static_cast<int>(p.pieces), static_cast<int>(i % p.pieces));
        loops.rows[p.op][p.kind](args.inputs[0] + (i / p.pieces * p.reduced + range.begin) * p.size,
                                 partial + i, 1, range.end - range.begin);
      }
    });
    loops.rows[p.op][kFloat32](partial, result, p.outer, p.pieces);
  }
  loops.store[p.result](result, args.outputs[0], p.outputs, p.scale, p.accumulate);
}

// [outer][reduced][inner]: columns, or pieces of columns.
void RunColumns(const Plan& p, const KernelArgs& args) {
  const ReduceLoops& loops = GetReduceLoops();
  float* const result = reinterpret_cast<float*>(args.workspace);
  const auto columns = [&](int64_t o, int64_t first, int64_t rows, float* to, int64_t begin,
                           int64_t end) {
    std::fill(to + begin, to + end, p.start());
    loops.columns[p.op][p.kind](args.inputs[0] + (o * p.reduced + first) * p.inner * p.size, to,
                                rows, p.inner, begin, end);
  };
  const auto store = [&](int64_t begin, int64_t end) {
    loops.store[p.result](result + begin, args.outputs[0] + begin * p.result_size, end - begin,
                          p.scale, p.accumulate);
  };
  if (p.pieces > 1) {
    float* const partial = result + p.outputs;
    Split(args.pool, p.outer * p.pieces, p.reduced / p.pieces * p.inner, 1,
          [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
              const WorkRange range = SplitWork(p.reduced, 1, static_cast<int>(p.pieces),
                                                static_cast<int>(i % p.pieces));
              columns(i / p.pieces, range.begin, range.end - range.begin, partial + i * p.inner, 0,
                      p.inner);
            }
          });
    for (int64_t o = 0; o < p.outer; ++o) {
      float* const to = result + o * p.inner;
      std::fill(to, to + p.inner, p.start());
      loops.columns[p.op][kFloat32](partial + o * p.pieces * p.inner, to, p.pieces, p.inner, 0,
                                    p.inner);
    }
    store(0, p.outputs);
  } else if (p.outer >= 32) {
    Split(args.pool, p.outer, p.reduced * p.inner, 1, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o)
        columns(o, 0, p.reduced, result + o * p.inner, 0, p.inner);
      store(begin * p.inner, end * p.inner);
    });
  } else {
    Split(args.pool, p.inner, p.outer * p.reduced, 64, [&](int64_t begin, int64_t end) {
      for (int64_t o = 0; o < p.outer; ++o) {
        columns(o, 0, p.reduced, result + o * p.inner, begin, end);
        store(o * p.inner + begin, o * p.inner + end);
      }
    });
  }
}

// More groups: the last two as above on the caller alone, the ones before walked.
void WalkGroups(const Plan& p, const std::vector<Group>& groups, const KernelArgs& args) {
  const ReduceLoops& loops = GetReduceLoops();
  float* const result = reinterpret_cast<float*>(args.workspace);
  std::fill(result, result + p.outputs, p.start());
  const size_t walked = groups.size() - 2;
  const Group& a = groups[walked];
  const Group& b = groups[walked + 1];
  float* const row = result + p.outputs;
  int64_t steps = 1;
  for (size_t g = 0; g < walked; ++g) steps *= groups[g].size;
  for (int64_t step = 0; step < steps; ++step) {
    // The output that this step belongs to: its kept coordinates, the rightmost running fastest.
    int64_t rest = step, to = 0, stride = a.reduced ? b.size : a.size;
    for (size_t g = walked; g-- > 0;) {
      const int64_t at = rest % groups[g].size;
      rest /= groups[g].size;
      if (groups[g].reduced) continue;
      to += at * stride;
      stride *= groups[g].size;
    }
    const std::byte* x = args.inputs[0] + step * a.size * b.size * p.size;
    if (a.reduced) {
      loops.columns[p.op][p.kind](x, result + to, a.size, b.size, 0, b.size);
    } else {
      loops.rows[p.op][p.kind](x, row, a.size, b.size);
      loops.columns[p.op][kFloat32](row, result + to, 1, a.size, 0, a.size);
    }
  }
  loops.store[p.result](result, args.outputs[0], p.outputs, p.scale, p.accumulate);
}

Kernel MakeFloatReduce(const OpRequest& request, ReduceKind op, bool mean) {
  const TensorType& x = request.inputs[0];
  Plan p = {};
  p.op = op;
  OC_ASSIGN_OR_RETURN(p.kind, FloatKindOf(x));
  OC_ASSIGN_OR_RETURN(p.result, FloatKindOf(request.outputs[0]));
  p.size = SizeInBytes(x.dtype);
  p.result_size = SizeInBytes(request.outputs[0].dtype);
  p.outputs = request.outputs[0].shape.num_elements();
  p.accumulate = request.accumulate != 0;
  const int64_t elements = x.shape.num_elements();
  if (mean)
    p.scale = static_cast<float>(static_cast<double>(p.outputs) / static_cast<double>(elements));
  const int64_t float_bytes = static_cast<int64_t>(sizeof(float));
  if (elements == 0) {
    if (mean) p.scale = 1;  // of nothing: NaN, as 0 / 0
    const float value = mean ? std::numeric_limits<float>::quiet_NaN() : p.start();
    return MakeKernel(
        [=](const KernelArgs& args) {
          float* const result = reinterpret_cast<float*>(args.workspace);
          std::fill(result, result + p.outputs, value);
          GetReduceLoops().store[p.result](result, args.outputs[0], p.outputs, 1, p.accumulate);
        },
        p.outputs * float_bytes);
  }
  std::vector<Group> groups = GroupDims(request);
  if (groups.size() > 3 || (groups.size() == 3 && groups[0].reduced)) {
    const Group last = groups[groups.size() - 2];
    return MakeKernel([=](const KernelArgs& args) { WalkGroups(p, groups, args); },
                      (p.outputs + last.size) * float_bytes);
  }
  size_t g = 0;
  if (g < groups.size() && !groups[g].reduced) p.outer = groups[g++].size;
  if (g < groups.size()) p.reduced = groups[g++].size;
  if (g < groups.size()) p.inner = groups[g].size;
  p.pieces = std::min(PiecesOf(p), std::max<int64_t>(p.reduced / 64, 1));
  const int64_t floats = p.outputs * (p.pieces == 1 ? 1 : 1 + p.pieces);
  if (p.inner == 1) {
    return MakeKernel([=](const KernelArgs& args) { RunRows(p, args); }, floats * float_bytes);
  }
  return MakeKernel([=](const KernelArgs& args) { RunColumns(p, args); }, floats * float_bytes);
}

// Integers are counts and ids: few, so plainly.
template <typename T>
Kernel MakeIntegerReduce(const OpRequest& request, ReduceKind op) {
  const std::vector<Group> groups = GroupDims(request);
  const int64_t elements = request.inputs[0].shape.num_elements();
  const int64_t outputs = request.outputs[0].shape.num_elements();
  const bool accumulate = request.accumulate != 0;
  return MakeKernel([=](const KernelArgs& args) {
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    if (op == kReduceMax) std::fill_n(y, outputs, std::numeric_limits<T>::lowest());
    if (op == kReduceSum && !accumulate) std::fill_n(y, outputs, T{0});
    for (int64_t i = 0; i < elements; ++i) {
      int64_t rest = i, to = 0, stride = 1;
      for (size_t g = groups.size(); g-- > 0;) {
        if (!groups[g].reduced) {
          to += rest % groups[g].size * stride;
          stride *= groups[g].size;
        }
        rest /= groups[g].size;
      }
      y[to] = op == kReduceSum ? static_cast<T>(y[to] + x[i]) : std::max(y[to], x[i]);
    }
  });
}

Kernel MakeReduce(const OpRequest& request, ReduceKind op, bool mean) {
  if (!mean && request.inputs[0].dtype == DType::kI32)
    return MakeIntegerReduce<int32_t>(request, op);
  if (!mean && request.inputs[0].dtype == DType::kI64)
    return MakeIntegerReduce<int64_t>(request, op);
  return MakeFloatReduce(request, op, mean);
}

}  // namespace

void RegisterReduce(KernelRegistry& registry) {
  registry.Add(
      "reduce_sum", [](const OpRequest& r, int) { return MakeReduce(r, kReduceSum, false); }, 1,
      /*sum_types=*/true);
  registry.Add("reduce_mean",
               [](const OpRequest& r, int) { return MakeReduce(r, kReduceSum, true); });
  registry.Add("reduce_max",
               [](const OpRequest& r, int) { return MakeReduce(r, kReduceMax, false); });
}

}  // namespace oc::cpu

#include "openclaw/devices/cpu/native/pool2d_loops.h"

#include "openclaw/devices/cpu/native/glue.h"
#include "openclaw/graph/ops/window.h"

namespace oc::cpu {
namespace {

using Kernel = StatusOr<std::unique_ptr<HostKernel>>;

struct Pool {
  PoolSizes sizes;
  FloatKind kind;
  int64_t images;
};

PoolAxis AxisOf(const ops::WindowAxis& window, const Dim& input, const Dim& output) {
  return {input.size(), output.size(), window.kernel, window.stride, window.before};
}

// From the request and the types of the pool's input and output.
StatusOr<Pool> PoolOf(const OpRequest& request, const TensorType& x, const TensorType& y) {
  OC_ASSIGN_OR_RETURN(const ops::Window2d window, ops::Pool2dWindow(request.attrs));
  Pool p;
  OC_ASSIGN_OR_RETURN(p.kind, FloatKindOf(x));
  p.sizes.h = AxisOf(window.h, x.shape[1], y.shape[1]);
  p.sizes.w = AxisOf(window.w, x.shape[2], y.shape[2]);
  p.sizes.channels = x.shape[3].size();
  p.sizes.count_padding = request.attrs.Bool("count_include_pad", true);
  p.images = x.shape[0].size();
  return p;
}

// f(begin, end) over the rows of the output, or of the input.
template <typename F>
void ForOutputRows(const Pool& p, WorkerPool& pool, const F& f) {
  const PoolSizes& s = p.sizes;
  const int64_t window = s.h.kernel * s.w.kernel;
  Split(pool, p.images * s.h.output, s.w.output * s.channels * window, 1, f);
}
template <typename F>
void ForInputRows(const Pool& p, WorkerPool& pool, const F& f) {
  const PoolSizes& s = p.sizes;
  Split(pool, p.images * s.h.input, s.w.input * s.channels, 1, f);
}

Kernel MakeMax(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const Pool p, PoolOf(request, request.inputs[0], request.outputs[0]));
  const auto loop = GetPool2dLoops().max[p.kind];
  return MakeKernel([=](const KernelArgs& args) {
    ForOutputRows(p, args.pool, [&](int64_t begin, int64_t end) {
      loop(p.sizes, args.inputs[0], args.outputs[0], args.out<uint8_t>(1), begin, end);
    });
  });
}

Kernel MakeAvg(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const Pool p, PoolOf(request, request.inputs[0], request.outputs[0]));
  const auto loop = GetPool2dLoops().avg[p.kind];
  return MakeKernel([=](const KernelArgs& args) {
    ForOutputRows(p, args.pool, [&](int64_t begin, int64_t end) {
      loop(p.sizes, args.inputs[0], args.outputs[0], begin, end);
    });
  });
}

Kernel MakeMaxGrad(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const Pool p, PoolOf(request, request.outputs[0], request.inputs[0]));
  const auto loop = GetPool2dLoops().max_grad[p.kind];
  return MakeKernel([=](const KernelArgs& args) {
    ForInputRows(p, args.pool, [&](int64_t begin, int64_t end) {
      loop(p.sizes, args.inputs[0], args.in<uint8_t>(1), args.outputs[0], begin, end);
    });
  });
}

Kernel MakeAvgGrad(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const Pool p, PoolOf(request, request.outputs[0], request.inputs[0]));
  const auto loop = GetPool2dLoops().avg_grad[p.kind];
  return MakeKernel([=](const KernelArgs& args) {
    ForInputRows(p, args.pool, [&](int64_t begin, int64_t end) {
      loop(p.sizes, args.inputs[0], args.outputs[0], begin, end);
    });
  });
}

}  // namespace

void RegisterPool2d(KernelRegistry& registry) {
  registry.Add("max_pool2d", MakeMax);
  registry.Add("max_pool2d_grad", MakeMaxGrad);
  registry.Add("avg_pool2d", MakeAvg);
  registry.Add("avg_pool2d_grad", MakeAvgGrad);
}

}  // namespace oc::cpu

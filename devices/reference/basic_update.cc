#include <algorithm>
#include <cmath>

#include "openclaw/core/tensor.h"
#include "openclaw/devices/reference/basic.h"
#include "openclaw/devices/reference/dispatch.h"
#include "openclaw/devices/reference/tensor_list.h"

namespace oc::reference {
namespace {

// Ops of one tensor.
int64_t Elements(const OpRequest& request) { return request.outputs[0].shape.num_elements(); }
double Scalar(const KernelArgs& args, int i) { return args.in<float>(i)[0]; }
// Gradients and means may be narrower than the state: of any float dtype.
double Any(const OpRequest& request, const KernelArgs& args, int input, int64_t i) {
  return LoadElement(request.inputs[static_cast<size_t>(input)].dtype, args.inputs[input], i);
}

template <typename T>
Status Accumulate(const OpRequest& request, const KernelArgs& args) {
  for (int64_t i = 0; i < Elements(request); ++i) {
    Store(args.out<T>(0), i, Load(args.in<T>(0), i) + Any(request, args, 1, i));
  }
  return OkStatus();
}

template <typename T>
Status Lerp(const OpRequest& request, const KernelArgs& args) {
  const double rate = request.attrs.Double("rate");
  for (int64_t i = 0; i < Elements(request); ++i) {
    const double state = Load(args.in<T>(0), i);
    Store(args.out<T>(0), i, state + rate * (Any(request, args, 1, i) - state));
  }
  return OkStatus();
}

// The average over the steps: the first step's value as it is.
template <typename T>
Status Ema(const OpRequest& request, const KernelArgs& args) {
  const double decay = request.attrs.Double("decay");
  return ForEachTensor(request, args, [&](const OneTensor& t) {
    const double rate = t.shared(0) < 1.5 ? 1 : 1 - decay;
    for (int64_t i = 0; i < t.elements(); ++i) {
      const double average = Load(t.in<T>(0), i), x = t.any(1, i);
      Store(t.out<T>(0), i, rate == 1 ? x : average + rate * (x - average));
    }
  });
}

// A sum a chunk of every tensor.
Status SumSquares(const OpRequest& request, const KernelArgs& args) {
  return ForEachTensor(request, args, [&](const OneTensor& t) {
    StoreChunkSums(t.out<float>(0), t.elements(), [&](int64_t i) {
      const double x = t.any(0, i);
      return x * x;
    });
  });
}

Status SumPartials(const OpRequest& request, const KernelArgs& args) {
  double sum = 0;
  for (size_t input = 0; input < request.inputs.size(); ++input) {
    sum += TotalOf(args.in<float>(static_cast<int>(input)), request.inputs[input]);
  }
  StoreOrAdd(args.out<float>(0), 0, sum, (request.accumulate & 1) != 0);
  return OkStatus();
}

Status ClipFactor(const OpRequest& request, const KernelArgs& args) {
  const double norm = std::sqrt(Scalar(args, 0)), limit = request.attrs.Double("max_norm");
  Store(args.out<float>(0), 0, std::isinf(limit) ? 1.0 : std::min(1.0, limit / (norm + 1e-6)));
  return OkStatus();
}

}  // namespace

void RegisterUpdate(KernelRegistry& registry) {
  registry.Add("accumulate", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return Accumulate<T>(r, a);
               }));
  registry.Add("lerp", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return Lerp<T>(r, a);
               }));
  registry.Add("ema", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return Ema<T>(r, a);
               }));
  registry.Add("sum_squares", StatelessKernel(SumSquares, "reference"));
  registry.Add("sum_partials", StatelessKernel(SumPartials, "reference"), /*accumulable=*/1);
  registry.Add("clip_factor", StatelessKernel(ClipFactor, "reference"));
}

}  // namespace oc::reference

#include <algorithm>
#include <cmath>

#include "openclaw/core/tensor.h"
#include "openclaw/devices/reference/basic.h"
#include "openclaw/devices/reference/dispatch.h"

namespace oc::reference {
namespace {

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

Status SumSquares(const OpRequest& request, const KernelArgs& args) {
  double sum = 0;
  for (size_t input = 0; input < request.inputs.size(); ++input) {
    const int64_t n = request.inputs[input].shape.num_elements();
    for (int64_t i = 0; i < n; ++i) {
      const double x = Any(request, args, static_cast<int>(input), i);
      sum += x * x;
    }
  }
  StoreOrAdd(args.out<float>(0), 0, sum, (request.accumulate & 1) != 0);
  return OkStatus();
}

Status ClipFactor(const OpRequest& request, const KernelArgs& args) {
  const double norm = std::sqrt(Scalar(args, 0)), limit = request.attrs.Double("max_norm");
  Store(args.out<float>(0), 0, std::isinf(limit) ? 1.0 : std::min(1.0, limit / (norm + 1e-6)));
  return OkStatus();
}

// PyTorch's torch.optim.SGD, with a buffer that begins at zero.
template <typename T>
Status Sgd(const OpRequest& request, const KernelArgs& args) {
  const double momentum = request.attrs.Double("momentum");
  const double decay = request.attrs.Double("weight_decay");
  const bool nesterov = request.attrs.Bool("nesterov"), has_buffer = request.inputs.size() > 4;
  const double lr = Scalar(args, 2), clip = Scalar(args, 3);
  for (int64_t i = 0; i < Elements(request); ++i) {
    const double p = Load(args.in<T>(0), i);
    double g = clip * Any(request, args, 1, i) + decay * p;
    if (has_buffer) {
      const double buffer = momentum * Load(args.in<T>(4), i) + g;
      g = nesterov ? g + momentum * buffer : buffer;
      Store(args.out<T>(1), i, buffer);
    }
    Store(args.out<T>(0), i, p - lr * g);
  }
  return OkStatus();
}

// Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019, as torch.optim.AdamW
// has it.
template <typename T>
Status AdamW(const OpRequest& request, const KernelArgs& args) {
  const double beta1 = request.attrs.Double("beta1", 0.9),
               beta2 = request.attrs.Double("beta2", 0.999);
  const double eps = request.attrs.Double("eps", 1e-8);
  const double lr = Scalar(args, 4), step = Scalar(args, 5), clip = Scalar(args, 6);
  const double keep = 1 - lr * request.attrs.Double("weight_decay");
  const double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
  for (int64_t i = 0; i < Elements(request); ++i) {
    const double g = clip * Any(request, args, 1, i);
    const double m = beta1 * Load(args.in<T>(2), i) + (1 - beta1) * g;
    const double v = beta2 * Load(args.in<T>(3), i) + (1 - beta2) * g * g;
    const double update = m / correction1 / (std::sqrt(v / correction2) + eps);
    Store(args.out<T>(0), i, keep * Load(args.in<T>(0), i) - lr * update);
    Store(args.out<T>(1), i, m);
    Store(args.out<T>(2), i, v);
  }
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
  registry.Add("sum_squares", StatelessKernel(SumSquares, "reference"), /*accumulable=*/1);
  registry.Add("clip_factor", StatelessKernel(ClipFactor, "reference"));
  registry.Add("sgd", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return Sgd<T>(r, a);
               }));
  registry.Add("adamw", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return AdamW<T>(r, a);
               }));
}

}  // namespace oc::reference

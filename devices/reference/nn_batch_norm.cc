#include <algorithm>
#include <cmath>

#include "openclaw/devices/reference/floats.h"
#include "openclaw/devices/reference/nn.h"

namespace oc::reference {
namespace {

struct Moments {
  double mean = 0;
  double var = 0;  // biased
};

template <typename T>
Moments ChannelMoments(const T* x, int64_t rows, int64_t channels, int64_t c) {
  Moments m;
  for (int64_t r = 0; r < rows; ++r) m.mean += Load(x, r * channels + c);
  m.mean /= static_cast<double>(rows);
  for (int64_t r = 0; r < rows; ++r) {
    const double d = Load(x, r * channels + c) - m.mean;
    m.var += d * d;
  }
  m.var /= static_cast<double>(rows);
  return m;
}

template <typename T>
Status Forward(const OpRequest& request, const KernelArgs& args) {
  using S = StatisticsOf<T>;
  const int64_t channels = request.inputs[1].shape.num_elements();
  const int64_t rows = request.inputs[0].shape.num_elements() / std::max<int64_t>(channels, 1);
  const double eps = request.attrs.Double("eps", 1e-5);
  const bool relu = request.attrs.String("activation", "none") == "relu";
  const bool training = request.attrs.Bool("training", true);
  const T* x = args.in<T>(0);
  for (int64_t c = 0; c < channels; ++c) {
    const Moments m = training ? ChannelMoments(x, rows, channels, c)
                               : Moments{Load(args.in<S>(3), c), Load(args.in<S>(4), c)};
    const double rstd = 1 / std::sqrt(m.var + eps);
    for (int64_t r = 0; r < rows; ++r) {
      const double y = (Load(x, r * channels + c) - m.mean) * rstd * Load(args.in<T>(1), c) +
                       Load(args.in<T>(2), c);
      Store(args.out<T>(0), r * channels + c, relu ? std::max(y, 0.0) : y);
    }
    Store(args.out<S>(1), c, m.mean);
    Store(args.out<S>(2), c, m.var);
  }
  return OkStatus();
}

template <typename T>
Status Backward(const OpRequest& request, const KernelArgs& args) {
  using S = StatisticsOf<T>;
  const int64_t channels = request.inputs[2].shape.num_elements();
  const int64_t rows = request.inputs[0].shape.num_elements() / std::max<int64_t>(channels, 1);
  const double eps = request.attrs.Double("eps", 1e-5);
  const bool relu = request.attrs.String("activation", "none") == "relu";
  for (int64_t c = 0; c < channels; ++c) {
    const double gamma = Load(args.in<T>(2), c), beta = Load(args.in<T>(3), c);
    const double mean = Load(args.in<S>(4), c);
    const double rstd = 1 / std::sqrt(Load(args.in<S>(5), c) + eps);
    const auto normalised = [&](int64_t r) {
      return (Load(args.in<T>(1), r * channels + c) - mean) * rstd;
    };
    const auto gated = [&](int64_t r) {
      const bool open = !relu || normalised(r) * gamma + beta > 0;
      return open ? Load(args.in<T>(0), r * channels + c) : 0.0;
    };
    double dgamma = 0, dbeta = 0;
    for (int64_t r = 0; r < rows; ++r) {
      dgamma += gated(r) * normalised(r);
      dbeta += gated(r);
    }
    const double n = static_cast<double>(rows);
    for (int64_t r = 0; r < rows; ++r) {
      const double dx = gamma * rstd * (gated(r) - dbeta / n - normalised(r) * dgamma / n);
      Store(args.out<T>(0), r * channels + c, dx);
    }
    StoreSum(request, args, 1, c, dgamma);
    StoreSum(request, args, 2, c, dbeta);
  }
  return OkStatus();
}

template <typename T>
Status UnbiasedVar(const OpRequest& request, const KernelArgs& args) {
  const auto n = static_cast<double>(request.attrs.GetShape("rows").num_elements());
  const double factor = n / std::max(n - 1, 1.0);
  for (int64_t c = 0; c < request.inputs[0].shape.num_elements(); ++c) {
    Store(args.out<T>(0), c, Load(args.in<T>(0), c) * factor);
  }
  return OkStatus();
}

}  // namespace

void RegisterBatchNorm(KernelRegistry& registry) {
  registry.Add("batch_norm", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return Forward<T>(r, a);
               }));
  registry.Add("batch_norm_grad",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return Backward<T>(r, a);
               }),
               /*accumulable=*/0, /*sum_types=*/true);
  registry.Add("unbiased_var", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return UnbiasedVar<T>(r, a);
               }));
}

}  // namespace oc::reference

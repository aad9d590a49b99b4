#include <algorithm>
#include <cmath>
#include <vector>

#include "openclaw/devices/reference/floats.h"
#include "openclaw/devices/reference/nn.h"

namespace oc::reference {
namespace {

struct Rows {
  explicit Rows(const Shape& x)
      : width(x[-1].size()), count(x.num_elements() / std::max<int64_t>(width, 1)) {}
  int64_t width, count;
};

template <typename T>
Status LayerNorm(const OpRequest& request, const KernelArgs& args) {
  using S = StatisticsOf<T>;
  const Rows rows(request.inputs[0].shape);
  const double eps = request.attrs.Double("eps", 1e-5);
  const auto n = static_cast<double>(rows.width);
  for (int64_t r = 0; r < rows.count; ++r) {
    const T* x = args.in<T>(0) + r * rows.width;
    double mean = 0, var = 0;
    for (int64_t c = 0; c < rows.width; ++c) mean += Load(x, c) / n;
    for (int64_t c = 0; c < rows.width; ++c) var += (Load(x, c) - mean) * (Load(x, c) - mean) / n;
    const double rstd = 1 / std::sqrt(var + eps);
    for (int64_t c = 0; c < rows.width; ++c) {
      const double gamma = request.inputs.size() > 1 ? Load(args.in<T>(1), c) : 1;
      const double beta = request.inputs.size() > 2 ? Load(args.in<T>(2), c) : 0;
      Store(args.out<T>(0), r * rows.width + c, (Load(x, c) - mean) * rstd * gamma + beta);
    }
    Store(args.out<S>(1), r, mean);
    Store(args.out<S>(2), r, rstd);
  }
  return OkStatus();
}

// With g = dy * gamma and xhat = (x - mean) * rstd: dx = rstd * (g - mean(g) - xhat * mean(g *
// xhat)). RMS norm lacks the mean: dx = rstd * (g - xhat * mean(g * xhat)).
template <typename T, bool kCentred>
void GradInputRow(int64_t width, const T* dy, const T* x, const T* gamma, double mean, double rstd,
                  T* dx) {
  const auto n = static_cast<double>(width);
  const auto g = [&](int64_t c) { return Load(dy, c) * (gamma != nullptr ? Load(gamma, c) : 1.0); };
  const auto xhat = [&](int64_t c) { return (Load(x, c) - mean) * rstd; };
  double mean_g = 0, mean_gx = 0;
  for (int64_t c = 0; c < width; ++c) {
    if (kCentred) mean_g += g(c) / n;
    mean_gx += g(c) * xhat(c) / n;
  }
  for (int64_t c = 0; c < width; ++c) Store(dx, c, rstd * (g(c) - mean_g - xhat(c) * mean_gx));
}

template <typename T>
Status LayerNormGradInput(const OpRequest& request, const KernelArgs& args) {
  using S = StatisticsOf<T>;
  const Rows rows(request.inputs[0].shape);
  const bool has_gamma = request.inputs.size() == 5;
  const int mean = has_gamma ? 3 : 2;
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t at = r * rows.width;
    GradInputRow<T, true>(rows.width, args.in<T>(0) + at, args.in<T>(1) + at,
                          has_gamma ? args.in<T>(2) : nullptr, Load(args.in<S>(mean), r),
                          Load(args.in<S>(mean + 1), r), args.out<T>(0) + at);
  }
  return OkStatus();
}

// dgamma and dbeta into outputs `first` and the next, of dy, x and, from input `mean` on, the
// statistics.
template <typename T>
void GradWeights(const OpRequest& request, const KernelArgs& args, int mean, int first) {
  using S = StatisticsOf<T>;
  const Rows rows(request.inputs[0].shape);
  for (int64_t c = 0; c < rows.width; ++c) {
    double dgamma = 0, dbeta = 0;
    for (int64_t r = 0; r < rows.count; ++r) {
      const int64_t at = r * rows.width + c;
      const double dy = Load(args.in<T>(0), at);
      dgamma += dy * (Load(args.in<T>(1), at) - Load(args.in<S>(mean), r)) *
                Load(args.in<S>(mean + 1), r);
      dbeta += dy;
    }
    StoreSum(request, args, first, c, dgamma);
    StoreSum(request, args, first + 1, c, dbeta);
  }
}

template <typename T>
Status LayerNormGradWeight(const OpRequest& request, const KernelArgs& args) {
  GradWeights<T>(request, args, /*mean=*/2, /*first=*/0);
  return OkStatus();
}

// The sum as it is stored, so that the result is that of the two ops.
template <typename T>
Status AddLayerNorm(const OpRequest& request, const KernelArgs& args) {
  const int64_t n = request.outputs[0].shape.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    Store(args.out<T>(0), i, Load(args.in<T>(0), i) + Load(args.in<T>(1), i));
  }
  const std::byte* inputs[] = {args.outputs[0], args.inputs[2], args.inputs[3]};
  const OpRequest norm{.def = request.def,
                       .attrs = request.attrs,
                       .inputs = {request.inputs[0], request.inputs[2], request.inputs[3]}};
  return LayerNorm<T>(norm, {inputs, args.outputs + 1, args.workspace, args.pool});
}

template <typename T>
Status LayerNormGrad(const OpRequest& request, const KernelArgs& args) {
  using S = StatisticsOf<T>;
  const Rows rows(request.inputs[0].shape);
  GradWeights<T>(request, args, /*mean=*/3, /*first=*/1);
  std::vector<T> row(static_cast<size_t>(rows.width));
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t at = r * rows.width;
    // The gradient of the row as it is stored: dx may have the memory of what is added to it.
    GradInputRow<T, true>(rows.width, args.in<T>(0) + at, args.in<T>(1) + at, args.in<T>(2),
                          Load(args.in<S>(3), r), Load(args.in<S>(4), r), row.data());
    const T* const other = request.inputs.size() > 5 ? args.in<T>(5) + at : nullptr;
    for (int64_t c = 0; c < rows.width; ++c) {
      Store(args.out<T>(0) + at, c, Load(row.data(), c) + (other == nullptr ? 0 : Load(other, c)));
    }
  }
  return OkStatus();
}

template <typename T>
Status RmsNorm(const OpRequest& request, const KernelArgs& args) {
  using S = StatisticsOf<T>;
  const Rows rows(request.inputs[0].shape);
  const double eps = request.attrs.Double("eps", 1e-5);
  const auto n = static_cast<double>(rows.width);
  for (int64_t r = 0; r < rows.count; ++r) {
    const T* x = args.in<T>(0) + r * rows.width;
    double mean_square = 0;
    for (int64_t c = 0; c < rows.width; ++c) mean_square += Load(x, c) * Load(x, c) / n;
    const double rstd = 1 / std::sqrt(mean_square + eps);
    for (int64_t c = 0; c < rows.width; ++c) {
      Store(args.out<T>(0), r * rows.width + c, Load(x, c) * rstd * Load(args.in<T>(1), c));
    }
    Store(args.out<S>(1), r, rstd);
  }
  return OkStatus();
}

template <typename T>
Status RmsNormGradInput(const OpRequest& request, const KernelArgs& args) {
  const Rows rows(request.inputs[0].shape);
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t at = r * rows.width;
    GradInputRow<T, false>(rows.width, args.in<T>(0) + at, args.in<T>(1) + at, args.in<T>(2),
                           /*mean=*/0, Load(args.in<StatisticsOf<T>>(3), r), args.out<T>(0) + at);
  }
  return OkStatus();
}

template <typename T>
Status RmsNormGradWeight(const OpRequest& request, const KernelArgs& args) {
  const Rows rows(request.inputs[0].shape);
  for (int64_t c = 0; c < rows.width; ++c) {
    double dgamma = 0;
    for (int64_t r = 0; r < rows.count; ++r) {
      const int64_t at = r * rows.width + c;
      dgamma +=
          Load(args.in<T>(0), at) * Load(args.in<T>(1), at) * Load(args.in<StatisticsOf<T>>(2), r);
    }
    StoreSum(request, args, 0, c, dgamma);
  }
  return OkStatus();
}

}  // namespace

void RegisterLayerNorm(KernelRegistry& registry) {
  registry.Add("layer_norm", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return LayerNorm<T>(r, a);
               }));
  registry.Add("layer_norm_grad_input",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return LayerNormGradInput<T>(r, a);
               }));
  registry.Add("layer_norm_grad_weight",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return LayerNormGradWeight<T>(r, a);
               }),
               /*accumulable=*/3, /*sum_types=*/true);
  registry.Add("add_layer_norm",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return AddLayerNorm<T>(r, a);
               }));
  registry.Add("layer_norm_grad",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return LayerNormGrad<T>(r, a);
               }),
               /*accumulable=*/0b110, /*sum_types=*/true);
  registry.Add("rms_norm", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return RmsNorm<T>(r, a);
               }));
  registry.Add("rms_norm_grad_input",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return RmsNormGradInput<T>(r, a);
               }));
  registry.Add("rms_norm_grad_weight",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return RmsNormGradWeight<T>(r, a);
               }),
               /*accumulable=*/1, /*sum_types=*/true);
}

}  // namespace oc::reference

#include <cmath>
#include <limits>

#include "openclaw/devices/reference/basic.h"
#include "openclaw/devices/reference/dispatch.h"
#include "openclaw/devices/reference/gelu.h"

namespace oc::reference {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double SiluSlope(double x) {
  const double s = Sigmoid(x);
  return s * (1 + x * (1 - s));
}

// y = f(x).
template <typename F>
void AddUnary(KernelRegistry& registry, const char* op, F) {
  registry.Add(op, FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 const int64_t n = r.outputs[0].shape.num_elements();
                 for (int64_t i = 0; i < n; ++i) Store(a.out<T>(0), i, F{}(Load(a.in<T>(0), i)));
                 return OkStatus();
               }));
}

// dx = dy * slope(saved).
template <typename F>
void AddSlope(KernelRegistry& registry, const char* op, F) {
  registry.Add(op, FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 const int64_t n = r.outputs[0].shape.num_elements();
                 for (int64_t i = 0; i < n; ++i) {
                   Store(a.out<T>(0), i, Load(a.in<T>(0), i) * F{}(Load(a.in<T>(1), i)));
                 }
                 return OkStatus();
               }));
}

void AddWithAttributes(KernelRegistry& registry) {
  registry.Add("scale", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 const double factor = r.attrs.Double("factor", 1),
                              offset = r.attrs.Double("offset");
                 const int64_t n = r.outputs[0].shape.num_elements();
                 for (int64_t i = 0; i < n; ++i) {
                   Store(a.out<T>(0), i, factor * Load(a.in<T>(0), i) + offset);
                 }
                 return OkStatus();
               }));
  registry.Add("gelu", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 const bool tanh = IsTanh(r);
                 const int64_t n = r.outputs[0].shape.num_elements();
                 for (int64_t i = 0; i < n; ++i)
                   Store(a.out<T>(0), i, Gelu(Load(a.in<T>(0), i), tanh));
                 return OkStatus();
               }));
  registry.Add("gelu_grad", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 const bool tanh = IsTanh(r);
                 const int64_t n = r.outputs[0].shape.num_elements();
                 for (int64_t i = 0; i < n; ++i) {
                   const double slope = GeluSlope(Load(a.in<T>(1), i), tanh);
                   Store(a.out<T>(0), i, Load(a.in<T>(0), i) * slope);
                 }
                 return OkStatus();
               }));
  // Not a product with 0 or 1, which would keep what is not finite in dy.
  registry.Add("relu_grad", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 const int64_t n = r.outputs[0].shape.num_elements();
                 for (int64_t i = 0; i < n; ++i) {
                   Store(a.out<T>(0), i, Load(a.in<T>(1), i) > 0 ? Load(a.in<T>(0), i) : 0.0);
                 }
                 return OkStatus();
               }));
}

// Whole numbers keep their lower bits, floats lose their fraction and stop at the ends of the
// range.
template <typename To, typename Wide>
To Converted(Wide value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != 0;
  } else if constexpr (!std::is_integral_v<To>) {
    if constexpr (std::is_arithmetic_v<To>) {
      return static_cast<To>(value);
    } else {
      return To(static_cast<float>(value));
    }
  } else if constexpr (std::is_integral_v<Wide>) {
    return static_cast<To>(value);
  } else {
    using Limits = std::numeric_limits<To>;
    if (std::isnan(value)) return 0;
    if (value <= static_cast<double>(Limits::min())) return Limits::min();
    if (value >= static_cast<double>(Limits::max())) return Limits::max();
    return static_cast<To>(value);
  }
}

Status Cast(const OpRequest& request, const KernelArgs& args) {
  return ForAny(request.inputs[0].dtype, [&]<typename From>() {
    return ForAny(request.outputs[0].dtype, [&]<typename To>() {
      const int64_t n = request.outputs[0].shape.num_elements();
      for (int64_t i = 0; i < n; ++i) {
        args.out<To>(0)[i] = Converted<To>(LoadWide(args.in<From>(0), i));
      }
      return OkStatus();
    });
  });
}

}  // namespace

void RegisterUnary(KernelRegistry& registry) {
  AddUnary(registry, "relu", [](double x) { return x < 0 ? 0.0 : x; });
  AddUnary(registry, "silu", [](double x) { return x * Sigmoid(x); });
  AddUnary(registry, "tanh", [](double x) { return std::tanh(x); });
  AddUnary(registry, "sigmoid", [](double x) { return Sigmoid(x); });
  AddUnary(registry, "exp", [](double x) { return std::exp(x); });
  AddUnary(registry, "log", [](double x) { return std::log(x); });
  AddUnary(registry, "sqrt", [](double x) { return std::sqrt(x); });
  AddUnary(registry, "reciprocal", [](double x) { return 1 / x; });
  AddSlope(registry, "tanh_grad", [](double y) { return 1 - y * y; });
  AddSlope(registry, "sigmoid_grad", [](double y) { return y * (1 - y); });
  AddSlope(registry, "sqrt_grad", [](double y) { return 0.5 / y; });
  AddSlope(registry, "silu_grad", [](double x) { return SiluSlope(x); });
  AddWithAttributes(registry);
  registry.Add("cast", StatelessKernel(Cast, "reference"));
}

}  // namespace oc::reference

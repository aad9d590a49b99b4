// Reference kernels compute in double whatever the dtype: a kernel is a template over the element
// type of its activations, and reads and writes through these.
//
//   template <typename T>
//   Status Relu(const OpRequest& request, const KernelArgs& args);
//   registry.Add("relu", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
//     return Relu<T>(r, a);
//   }));
#pragma once

#include <type_traits>

#include "openclaw/devices/host/kernel.h"

namespace oc::reference {

template <typename T>
double Load(const T* base, int64_t i) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<double>(base[i]);
  } else {
    return static_cast<float>(base[i]);
  }
}

template <typename T>
void Store(T* base, int64_t i, double value) {
  if constexpr (std::is_arithmetic_v<T>) {
    base[i] = static_cast<T>(value);
  } else {
    base[i] = T(static_cast<float>(value));
  }
}

// Overwrites, or adds to what is there: outputs that accumulate.
template <typename T>
void StoreOrAdd(T* base, int64_t i, double value, bool add) {
  Store(base, i, add ? Load(base, i) + value : value);
}

// A sum, in the type that the request wants it in, which may be wider than T (WithSumType);
// overwrites, or adds to what is there, as the request says.
inline void StoreSum(const OpRequest& request, const KernelArgs& args, int output, int64_t i,
                     double value) {
  const DType dtype = request.outputs[output].dtype;
  std::byte* const base = args.outputs[output];
  const bool add = (request.accumulate >> output & 1) != 0;
  StoreElement(dtype, base, i, add ? LoadElement(dtype, base, i) + value : value);
}

// The element type of statistics of activations of type T (ops.md).
template <typename T>
using StatisticsOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

// f's result for the C++ type of a float dtype.
template <typename F>
Status ForFloat(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kF32:
      return f.template operator()<float>();
    case DType::kF64:
      return f.template operator()<double>();
    case DType::kBF16:
      return f.template operator()<BF16>();
    case DType::kF16:
      return f.template operator()<F16>();
    default:
      return Unimplemented("no float dtype: ", Name(dtype));
  }
}

// The kernel of a function template over the dtype of input `operand`; f is a lambda without
// captures.
template <typename F>
KernelFactory FloatKernel(F, int operand = 0) {
  return [operand](const OpRequest& request, int threads) -> StatusOr<std::unique_ptr<HostKernel>> {
    KernelFunction function = nullptr;
    OC_RETURN_IF_ERROR(ForFloat(request.inputs[operand].dtype, [&]<typename T>() {
      function = [](const OpRequest& r, const KernelArgs& a) {
        return F{}.template operator()<T>(r, a);
      };
      return OkStatus();
    }));
    return StatelessKernel(function, "reference")(request, threads);
  };
}

}  // namespace oc::reference

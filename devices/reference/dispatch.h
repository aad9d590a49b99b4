// Beyond floats.h: integers and bools, and walks over strided elements.
#pragma once

#include <vector>

#include "openclaw/core/shape.h"
#include "openclaw/devices/reference/floats.h"
#include "openclaw/devices/strides.h"

namespace oc::reference {

// What a kernel computes in: double, and whole numbers exactly.
template <typename T>
using WideOf = std::conditional_t<std::is_integral_v<T>, int64_t, double>;

// f's result for the C++ type of a dtype of numbers.
template <typename F>
Status ForNumber(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kI32:
      return f.template operator()<int32_t>();
    case DType::kI64:
      return f.template operator()<int64_t>();
    case DType::kU8:
      return f.template operator()<uint8_t>();
    default:
      return ForFloat(dtype, f);
  }
}

template <typename F>
Status ForAny(DType dtype, const F& f) {
  return dtype == DType::kBool ? f.template operator()<bool>() : ForNumber(dtype, f);
}

template <typename T>
WideOf<T> LoadWide(const T* base, int64_t i) {
  if constexpr (std::is_integral_v<T>) {
    return base[i];
  } else {
    return Load(base, i);
  }
}

template <typename T>
void StoreWide(T* base, int64_t i, WideOf<T> value) {
  if constexpr (std::is_integral_v<T>) {
    base[i] = static_cast<T>(value);
  } else {
    Store(base, i, value);
  }
}

// Elements in row-major order of `sizes`, each `strides` apart.
struct Walk {
  std::vector<int64_t> sizes, strides;

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    return n;
  }
  int64_t Offset(int64_t i) const {
    int64_t offset = 0;
    for (size_t d = sizes.size(); d-- > 0;) {
      offset += i % sizes[d] * strides[d];
      i /= sizes[d];
    }
    return offset;
  }
};

}  // namespace oc::reference

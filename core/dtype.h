// Element types, and the two 16-bit floats that C++20 lacks.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "openclaw/core/status.h"

namespace oc {

// The values are stored in files: append only.
enum class DType : int32_t {
  kF32 = 1,
  kBF16 = 2,
  kF16 = 3,
  kF64 = 4,
  kI32 = 5,
  kI64 = 6,
  kU8 = 7,
  kBool = 8,
};

// Size of an element in bits: sub-byte types come with quantisation.
int SizeInBits(DType dtype);
inline int SizeInBytes(DType dtype) { return (SizeInBits(dtype) + 7) / 8; }
bool IsFloat(DType dtype);
// "f32", "bf16", ...
const char* Name(DType dtype);
// kInvalidArgument for an unknown name; it lists the known ones.
StatusOr<DType> ParseDType(const std::string& name);

// bfloat16: the upper half of a float, rounded to nearest even.
struct BF16 {
  uint16_t bits = 0;
  BF16() = default;
  explicit BF16(float f) {
    uint32_t u;
    std::memcpy(&u, &f, 4);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);  // a quiet NaN stays one
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const {
    const uint32_t u = static_cast<uint32_t>(bits) << 16;
    float f;
    std::memcpy(&f, &u, 4);
    return f;
  }
};

// IEEE binary16, rounded to nearest even, with denormals.
struct F16 {
  uint16_t bits = 0;
  F16() = default;
  explicit F16(float f);
  explicit operator float() const;
};

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<BF16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<F16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};

}  // namespace oc

#include "openclaw/comm/reduce.h"

#include <bit>
#include <type_traits>

// The build compiles this file with -O3. Wider registers are chosen when the library is loaded; a
// sanitizer's runtime is not up yet at that time, so those builds take the plain version.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define OC_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define OC_WIDE
#endif

namespace oc {
namespace {

// Branch-free forms of BF16 and F16 (core/dtype.h), so that loops over them vectorise. Bitwise
// equal to those, which a test checks over all values.
inline float Widen(BF16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }
inline void Narrow(float f, BF16* out) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const uint32_t nan = (u >> 16) | 0x40u;
  out->bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

inline float Widen(F16 x) {
  const uint32_t magnitude = x.bits & 0x7fffu;
  // Scaling by 2^112 moves the exponent's bias and normalises denormals.
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f);
  const uint32_t special = magnitude == 0x7c00u ? 0x7f800000u : 0x7fc00000u;
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  return std::bit_cast<float>((magnitude >= 0x7c00u ? special : finite) | sign);
}
inline void Narrow(float f, F16* out) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint32_t magnitude = u & 0x7fffffffu;
  const uint32_t sign = (u >> 16) & 0x8000u;
  const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  // Adding a half aligns a denormal's bits at the end of the mantissa, rounded to nearest even.
  const uint32_t denormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t large = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  uint32_t bits = magnitude < 0x38800000u ? denormal : normal;
  bits = magnitude >= 0x47800000u ? large : bits;
  out->bits = static_cast<uint16_t>(bits | sign);
}

template <ReduceOp kOp, typename T>
inline T Apply(T a, T b) {
  if constexpr (kOp == ReduceOp::kSum) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    } else {
      return a + b;
    }
  } else if constexpr (kOp == ReduceOp::kMax) {
    return (b > a) | (b != b) ? b : a;  // where a is NaN, b > a is false: it stays
  } else {
    return (b < a) | (b != b) ? b : a;
  }
}

template <ReduceOp kOp, typename T>
inline __attribute__((always_inline)) void Loop(T* __restrict into, const T* __restrict from,
                                                int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_arithmetic_v<T>) {
      into[i] = Apply<kOp>(into[i], from[i]);
    } else {
      Narrow(Apply<kOp>(Widen(into[i]), Widen(from[i])), &into[i]);
    }
  }
}

template <typename T>
inline __attribute__((always_inline)) void Switch(ReduceOp op, std::byte* into,
                                                  const std::byte* from, int64_t count) {
  T* a = reinterpret_cast<T*>(into);
  const T* b = reinterpret_cast<const T*>(from);
  switch (op) {
    case ReduceOp::kSum:
      return Loop<ReduceOp::kSum>(a, b, count);
    case ReduceOp::kMax:
      return Loop<ReduceOp::kMax>(a, b, count);
    case ReduceOp::kMin:
      return Loop<ReduceOp::kMin>(a, b, count);
  }
}

OC_WIDE void ReduceF32(ReduceOp op, std::byte* a, const std::byte* b, int64_t n) {
  Switch<float>(op, a, b, n);
}
OC_WIDE void ReduceF64(ReduceOp op, std::byte* a, const std::byte* b, int64_t n) {
  Switch<double>(op, a, b, n);
}
OC_WIDE void ReduceBF16(ReduceOp op, std::byte* a, const std::byte* b, int64_t n) {
  Switch<BF16>(op, a, b, n);
}
OC_WIDE void ReduceF16(ReduceOp op, std::byte* a, const std::byte* b, int64_t n) {
  Switch<F16>(op, a, b, n);
}
OC_WIDE void ReduceI32(ReduceOp op, std::byte* a, const std::byte* b, int64_t n) {
  Switch<int32_t>(op, a, b, n);
}
OC_WIDE void ReduceI64(ReduceOp op, std::byte* a, const std::byte* b, int64_t n) {
  Switch<int64_t>(op, a, b, n);
}

}  // namespace

const char* Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kMin:
      return "min";
  }
  return "?";
}

bool CanReduce(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
    case DType::kBF16:
    case DType::kF16:
    case DType::kI32:
    case DType::kI64:
      return true;
    default:
      return false;
  }
}

void Reduce(DType dtype, ReduceOp op, std::byte* into, const std::byte* from, int64_t count) {
  switch (dtype) {
    case DType::kF32:
      return ReduceF32(op, into, from, count);
    case DType::kF64:
      return ReduceF64(op, into, from, count);
    case DType::kBF16:
      return ReduceBF16(op, into, from, count);
    case DType::kF16:
      return ReduceF16(op, into, from, count);
    case DType::kI32:
      return ReduceI32(op, into, from, count);
    case DType::kI64:
      return ReduceI64(op, into, from, count);
    default:
      OC_CHECK(false, "cannot reduce ", Name(dtype));
  }
}

}  // namespace oc

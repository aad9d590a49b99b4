// Elements of views as doubles and as whole numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "objects.h"

namespace ascend_emulator {

inline float FromHalf(uint16_t h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  const float sign = (h & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

// To nearest, ties to even: of a value v = m * 2^e with few bits of m.
inline uint16_t ToHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double v = std::fabs(value);
  if (std::isnan(v)) return 0x7E00;
  if (v >= 65520) return sign | 0x7C00;
  if (v == 0) return sign;
  int exponent = 0;
  std::frexp(v, &exponent);
  exponent = std::max(exponent, -13);  // below, steps are 2^-24
  const double steps = std::nearbyint(std::ldexp(v, 11 - exponent));
  // 1024 to 2048 steps; the carry of 2048 goes into the exponent by itself.
  const int bits = static_cast<int>(steps) + (exponent + 13) * 1024;
  return static_cast<uint16_t>(sign | bits);
}

inline uint16_t ToBrain(double value) {
  const auto f = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &f, sizeof(bits));
  if (std::isnan(f)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  bits += 0x7FFF + (bits >> 16 & 1);
  return static_cast<uint16_t>(bits >> 16);
}

template <typename T>
T Read(const View& v, int64_t at) {
  T value;
  std::memcpy(&value, v.data + at * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <typename T>
void Write(const View& v, int64_t at, T value) {
  std::memcpy(v.data + at * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

// Without a fraction, within the type.
template <typename T>
T Truncate(double value) {
  if (std::isnan(value)) return 0;
  constexpr auto kLowest = static_cast<double>(std::numeric_limits<T>::lowest());
  constexpr auto kLargest = static_cast<double>(std::numeric_limits<T>::max());
  if (value <= kLowest) return std::numeric_limits<T>::lowest();
  if (value >= kLargest) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

inline bool IsWhole(int32_t dtype) {
  return dtype == kAclInt32 || dtype == kAclInt64 || dtype == kAclUint8 || dtype == kAclBool;
}

inline int64_t LoadWhole(const View& v, int64_t at);
inline void Store(const View& v, int64_t at, double value);

inline double Load(const View& v, int64_t at) {
  switch (v.dtype) {
    case kAclFloat:
      return Read<float>(v, at);
    case kAclDouble:
      return Read<double>(v, at);
    case kAclFloat16:
      return FromHalf(Read<uint16_t>(v, at));
    case kAclBf16: {
      const uint32_t bits = static_cast<uint32_t>(Read<uint16_t>(v, at)) << 16;
      float f = 0;
      std::memcpy(&f, &bits, sizeof(f));
      return f;
    }
    default:
      return static_cast<double>(LoadWhole(v, at));
  }
}

inline int64_t LoadWhole(const View& v, int64_t at) {
  switch (v.dtype) {
    case kAclInt32:
      return Read<int32_t>(v, at);
    case kAclInt64:
      return Read<int64_t>(v, at);
    case kAclUint8:
      return Read<uint8_t>(v, at);
    case kAclBool:
      return Read<uint8_t>(v, at) != 0 ? 1 : 0;
    default:
      return Truncate<int64_t>(Load(v, at));
  }
}

inline void Store(const View& v, int64_t at, double value) {
  switch (v.dtype) {
    case kAclFloat:
      return Write(v, at, static_cast<float>(value));
    case kAclDouble:
      return Write(v, at, value);
    case kAclFloat16:
      return Write(v, at, ToHalf(static_cast<float>(value)));
    case kAclBf16:
      return Write(v, at, ToBrain(value));
    case kAclInt32:
      return Write(v, at, Truncate<int32_t>(value));
    case kAclInt64:
      return Write(v, at, Truncate<int64_t>(value));
    case kAclUint8:
      return Write(v, at, Truncate<uint8_t>(value));
    default:
      return Write(v, at, static_cast<uint8_t>(value != 0 ? 1 : 0));
  }
}

inline void StoreWhole(const View& v, int64_t at, int64_t value) {
  switch (v.dtype) {
    case kAclInt32:
      return Write(v, at, static_cast<int32_t>(value));
    case kAclInt64:
      return Write(v, at, value);
    case kAclUint8:
      return Write(v, at, static_cast<uint8_t>(value));
    case kAclBool:
      return Write(v, at, static_cast<uint8_t>(value != 0 ? 1 : 0));
    default:
      return Store(v, at, static_cast<double>(value));
  }
}

}  // namespace ascend_emulator

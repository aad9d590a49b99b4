#include "openclaw/core/dtype.h"

#include <cmath>

namespace oc {
namespace {
struct Entry {
  DType dtype;
  const char* name;
  int bits;
  bool is_float;
};
constexpr Entry kEntries[] = {
    {DType::kF32, "f32", 32, true},  {DType::kBF16, "bf16", 16, true},
    {DType::kF16, "f16", 16, true},  {DType::kF64, "f64", 64, true},
    {DType::kI32, "i32", 32, false}, {DType::kI64, "i64", 64, false},
    {DType::kU8, "u8", 8, false},    {DType::kBool, "bool", 8, false},
};
const Entry& Find(DType dtype) {
  for (const Entry& e : kEntries) {
    if (e.dtype == dtype) return e;
  }
  CheckFailed(__FILE__, __LINE__, "known dtype", absl::StrCat(static_cast<int>(dtype)));
}
}  // namespace

int SizeInBits(DType dtype) { return Find(dtype).bits; }
bool IsFloat(DType dtype) { return Find(dtype).is_float; }
const char* Name(DType dtype) { return Find(dtype).name; }

StatusOr<DType> ParseDType(const std::string& name) {
  std::string known;
  for (const Entry& e : kEntries) {
    if (name == e.name) return e.dtype;
    absl::StrAppend(&known, known.empty() ? "" : ", ", e.name);
  }
  return InvalidArgument("unknown dtype '", name, "'; known: ", known);
}

F16::F16(float f) {
  uint32_t u;
  std::memcpy(&u, &f, 4);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    bits = sign | 0x7e00u;
  } else if (magnitude >= 0x47800000u) {  // 65536 and above, infinity
    bits = sign | 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: a denormal, in units of 2^-24
    const float scaled = std::fabs(f) * 16777216.0f;
    bits = static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(scaled)));
  } else {
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    bits = static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
  }
}

F16::operator float() const {
  // Exponent and mantissa in a float's places, whose exponent is too small by 112 then; a
  // denormal's too.
  uint32_t u = static_cast<uint32_t>(bits & 0x7fffu) << 13;
  float value;
  std::memcpy(&value, &u, 4);
  value *= 0x1p112f;
  std::memcpy(&u, &value, 4);
  if ((bits & 0x7c00u) == 0x7c00u) u = 0x7f800000u | static_cast<uint32_t>(bits & 0x3ffu) << 13;
  u |= static_cast<uint32_t>(bits & 0x8000u) << 16;
  std::memcpy(&value, &u, 4);
  return value;
}

}  // namespace oc

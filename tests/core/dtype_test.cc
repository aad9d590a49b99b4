#include "openclaw/core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "openclaw/core/tensor.h"

namespace oc {
namespace {

F16 HalfOf(uint32_t bits) {
  F16 h;
  h.bits = static_cast<uint16_t>(bits);
  return h;
}

BF16 BrainOf(uint32_t bits) {
  BF16 b;
  b.bits = static_cast<uint16_t>(bits);
  return b;
}

// By the definition of IEEE binary16.
double HalfValue(uint32_t bits) {
  const uint32_t exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * mantissa * std::pow(2.0, -24);
  return sign * (1.0 + mantissa / 1024.0) * std::pow(2.0, static_cast<int>(exponent) - 15);
}

TEST(F16, EveryValueConverts) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto f = static_cast<float>(HalfOf(bits));
    const double expected = HalfValue(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(f)) << bits;
      EXPECT_TRUE(std::isnan(static_cast<float>(F16(f)))) << bits;
      continue;
    }
    ASSERT_EQ(f, expected) << bits;
    ASSERT_EQ(std::signbit(f), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(F16(f).bits, bits);
  }
}

// Around the middle of every pair of neighbours: the nearer one, at the middle the even one.
TEST(F16, EveryRoundingIsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const double low = HalfValue(bits);
    const double high = bits + 1 == 0x7c00 ? 65536.0 : HalfValue(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);  // exact
    const uint32_t even = (bits & 1) == 0 ? bits : bits + 1;
    for (const float sign : {1.0f, -1.0f}) {
      const uint32_t sign_bit = sign < 0 ? 0x8000 : 0;
      ASSERT_EQ(F16(sign * middle).bits, sign_bit | even) << bits;
      ASSERT_EQ(F16(sign * std::nextafter(middle, 0.0f)).bits, sign_bit | bits) << bits;
      ASSERT_EQ(F16(sign * std::nextafter(middle, INFINITY)).bits, sign_bit | (bits + 1)) << bits;
    }
  }
  EXPECT_EQ(F16(std::numeric_limits<float>::max()).bits, 0x7c00);
  EXPECT_EQ(F16(INFINITY).bits, 0x7c00);
  EXPECT_EQ(F16(-INFINITY).bits, 0xfc00);
  EXPECT_EQ(F16(std::numeric_limits<float>::denorm_min()).bits, 0);
}

TEST(BF16, EveryValueConvertsAndEveryRoundingIsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const auto f = static_cast<float>(BrainOf(bits));
    ASSERT_EQ(BF16(f).bits, bits);
    ASSERT_EQ(BF16(-f).bits, 0x8000 | bits);
    const uint32_t middle = (bits << 16) | 0x8000;
    const auto at = [](uint32_t u) {
      float x;
      std::memcpy(&x, &u, 4);
      return x;
    };
    ASSERT_EQ(BF16(at(middle)).bits, (bits & 1) == 0 ? bits : bits + 1);
    ASSERT_EQ(BF16(at(middle - 1)).bits, bits);
    ASSERT_EQ(BF16(at(middle + 1)).bits, bits + 1);
  }
  EXPECT_EQ(BF16(INFINITY).bits, 0x7f80);
  for (const uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu}) {
    float f;
    std::memcpy(&f, &nan, 4);
    EXPECT_TRUE(std::isnan(static_cast<float>(BF16(f)))) << nan;
  }
}

TEST(DType, NamesParse) {
  for (int i = 1; i <= 8; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(*ParseDType(Name(dtype)), dtype);
  }
  EXPECT_EQ(SizeInBytes(DType::kBF16), 2);
  EXPECT_EQ(SizeInBytes(DType::kF64), 8);
  EXPECT_FALSE(IsFloat(DType::kBool));
  const auto unknown = ParseDType("f23");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.status().ToString().find("bf16"), std::string::npos);
}

TEST(Tensor, ElementsOfEveryDType) {
  for (int i = 1; i <= 8; ++i) {
    Tensor t({static_cast<DType>(i), {3}});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.bytes().data()) % 64, 0u);
    EXPECT_EQ(t.at(2), 0);
    t.set(1, 1);
    EXPECT_EQ(t.at(0), 0);
    EXPECT_EQ(t.at(1), 1);
    EXPECT_EQ(t.at(2), 0);
  }
}

TEST(TensorType, TextAndBytes) {
  const TensorType type = {DType::kBF16, {Dim("B"), 4}};
  EXPECT_EQ(type.ToString(), "bf16[B, 4]");
  EXPECT_EQ(*TensorType::Parse("bf16[B, 4]"), type);
  EXPECT_EQ(type.Bind({{"B", 3}}).bytes(), 24);
  for (const char* bad : {"", "bf16", "bf16[", "f99[1]", "[1]", "f32[1", "f32[-1]", "f32[1,]"}) {
    EXPECT_FALSE(TensorType::Parse(bad).ok()) << bad;
  }
  const TensorType absurd = {DType::kF64, {int64_t{1} << 40, int64_t{1} << 40}};
  EXPECT_EQ(absurd.bytes(), INT64_MAX);
}

}  // namespace
}  // namespace oc

// The vectorised functions against libm in double, over the whole range, on each instruction set.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "openclaw/devices/cpu/native/elementwise_loops.h"

namespace oc::cpu {
namespace {

struct IsaUnderTest {
  const char* name;
  const ElementwiseLoops* loops;
};
std::vector<IsaUnderTest> Isas() {
  std::vector<IsaUnderTest> isas;
  if (ActiveIsa() != Isa::kNone) isas.push_back({"v3", &v3::kElementwiseLoops});
  if (ActiveIsa() == Isa::kV4) isas.push_back({"v4", &v4::kElementwiseLoops});
  return isas;
}

// In units of the last place of the float next to `expected`; below the smallest normal number, of
// that.
double UlpError(float actual, double expected) {
  if (std::isnan(expected)) return std::isnan(actual) ? 0 : 1e9;
  const float nearest = static_cast<float>(expected);
  if (std::isinf(nearest) || std::isinf(actual)) {
    // The largest number or infinity, where rounding decides.
    return nearest == actual || std::abs(expected) > 3.4028234e38 ? 0 : 1e9;
  }
  int exponent;
  std::frexp(expected, &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::abs(actual - expected) / ulp;
}

// About 2^20 floats: every exponent and sign, and mantissas spread.
std::vector<float> Floats() {
  std::vector<float> values;
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += 4093) {
    const uint32_t u = static_cast<uint32_t>(bits);
    float f;
    std::memcpy(&f, &u, 4);
    values.push_back(f);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  for (float f : {0.0f, -0.0f, infinity, -infinity, std::nanf(""), 1.0f, 88.72283f, -87.33655f}) {
    values.push_back(f);
  }
  return values;
}

void Check(Unary op, double (*function)(double), double bound, float low, float high) {
  std::vector<float> x;
  for (float f : Floats()) {
    if (std::isnan(f) || (f >= low && f <= high)) x.push_back(f);
  }
  // Where the function is neither 0 nor 1: densely.
  for (int i = -200000; i <= 200000; ++i) {
    const float f = static_cast<float>(i) * 5e-4f;
    if (f >= low && f <= high) x.push_back(f);
  }
  for (const IsaUnderTest& isa : Isas()) {
    std::vector<float> y(x.size());
    isa.loops->unary[static_cast<int>(op)][kFloat32](x.data(), y.data(),
                                                     static_cast<int64_t>(x.size()), 1, 0);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = UlpError(y[i], function(x[i]));
      if (error > worst) {
        worst = error;
        at = i;
      }
    }
    EXPECT_LE(worst, bound) << isa.name << " at " << x[at] << ": " << y[at] << ", wants "
                            << function(x[at]);
    std::printf("%s: %.2f ulp\n", isa.name, worst);
  }
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(VectorMathTest, Exp) {
  Check(
      Unary::kExp, [](double x) { return std::exp(x); }, 1.5, -kInfinity, kInfinity);
}
TEST(VectorMathTest, Log) {
  Check(
      Unary::kLog, [](double x) { return std::log(x); }, 1.5, -kInfinity, kInfinity);
}
TEST(VectorMathTest, Tanh) {
  Check(
      Unary::kTanh, [](double x) { return std::tanh(x); }, 3, -kInfinity, kInfinity);
}
// Below -87 the result is a denormal quotient.
TEST(VectorMathTest, Sigmoid) {
  Check(
      Unary::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 3, -87, kInfinity);
}
TEST(VectorMathTest, Erf) {
  Check(
      Unary::kErf, [](double x) { return std::erf(x); }, 1.5, -kInfinity, kInfinity);
}

// Rounding to nearest even, and NaNs that stay NaNs, also in the tail of a vector.
TEST(VectorMathTest, BFloat16RoundsAsCore) {
  std::vector<float> x = Floats();
  for (uint32_t u = 0x3f800000u; u < 0x3f840000u; u += 0x1000u) {
    float f;
    std::memcpy(&f, &u, 4);
    x.push_back(f);
  }
  for (const IsaUnderTest& isa : Isas()) {
    for (const size_t n : {x.size(), size_t{1}, size_t{13}, size_t{37}}) {
      const float* from = x.data() + x.size() - n;
      std::vector<uint16_t> y(n + 1, 0xabcd);
      isa.loops->cast[kCastF32][kCastBF16](from, y.data(), static_cast<int64_t>(n));
      for (size_t i = 0; i < n; ++i) {
        uint32_t u;
        std::memcpy(&u, from + i, 4);
        const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
        const uint32_t wants = nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
        ASSERT_EQ(y[i], wants) << isa.name << " " << from[i];
      }
      EXPECT_EQ(y[n], 0xabcd);
    }
  }
}

}  // namespace
}  // namespace oc::cpu

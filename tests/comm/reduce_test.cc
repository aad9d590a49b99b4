#include "openclaw/comm/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "openclaw/core/tensor.h"

namespace oc {
namespace {

template <typename T>
void Apply(ReduceOp op, std::vector<T>& into, const std::vector<T>& from) {
  Reduce(DTypeOf<T>::value, op, reinterpret_cast<std::byte*>(into.data()),
         reinterpret_cast<const std::byte*>(from.data()), static_cast<int64_t>(into.size()));
}

// All 65536 values against all of a few others: the vector forms agree with core/dtype.h.
template <typename T>
void CheckHalves() {
  const float others[] = {0.0f,     -0.0f, 1.0f,  -1.5f,  3e-8f, 6.1e-5f,
                          65504.0f, -4e4f, 1e30f, -3e38f, 0.1f,  INFINITY};
  for (const float other : others) {
    std::vector<T> into(65536), from(65536, T(other)), before;
    for (int i = 0; i < 65536; ++i) into[i].bits = static_cast<uint16_t>(i);
    before = into;
    Apply(ReduceOp::kSum, into, from);
    for (int i = 0; i < 65536; ++i) {
      const float sum = static_cast<float>(before[i]) + static_cast<float>(from[i]);
      if (std::isnan(sum)) {
        EXPECT_TRUE(std::isnan(static_cast<float>(into[i]))) << i << " + " << other;
      } else {
        ASSERT_EQ(into[i].bits, T(sum).bits) << i << " + " << other;
      }
    }
  }
}
TEST(Reduce, BF16AgreesWithCore) { CheckHalves<BF16>(); }
TEST(Reduce, F16AgreesWithCore) { CheckHalves<F16>(); }

TEST(Reduce, MaximumAndMinimumKeepNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> a = {1, nan, 3, nan, -2, 9, 1, 5, nan};
  const std::vector<float> b = {2, 1, nan, nan, -3, 9, 0, 7, 2};
  std::vector<float> low = a;
  Apply(ReduceOp::kMax, a, b);
  Apply(ReduceOp::kMin, low, b);
  const std::vector<float> max = {2, nan, nan, nan, -2, 9, 1, 7, nan};
  const std::vector<float> min = {1, nan, nan, nan, -3, 9, 0, 5, nan};
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(max[i])) {
      EXPECT_TRUE(std::isnan(a[i]) && std::isnan(low[i])) << i;
    } else {
      EXPECT_EQ(a[i], max[i]) << i;
      EXPECT_EQ(low[i], min[i]) << i;
    }
  }
}

TEST(Reduce, IntegersWrap) {
  std::vector<int32_t> a(17, std::numeric_limits<int32_t>::max());
  Apply(ReduceOp::kSum, a, std::vector<int32_t>(17, 1));
  for (const int32_t v : a) EXPECT_EQ(v, std::numeric_limits<int32_t>::min());
}

TEST(Reduce, KnowsWhatItCannot) {
  EXPECT_FALSE(CanReduce(DType::kU8));
  EXPECT_FALSE(CanReduce(DType::kBool));
  EXPECT_TRUE(CanReduce(DType::kF16));
}

}  // namespace
}  // namespace oc

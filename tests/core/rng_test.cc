#include "openclaw/core/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

namespace oc {
namespace {

// The known answers that come with Random123 for philox4x32, 10 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox(0).Block(0, 0), (Philox::Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(~uint64_t{0}).Block(~uint64_t{0}, ~uint64_t{0}),
            (Philox::Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox(0x299f31d0a4093822).Block(0x0370734413198a2e, 0x85a308d3243f6a88),
            (Philox::Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, WordIsTheBlocksWord) {
  const Philox rng(42);
  for (uint64_t i = 0; i < 100; ++i) EXPECT_EQ(rng.Word(7, i), rng.Block(7, i / 4)[i % 4]);
}

TEST(UniformFloat, IsInTheHalfOpenRange) {
  EXPECT_EQ(UniformFloat(0), 0.0f);
  EXPECT_LT(UniformFloat(0xffffffff), 1.0f);
  EXPECT_EQ(UniformFloat(0x80000000), 0.5f);
}

// The library's own logarithm, sine and cosine against the C library's in long double.
TEST(Normal, IsBoxMullerOfTheWords) {
  const Philox rng(3);
  for (uint64_t i = 0; i < 20000; i += 2) {
    const long double u = (rng.Word(9, i) + 0.5L) / 4294967296.0L;
    const long double turn = (rng.Word(9, i + 1) + 0.5L) / 4294967296.0L;
    const long double radius = sqrtl(-2 * logl(u));
    const long double angle = 2 * acosl(-1.0L) * turn;
    // Absolute, in units of the radius: near a zero the argument's own rounding weighs.
    ASSERT_NEAR(Normal(rng, 9, i), static_cast<double>(radius * cosl(angle)), 4e-15);
    ASSERT_NEAR(Normal(rng, 9, i + 1), static_cast<double>(radius * sinl(angle)), 4e-15);
  }
}

TEST(Normal, BlockGivesTheSameBits) {
  const Philox rng(3);
  for (uint64_t block = 0; block < 1000; ++block) {
    const auto four = NormalBlock(rng, 5, block);
    for (uint64_t k = 0; k < 4; ++k) EXPECT_EQ(four[k], Normal(rng, 5, block * 4 + k));
  }
}

TEST(Normal, HasTheMomentsOfTheStandardNormal) {
  const Philox rng(11);
  constexpr int kCount = 200000;
  double sum = 0, squares = 0, fourth = 0, beyond_two = 0;
  for (uint64_t block = 0; block < kCount / 4; ++block) {
    for (double x : NormalBlock(rng, 1, block)) {
      sum += x;
      squares += x * x;
      fourth += x * x * x * x;
      beyond_two += std::fabs(x) > 2 ? 1 : 0;
    }
  }
  // Four standard errors each.
  EXPECT_NEAR(sum / kCount, 0, 4 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1, 4 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(fourth / kCount, 3, 4 * std::sqrt(96.0 / kCount));
  EXPECT_NEAR(beyond_two / kCount, 0.0455, 4 * std::sqrt(0.0455 / kCount));
}

TEST(StreamOf, IsFnv1a) {
  // Published values of 64-bit FNV-1a.
  EXPECT_EQ(StreamOf("", 0), 0xcbf29ce484222325u);
  EXPECT_EQ(StreamOf("a", 1), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(StreamOf("foobar", 6), 0x85944171f73967e8u);
}

TEST(PermutedIndex, IsAPermutation) {
  for (const uint64_t n : {1, 2, 3, 4, 5, 7, 16, 17, 100, 1000, 4096, 4097, 60000}) {
    std::vector<bool> seen(n, false);
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t p = PermutedIndex(i, n, 5, 2);
      ASSERT_LT(p, n);
      ASSERT_FALSE(seen[p]) << n;
      seen[p] = true;
    }
  }
}

TEST(PermutedIndex, DependsOnSeedAndEpochAndMovesMost) {
  constexpr uint64_t n = 1000;
  int fixed = 0, same_epoch = 0, same_seed = 0;
  double distance = 0;
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t p = PermutedIndex(i, n, 1, 0);
    fixed += p == i ? 1 : 0;
    same_epoch += p == PermutedIndex(i, n, 1, 1) ? 1 : 0;
    same_seed += p == PermutedIndex(i, n, 2, 0) ? 1 : 0;
    distance += std::fabs(static_cast<double>(p) - static_cast<double>(i));
  }
  EXPECT_LT(fixed, 10);
  EXPECT_LT(same_epoch, 10);
  EXPECT_LT(same_seed, 10);
  EXPECT_NEAR(distance / n, n / 3.0, 40);  // of a random permutation
}

TEST(PermutedIndex, LargeSizesNeedNoMemory) {
  constexpr uint64_t n = (uint64_t{1} << 40) + 12345;
  std::set<uint64_t> images;
  for (uint64_t i = 0; i < 1000; ++i) images.insert(PermutedIndex(i, n, 9, 9));
  EXPECT_EQ(images.size(), 1000u);
  EXPECT_LT(*images.rbegin(), n);
}

}  // namespace
}  // namespace oc

// The loops around convolutions against plain ones, on each instruction set: nine taps, which have
// loops of their own, and six; numbers of channels with and without a rest.
#include "openclaw/devices/cpu/native/patch_loops.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "openclaw/devices/cpu/native/weight_loops.h"

namespace oc::cpu {
namespace {

struct IsaUnderTest {
  const char* name;
  const PatchLoops* loops;
  const WeightLoops* weight_loops;
};
std::vector<IsaUnderTest> Isas() {
  std::vector<IsaUnderTest> isas;
  if (ActiveIsa() != Isa::kNone) isas.push_back({"v3", &v3::kPatchLoops, &v3::kWeightLoops});
  if (ActiveIsa() == Isa::kV4) isas.push_back({"v4", &v4::kPatchLoops, &v4::kWeightLoops});
  return isas;
}

// Small whole numbers: what bf16 holds, and sums of a few of them.
template <typename T>
struct Type;
template <>
struct Type<float> {
  static constexpr FloatKind kKind = kFloat32;
  static float Of(int x) { return static_cast<float>(x); }
  static float Value(float x) { return x; }
};
template <>
struct Type<uint16_t> {
  static constexpr FloatKind kKind = kBFloat16;
  static uint16_t Of(int x) {
    const auto f = static_cast<float>(x);
    uint32_t bits;
    std::memcpy(&bits, &f, 4);
    return static_cast<uint16_t>(bits >> 16);
  }
  static float Value(uint16_t x) {
    const uint32_t bits = static_cast<uint32_t>(x) << 16;
    float f;
    std::memcpy(&f, &bits, 4);
    return f;
  }
};

// -most to most.
template <typename T>
std::vector<T> Numbers(int64_t n, int most = 50) {
  std::vector<T> numbers;
  for (int64_t i = 0; i < n; ++i) {
    numbers.push_back(Type<T>::Of(static_cast<int>(i * 37 % (2 * most + 1)) - most));
  }
  return numbers;
}

template <typename T>
class PatchLoopsTest : public ::testing::Test {};
using Types = ::testing::Types<float, uint16_t>;
TYPED_TEST_SUITE(PatchLoopsTest, Types);

TYPED_TEST(PatchLoopsTest, RowsOfTapsAndBack) {
  using T = Type<TypeParam>;
  constexpr int64_t kOut = 4, kBegin = 1, kEnd = 3;
  for (const auto& [name, loops, weight_loops] : Isas()) {
    for (const int64_t taps : {9, 6, 1}) {
      for (const int64_t in : {1, 8, 16, 40, 53}) {
        SCOPED_TRACE(::testing::Message() << name << ", " << taps << " taps, " << in);
        const auto weights = Numbers<TypeParam>(kOut * in * taps);
        std::vector<TypeParam> rows(weights.size(), T::Of(99)), back(rows), added(weights);
        loops->pack[T::kKind](weights.data(), rows.data(), in, taps, kBegin, kEnd);
        loops->unpack[T::kKind](rows.data(), back.data(), in, in, taps, kBegin, kEnd, false);
        loops->unpack[T::kKind](rows.data(), added.data(), in, in, taps, kBegin, kEnd, true);
        for (int64_t o = 0; o < kOut; ++o) {
          const bool own = o >= kBegin && o < kEnd;
          for (int64_t i = 0; i < in; ++i) {
            for (int64_t t = 0; t < taps; ++t) {
              const auto at = static_cast<size_t>((o * in + i) * taps + t);
              const auto packed = static_cast<size_t>((o * taps + t) * in + i);
              const float value = T::Value(weights[at]);
              ASSERT_EQ(T::Value(rows[packed]), own ? value : 99);
              ASSERT_EQ(T::Value(back[at]), own ? value : 99);
              ASSERT_EQ(T::Value(added[at]), own ? 2 * value : value);
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(PatchLoopsTest, Blocks) {
  using T = Type<TypeParam>;
  constexpr int64_t kOut = 48, kIn = 32, kBegin = 1, kEnd = 3;
  for (const auto& [name, patch_loops, loops] : Isas()) {
    for (const int64_t taps : {9, 6}) {
      SCOPED_TRACE(::testing::Message() << name << ", " << taps << " taps");
      const auto weights = Numbers<TypeParam>(kOut * kIn * taps);
      std::vector<TypeParam> blocks(weights.size(), T::Of(99));
      loops->block[T::kKind](weights.data(), blocks.data(), kIn, taps, kBegin, kEnd);
      for (int64_t o = 0; o < kOut; ++o) {
        const bool own = o / 16 >= kBegin && o / 16 < kEnd;
        for (int64_t i = 0; i < kIn; ++i) {
          for (int64_t t = 0; t < taps; ++t) {
            const int64_t block = ((o / 16 * (kIn / 16) + i / 16) * taps + t) * 256;
            const int64_t within = T::kKind == kFloat32 ? o % 16 * 16 + i % 16
                                                        : (o % 16 / 2 * 16 + i % 16) * 2 + o % 2;
            ASSERT_EQ(T::Value(blocks[static_cast<size_t>(block + within)]),
                      own ? T::Value(weights[static_cast<size_t>((o * kIn + i) * taps + t)]) : 99);
          }
        }
      }
    }
  }
}

TYPED_TEST(PatchLoopsTest, Columns) {
  using T = Type<TypeParam>;
  constexpr int64_t kOut = 128, kIn = 32, kBegin = 1, kEnd = 7;
  constexpr int64_t kWord = 4 / sizeof(TypeParam);  // inputs side by side
  for (const auto& [name, patch_loops, loops] : Isas()) {
    for (const int64_t taps : {9, 6, 1}) {
      for (const int64_t width : {16, 32, 64}) {
        SCOPED_TRACE(::testing::Message() << name << ", " << taps << " taps, " << width);
        const auto weights = Numbers<TypeParam>(kOut * kIn * taps);
        std::vector<TypeParam> columns(weights.size(), T::Of(99));
        loops->columns[T::kKind](weights.data(), columns.data(), kIn, taps, width, kBegin, kEnd);
        for (int64_t o = 0; o < kOut; ++o) {
          const bool own = o / 16 >= kBegin && o / 16 < kEnd;
          for (int64_t i = 0; i < kIn; ++i) {
            for (int64_t t = 0; t < taps; ++t) {
              const int64_t row = (o / width * taps + t) * (kIn / kWord) + i / kWord;
              const int64_t at = (row * width + o % width) * kWord + i % kWord;
              ASSERT_EQ(
                  T::Value(columns[static_cast<size_t>(at)]),
                  own ? T::Value(weights[static_cast<size_t>((o * kIn + i) * taps + t)]) : 99);
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(PatchLoopsTest, CollectsPartialSums) {
  using T = Type<TypeParam>;
  constexpr int64_t kOut = 48, kIn = 32, kBegin = 1, kEnd = 3, kGap = 16;
  for (const auto& [name, patch_loops, loops] : Isas()) {
    for (const int64_t taps : {9, 1}) {
      for (const int64_t count : {1, 3}) {
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(::testing::Message()
                       << name << ", " << taps << " taps, " << count << " sums");
          const int64_t size = kOut * kIn * taps, stride = size + kGap;
          const auto partial = Numbers<float>(count * stride, 20);
          std::vector<TypeParam> weights(static_cast<size_t>(size), T::Of(99));
          loops->collect[T::kKind]({partial.data(), count, stride}, weights.data(), kIn, taps,
                                   kBegin, kEnd, accumulate);
          for (int64_t o = 0; o < kOut; ++o) {
            const bool own = o / 16 >= kBegin && o / 16 < kEnd;
            for (int64_t i = 0; i < kIn; ++i) {
              for (int64_t t = 0; t < taps; ++t) {
                const int64_t block = ((o / 16 * (kIn / 16) + i / 16) * taps + t) * 256;
                float sum = own && !accumulate ? 0 : 99;
                for (int64_t p = 0; own && p < count; ++p) {
                  sum += partial[static_cast<size_t>(p * stride + block + i % 16 * 16 + o % 16)];
                }
                ASSERT_EQ(T::Value(weights[static_cast<size_t>((o * kIn + i) * taps + t)]), sum);
              }
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(PatchLoopsTest, Folds) {
  using T = Type<TypeParam>;
  for (const auto& [name, loops, weight_loops] : Isas()) {
    for (const int64_t kernel_w : {3, 2}) {
      for (const int64_t channels : {5, 16, 39}) {
        SCOPED_TRACE(::testing::Message() << name << ", " << kernel_w << ", " << channels);
        const PatchAxis h{
            .input = 6, .output = 3, .kernel = 3, .stride = 2, .before = 1, .dilation = 1};
        const PatchAxis w{
            .input = 5, .output = 4, .kernel = kernel_w, .stride = 1, .before = 2, .dilation = 2};
        const int64_t taps = h.kernel * w.kernel, row = channels * taps + 3, pixel = channels + 7;
        const int64_t pixels = h.input * w.input;
        const auto product = Numbers<float>(h.output * w.output * row, 5);
        std::vector<float> expected(static_cast<size_t>(pixels * channels)), sums(expected);
        for (int64_t p = 0; p < h.output * w.output; ++p) {
          for (int64_t t = 0; t < taps; ++t) {
            const int64_t y = p / w.output * h.stride - h.before + t / w.kernel * h.dilation;
            const int64_t x = p % w.output * w.stride - w.before + t % w.kernel * w.dilation;
            if (y < 0 || y >= h.input || x < 0 || x >= w.input) continue;
            for (int64_t i = 0; i < channels; ++i) {
              expected[static_cast<size_t>((y * w.input + x) * channels + i)] +=
                  product[static_cast<size_t>(p * row + i * taps + t)];
            }
          }
        }
        std::vector<TypeParam> image(static_cast<size_t>(pixels * pixel), T::Of(99));
        loops->fold[T::kKind]({h, w, channels}, product.data(), row, sums.data(), image.data(),
                              pixel);
        for (int64_t p = 0; p < pixels; ++p) {
          for (int64_t i = 0; i < pixel; ++i) {
            const float value = T::Value(image[static_cast<size_t>(p * pixel + i)]);
            if (i >= channels) {
              ASSERT_EQ(value, 99);
            } else {
              ASSERT_EQ(value, expected[static_cast<size_t>(p * channels + i)]) << p << " " << i;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace oc::cpu

#include "openclaw/runtime/data/synthetic.h"

#include <map>

#include "openclaw/runtime/data/micro_batch.h"
#include "test_files.h"

namespace oc {
namespace {

template <typename T>
std::vector<T> Read(const Dataset& dataset, int feature, int64_t index) {
  MicroBatch batch(dataset, 1);
  EXPECT_OK(batch.Fill(std::vector<int64_t>{index}));
  const T* data = batch.tensor(feature).data<T>();
  return {data, data + dataset.layouts()[feature].elements};
}

TEST(Synthetic, ImagesOfAClassShareAPattern) {
  const SyntheticImagesOptions options{
      .size = 64, .height = 4, .width = 4, .classes = 3, .noise = 0};
  const auto dataset = MakeSyntheticImages(options);
  std::map<int32_t, std::vector<float>> patterns;
  for (int64_t i = 0; i < dataset->size(); ++i) {
    const int32_t label = Read<int32_t>(*dataset, 1, i)[0];
    const auto image = Read<float>(*dataset, 0, i);
    EXPECT_EQ(patterns.try_emplace(label, image).first->second, image);
  }
  EXPECT_EQ(patterns.size(), 3u);
}

TEST(Synthetic, SamplesAreAFunctionOfSeedSplitAndIndex) {
  const auto a = MakeSyntheticImages({.seed = 3}), b = MakeSyntheticImages({.seed = 3});
  const auto other = MakeSyntheticImages({.seed = 3, .split = 1});
  EXPECT_EQ(Read<float>(*a, 0, 17), Read<float>(*b, 0, 17));
  EXPECT_NE(Read<float>(*a, 0, 17), Read<float>(*a, 0, 18));
  EXPECT_NE(Read<float>(*a, 0, 17), Read<float>(*other, 0, 17));
}

TEST(Synthetic, TokensFollowEachOther) {
  const auto dataset =
      MakeSyntheticTokens({.size = 8, .context = 16, .vocabulary = 11, .noise = 0});
  std::map<int32_t, int32_t> next;
  for (int64_t i = 0; i < dataset->size(); ++i) {
    const auto tokens = Read<int32_t>(*dataset, 0, i), targets = Read<int32_t>(*dataset, 1, i);
    for (size_t t = 0; t < tokens.size(); ++t) {
      EXPECT_LT(tokens[t], 11);
      EXPECT_EQ(next.try_emplace(tokens[t], targets[t]).first->second, targets[t]);
      if (t > 0) {
        EXPECT_EQ(tokens[t], targets[t - 1]);
      }
    }
  }
}

}  // namespace
}  // namespace oc

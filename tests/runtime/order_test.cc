#include "openclaw/runtime/data/order.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "test_files.h"

namespace oc {
namespace {

std::vector<int64_t> Stream(const SampleOrder& order, int64_t steps) {
  std::vector<int64_t> all;
  for (const Batch& batch : Batches(order, 0, steps)) {
    EXPECT_EQ(batch.step * order.global_batch(), static_cast<int64_t>(all.size()));
    all.insert(all.end(), batch.indices.begin(), batch.indices.end());
  }
  return all;
}

TEST(SampleOrder, EachEpochIsAnotherPermutation) {
  const SampleOrder order({.size = 10, .micro_batch = 3, .micro_batches = 2, .seed = 5});
  const std::vector<int64_t> stream = Stream(order, 5);  // 30 samples: three epochs
  std::set<std::vector<int64_t>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> seen(stream.begin() + 10 * epoch, stream.begin() + 10 * (epoch + 1));
    epochs.insert(seen);
    std::sort(seen.begin(), seen.end());
    std::vector<int64_t> all(10);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(seen, all);
  }
  EXPECT_EQ(epochs.size(), 3u);
  const SampleOrder other({.size = 10, .micro_batch = 3, .micro_batches = 2, .seed = 6});
  EXPECT_NE(Stream(other, 5), stream);
}

TEST(SampleOrder, DependsOnTheGlobalBatchAlone) {
  const SampleOrder a({.size = 37, .micro_batch = 2, .micro_batches = 6});
  const SampleOrder b({.size = 37, .micro_batch = 12, .micro_batches = 1});
  const SampleOrder c({.size = 37, .micro_batch = 3, .micro_batches = 4});
  EXPECT_EQ(Stream(a, 9), Stream(b, 9));
  EXPECT_EQ(Stream(a, 9), Stream(c, 9));
}

TEST(SampleOrder, EvaluatesInOrderOnce) {
  const SampleOrder order({.size = 8, .micro_batch = 3, .micro_batches = 2, .shuffle = false});
  EXPECT_EQ(order.steps_per_pass(), 2);
  std::vector<int64_t> out(3);
  EXPECT_EQ(order.Indices(0, 1, out), 3);
  EXPECT_EQ(out, (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(order.Indices(1, 0, out), 2);
  EXPECT_EQ(out[0], 6);
  EXPECT_EQ(order.Indices(1, 1, out), 0);
  EXPECT_EQ(Stream(order, 2).size(), 8u);
}

TEST(SampleOrder, CountsStepsOfEpochs) {
  const SampleOrder order({.size = 100, .micro_batch = 10, .micro_batches = 3});
  EXPECT_EQ(order.StepsOf(1), 3);
  EXPECT_EQ(order.StepsOf(3), 10);
  EXPECT_EQ(order.StepsOf(0.001), 1);
}

TEST(SampleOrder, RefusesSizesThatAreNotPositive) {
  using testing::ExpectError;
  ExpectError(SampleOrder::Validate({.size = 0}), absl::StatusCode::kInvalidArgument, "empty");
  ExpectError(SampleOrder::Validate({.size = 1, .micro_batch = 0}),
              absl::StatusCode::kInvalidArgument, "micro_batch is 0");
}

}  // namespace
}  // namespace oc

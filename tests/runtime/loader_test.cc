#include "openclaw/runtime/data/loader.h"

#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "count_allocations.h"
#include "openclaw/runtime/data/synthetic.h"
#include "test_files.h"

namespace oc {
namespace {

using absl::StatusCode;
using testing::ExpectError;

// Samples are their own indices; reads can be made slow or to fail.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t size) : Dataset({{"x", {DType::kI64, {Dim(3)}}}}), size_(size) {}
  int64_t size() const override { return size_; }
  Status Read(int64_t index, Sample& sample) const override {
    if (delay_.count() > 0) std::this_thread::sleep_for(delay_);
    if (index == bad_) return DataLoss("sector ", index);
    for (int64_t& value : sample.row<int64_t>(0)) value = index;
    reads_.fetch_add(1);
    return OkStatus();
  }
  int64_t size_, bad_ = -1;
  std::chrono::milliseconds delay_{0};
  mutable std::atomic<int64_t> reads_{0};
};

using Contents = std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>>;

// What a loader gives in `steps` steps, by (step, micro-batch), read from the rows themselves.
Contents Collect(Loader& loader, int64_t steps) {
  Contents contents;
  for (int64_t s = 0; s < steps; ++s) {
    const auto batches = loader.NextStep();
    EXPECT_OK(batches);
    if (!batches.ok()) break;
    for (const MicroBatch& batch : *batches) {
      std::vector<int64_t>& values = contents[{batch.step, batch.number}];
      for (int64_t i = 0; i < batch.samples(); ++i) {
        values.push_back(batch.tensor(0).data<int64_t>()[3 * i + 2]);
        EXPECT_EQ(values.back(), batch.indices()[i]);
      }
    }
  }
  return contents;
}

Contents CollectOf(const Numbers& dataset, const std::vector<int64_t>& mine, int workers,
                   int64_t first_step = 0, int64_t steps = 12) {
  auto loader = Loader::Create(dataset, {.order = {.micro_batch = 4, .micro_batches = 4, .seed = 9},
                                         .mine = mine,
                                         .first_step = first_step,
                                         .workers = workers});
  EXPECT_OK(loader);
  return Collect(**loader, steps);
}

TEST(Loader, GivesTheSameSamplesToOneTwoOrFourConsumers) {
  const Numbers dataset(50);  // three epochs and more in 12 steps of 16
  const Contents whole = CollectOf(dataset, {}, 1);
  ASSERT_EQ(whole.size(), 48u);
  Contents two = CollectOf(dataset, {0, 1}, 2);
  two.merge(CollectOf(dataset, {2, 3}, 1));
  EXPECT_EQ(two, whole);
  Contents interleaved = CollectOf(dataset, {2, 0}, 3);
  interleaved.merge(CollectOf(dataset, {1, 3}, 1));
  EXPECT_EQ(interleaved, whole);
  Contents four;
  for (int64_t g = 0; g < 4; ++g) four.merge(CollectOf(dataset, {g}, 4));
  EXPECT_EQ(four, whole);
}

TEST(Loader, ResumesWhereItWas) {
  const Numbers dataset(50);
  const Contents whole = CollectOf(dataset, {1, 3}, 2);
  auto loader = Loader::Create(
      dataset, {.order = {.micro_batch = 4, .micro_batches = 4, .seed = 9}, .mine = {1, 3}});
  ASSERT_OK(loader);
  Contents resumed = Collect(**loader, 5);
  EXPECT_EQ((*loader)->position(), 5);
  resumed.merge(CollectOf(dataset, {1, 3}, 2, (*loader)->position(), 7));
  EXPECT_EQ(resumed, whole);
}

TEST(Loader, NextGivesMicroBatchesOneByOne) {
  const Numbers dataset(50);
  auto loader = Loader::Create(
      dataset, {.order = {.micro_batch = 4, .micro_batches = 4}, .mine = {3, 1}, .steps = 2});
  ASSERT_OK(loader);
  std::vector<std::pair<int64_t, int64_t>> order;
  for (int i = 0; i < 4; ++i) {
    const auto batch = (*loader)->Next();
    ASSERT_OK(batch);
    order.emplace_back((*batch)->step, (*batch)->number);
    if (i == 2) {
      ExpectError((*loader)->NextStep(), StatusCode::kFailedPrecondition, "one by one");
    }
  }
  EXPECT_EQ(order, (std::vector<std::pair<int64_t, int64_t>>{{0, 3}, {0, 1}, {1, 3}, {1, 1}}));
  ExpectError((*loader)->Next(), StatusCode::kOutOfRange, "no more");
}

TEST(Loader, EvaluatesOnceWithASmallerLastMicroBatch) {
  const Numbers dataset(10);
  auto loader = Loader::Create(
      dataset, {.order = {.micro_batch = 4, .micro_batches = 2, .shuffle = false}, .workers = 2});
  ASSERT_OK(loader);
  EXPECT_EQ(
      Collect(**loader, 2),
      (Contents{{{0, 0}, {0, 1, 2, 3}}, {{0, 1}, {4, 5, 6, 7}}, {{1, 0}, {8, 9}}, {{1, 1}, {}}}));
  ExpectError((*loader)->NextStep(), StatusCode::kOutOfRange, "no more");
}

TEST(Loader, AllocatesNothingOnceItRuns) {
  const auto images = MakeSyntheticImages({.size = 100, .height = 8, .width = 8});
  auto loader = Loader::Create(
      *images, {.order = {.micro_batch = 4, .micro_batches = 4}, .mine = {0, 2}, .workers = 2});
  ASSERT_OK(loader);
  for (int step = 0; step < 3; ++step) ASSERT_OK((*loader)->NextStep());
  const int64_t before = testing::Allocations();
  bool ok = true;
  for (int step = 0; step < 50; ++step) ok = (*loader)->NextStep().ok() && ok;
  EXPECT_EQ(testing::Allocations() - before, 0);
  EXPECT_TRUE(ok);
  // Two steps of two micro-batches: the one in use and the next.
  EXPECT_EQ((*loader)->buffer_bytes(), 2 * 2 * 4 * (8 * 8 * 4 + 4));
}

TEST(Loader, PrefetchesWhileTheConsumerComputes) {
  Numbers dataset(64);
  dataset.delay_ = std::chrono::milliseconds(5);
  auto loader = Loader::Create(dataset, {.order = {.micro_batch = 4}});
  ASSERT_OK(loader);
  ASSERT_OK((*loader)->Next());
  const double first = (*loader)->wait_seconds();
  EXPECT_GE(first, 0.015);
  // Loads one ahead and no more: the ring is bounded.
  for (int i = 0; i < 400 && dataset.reads_.load() < 8; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(dataset.reads_.load(), 8);
  ASSERT_OK((*loader)->Next());
  EXPECT_LT((*loader)->wait_seconds() - first, 0.015);
}

TEST(Loader, GivesTheErrorOfAReadWhenItIsDue) {
  Numbers dataset(40);
  dataset.bad_ = 9;
  auto loader =
      Loader::Create(dataset, {.order = {.micro_batch = 4, .shuffle = false}, .workers = 3});
  ASSERT_OK(loader);
  EXPECT_OK((*loader)->Next());
  EXPECT_OK((*loader)->Next());
  for (int i = 0; i < 2; ++i) {
    ExpectError((*loader)->Next(), StatusCode::kDataLoss,
                "load data: step 2, micro-batch 0: read sample 9: sector 9");
  }
}

TEST(Loader, DoesNotHangOnAStuckRead) {
  Numbers dataset(40);
  dataset.delay_ = std::chrono::milliseconds(300);
  auto loader = Loader::Create(dataset, {.order = {.micro_batch = 1}, .timeout_seconds = 0.05});
  ASSERT_OK(loader);
  ExpectError((*loader)->Next(), StatusCode::kDeadlineExceeded, "step 0, micro-batch 0");
}

TEST(Loader, EndsCleanlyInTheMiddle) {
  Numbers dataset(1000);
  dataset.delay_ = std::chrono::milliseconds(1);
  for (int i = 0; i < 5; ++i) {
    auto loader = Loader::Create(dataset, {.order = {.micro_batch = 8}, .workers = 4});
    ASSERT_OK(loader);
    if (i % 2 == 0) ASSERT_OK((*loader)->Next());
  }
}

TEST(Loader, RefusesBadOptions) {
  const Numbers dataset(10), empty(0);
  const auto create = [&](LoaderOptions options) {
    return Loader::Create(dataset, std::move(options)).status();
  };
  ExpectError(create({.order = {.micro_batch = 0}}), StatusCode::kInvalidArgument, "micro_batch");
  ExpectError(create({.order = {.micro_batches = 2}, .mine = {2}}), StatusCode::kInvalidArgument,
              "0..1");
  ExpectError(create({.order = {.micro_batches = 2}, .mine = {1, 1}}), StatusCode::kInvalidArgument,
              "distinct");
  ExpectError(create({.first_step = -1}), StatusCode::kInvalidArgument, "first step -1");
  ExpectError(Loader::Create(empty, {}), StatusCode::kInvalidArgument, "empty");
}

}  // namespace
}  // namespace oc

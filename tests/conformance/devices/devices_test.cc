// What every device keeps to, whatever it computes with: the rules of devices/device.h on slices,
// memory, queues and events. Ops are tested by tests/conformance/ops; what is a leaf's own (its
// kinds, its messages, its faults), by tests/devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "../leaves/leaves.h"

namespace oc::parity {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

constexpr double kLong = 60;  // seconds: a wait that is to end

std::string Text(const Status& status) { return std::string(status.message()); }

// Under test; set before the tests run.
std::unique_ptr<Device> device;
bool asynchronous = false;

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override { slice_ = MakeSlice({.threads = 1}); }

  static std::unique_ptr<Slice> MakeSlice(const SliceOptions& options) {
    auto slice = device->CreateSlice(options);
    EXPECT_TRUE(slice.ok()) << slice.status();
    return slice.ok() ? *std::move(slice) : nullptr;
  }
  std::unique_ptr<Buffer> MakeBuffer(int64_t bytes) {
    auto buffer = slice_->Allocate(bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return buffer.ok() ? *std::move(buffer) : nullptr;
  }
  std::unique_ptr<Queue> MakeQueue(const std::string& name) {
    auto queue = slice_->CreateQueue(name);
    EXPECT_TRUE(queue.ok()) << queue.status();
    return queue.ok() ? *std::move(queue) : nullptr;
  }
  std::unique_ptr<Event> MakeEvent() {
    auto event = slice_->CreateEvent();
    EXPECT_TRUE(event.ok()) << event.status();
    return event.ok() ? *std::move(event) : nullptr;
  }
  OpRequest Request(const std::string& op, std::vector<TensorType> inputs, Attributes attrs = {}) {
    OpRequest r{.def = ops_->Find(op), .attrs = std::move(attrs), .inputs = std::move(inputs)};
    auto outputs = r.def->infer({r.inputs, r.attrs});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    if (outputs.ok()) r.outputs = *std::move(outputs);
    return r;
  }
  // Runs the op on the queue; its workspace stays.
  Status Run(Queue& queue, PreparedOp& op, const std::vector<BufferRange>& inputs,
             const std::vector<BufferRange>& outputs) {
    const int64_t bytes = op.workspace_bytes();
    workspaces_.push_back(MakeBuffer(bytes));
    return queue.Enqueue(op, inputs, outputs, {workspaces_.back().get(), 0, bytes});
  }
  std::unique_ptr<PreparedOp> Prepare(const OpRequest& request) {
    auto op = slice_->Prepare(request);
    EXPECT_TRUE(op.ok()) << op.status();
    return op.ok() ? *std::move(op) : nullptr;
  }
  Status Done(Queue& queue) {
    auto event = MakeEvent();
    const Status recorded = queue.Record(*event);
    const Status ended = event->Wait(kLong);
    return ended.ok() ? recorded : ended;
  }
  template <typename T>
  static std::span<const std::byte> Bytes(const std::vector<T>& values) {
    return std::as_bytes(std::span(values));
  }
  void Write(Queue& queue, BufferRange to, const Floats& values) {
    EXPECT_EQ(queue.CopyFromHost(to, Bytes(values)), OkStatus());
    EXPECT_EQ(Done(queue), OkStatus());
  }
  Floats Read(Queue& queue, BufferRange from) {
    Floats values(static_cast<size_t>(from.bytes) / sizeof(float), NAN);
    EXPECT_EQ(queue.CopyToHost(std::as_writable_bytes(std::span(values)), from), OkStatus());
    EXPECT_EQ(Done(queue), OkStatus());
    return values;
  }
  static BufferRange Range(const std::unique_ptr<Buffer>& buffer, int64_t floats, int64_t count) {
    return {buffer.get(), 4 * floats, 4 * count};
  }

  const std::shared_ptr<const OpRegistry> ops_ = BuiltinOps();
  std::unique_ptr<Slice> slice_;
  std::vector<std::unique_ptr<Buffer>> workspaces_;
};

// A cross-entropy of three samples, the second's label given.
class Labels {
 public:
  Labels(const OpRequest& request, std::unique_ptr<PreparedOp> op, std::unique_ptr<Buffer> buffer)
      : op_(std::move(op)), buffer_(std::move(buffer)) {
    EXPECT_EQ(request.outputs.size(), 2u);
  }
  PreparedOp& op() { return *op_; }
  std::vector<BufferRange> inputs() { return {{buffer_.get(), 0, 48}, labels()}; }
  std::vector<BufferRange> outputs() { return {{buffer_.get(), 128, 4}, {buffer_.get(), 192, 12}}; }
  BufferRange labels() { return {buffer_.get(), 64, 12}; }
  static std::vector<int32_t> With(int32_t second) { return {3, second, 0}; }

 private:
  std::unique_ptr<PreparedOp> op_;
  std::unique_ptr<Buffer> buffer_;
};

// ---- Slices and memory ----

TEST_F(DeviceTest, InfoAndSlicesSayWhatTheyAre) {
  const DeviceInfo& info = device->info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_FALSE(info.leaf.empty());
  EXPECT_THAT(info.model, ::testing::Not(ContainsRegex("[ /]")));
  EXPECT_GE(info.threads, 1);
  EXPECT_GT(info.memory_bytes, 0);
  EXPECT_TRUE(slice_->kind().starts_with(info.leaf + "/")) << slice_->kind();
  EXPECT_THAT(slice_->dtypes(), ::testing::Contains(DType::kF32));
  EXPECT_EQ(MakeSlice({.threads = 1})->kind(), slice_->kind());
}

TEST_F(DeviceTest, BadSlicesAreRefused) {
  EXPECT_EQ(device->CreateSlice({.threads = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const Status status =
      device->CreateSlice({.threads = 1, .options = {{"colour", "red"}}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(status), AllOf(HasSubstr("'colour'"), HasSubstr(device->info().name)));
}

TEST_F(DeviceTest, MemoryIsZeroAndAligned) {
  auto queue = MakeQueue("test");
  for (const int64_t bytes : {4, 1000, 100004}) {
    auto buffer = MakeBuffer(bytes);
    EXPECT_EQ(buffer->bytes(), bytes);
    EXPECT_THAT(Read(*queue, {buffer.get(), 0, bytes}), Each(0.0f));
    const auto view = slice_->HostView({buffer.get(), 0, bytes});
    if (view.empty()) continue;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data()) % 64, 0u);
    EXPECT_EQ(static_cast<int64_t>(view.size()), bytes);
  }
  EXPECT_EQ(MakeBuffer(0)->bytes(), 0);
}

TEST_F(DeviceTest, TheBudgetIsKeptAndFreedMemoryCountsAgain) {
  slice_ = MakeSlice({.threads = 1, .memory_bytes = 1 << 20});
  auto buffer = MakeBuffer(1000);
  const Status refused = slice_->Allocate(1 << 20).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Text(refused), HasSubstr("1048576"));  // of what
  EXPECT_TRUE(slice_->Allocate((1 << 20) - 1000).ok());
  buffer = nullptr;
  EXPECT_TRUE(slice_->Allocate(1 << 20).ok());
  EXPECT_EQ(slice_->Allocate(-1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(slice_->Allocate(1 << 20).ok());
}

TEST_F(DeviceTest, TellsHowFarABufferWasWrittenOrThatItCannot) {
  auto buffer = MakeBuffer(4096);
  auto queue = MakeQueue("test");
  const bool tells = slice_->HighWater(*buffer) >= 0;
  const auto expect = [&](int64_t end) {
    const int64_t told = slice_->HighWater(*buffer);
    if (!tells) {
      EXPECT_EQ(told, -1);
      return;
    }
    EXPECT_GE(told, end);
    EXPECT_LE(told, 4096);
  };
  expect(0);
  Write(*queue, Range(buffer, 16, 4), {1, -2, 3, -4});
  expect(80);
  auto op = Prepare(Request("relu", {{DType::kF32, {4}}}));
  EXPECT_EQ(Run(*queue, *op, {Range(buffer, 16, 4)}, {Range(buffer, 256, 4)}), OkStatus());
  EXPECT_EQ(queue->Copy(Range(buffer, 512, 4), Range(buffer, 256, 4)), OkStatus());
  EXPECT_THAT(Read(*queue, Range(buffer, 512, 4)), ElementsAre(1, 0, 3, 0));
  expect(2048 + 12);  // the last number is a zero
}

// ---- Ops ----

TEST_F(DeviceTest, SupportAndPrepareAgreeAndNameWhatIsLacking) {
  const OpRequest has = Request("relu", {{DType::kF32, {2, 3}}});
  auto support = slice_->Support(has);
  ASSERT_TRUE(support.ok()) << support.status();
  EXPECT_TRUE(support->supported);
  EXPECT_STRNE(Prepare(has)->implementation(), "");
  OpDef unknown;
  unknown.name = "frobnicate";
  const TensorType type{DType::kF32, {2, 3}};
  const OpRequest lacks = {.def = &unknown, .inputs = {type}, .outputs = {type}};
  support = slice_->Support(lacks);
  ASSERT_TRUE(support.ok()) << support.status();
  EXPECT_FALSE(support->supported);
  EXPECT_NE(support->reason, "");
  const Status status = slice_->Prepare(lacks).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Text(status), AllOf(HasSubstr("frobnicate"), HasSubstr(device->info().leaf)));
}

// ---- Copies ----

TEST_F(DeviceTest, CopiesTouchTheirRangeAlone) {
  auto buffer = MakeBuffer(64), other = MakeBuffer(64);
  auto queue = MakeQueue("test");
  std::vector<uint8_t> all(64), back(64);
  std::iota(all.begin(), all.end(), uint8_t{100});
  EXPECT_EQ(queue->CopyFromHost({buffer.get(), 0, 64}, Bytes(all)), OkStatus());
  const std::vector<uint8_t> three = {1, 2, 3};
  EXPECT_EQ(queue->CopyFromHost({buffer.get(), 5, 3}, Bytes(three)), OkStatus());
  EXPECT_EQ(queue->Copy({other.get(), 32, 6}, {buffer.get(), 4, 6}), OkStatus());
  EXPECT_EQ(queue->CopyToHost(std::as_writable_bytes(std::span(back)).subspan(10, 8),
                              {other.get(), 31, 8}),
            OkStatus());
  EXPECT_EQ(Done(*queue), OkStatus());
  std::vector<uint8_t> expected(64);
  const std::vector<uint8_t> moved = {0, 104, 1, 2, 3, 108, 109, 0};
  std::copy(moved.begin(), moved.end(), expected.begin() + 10);
  EXPECT_EQ(back, expected);
}

TEST_F(DeviceTest, CopiesOfNothingAreNoErrors) {
  auto buffer = MakeBuffer(64), empty = MakeBuffer(0);
  auto queue = MakeQueue("test");
  for (Buffer* at : {buffer.get(), empty.get(), static_cast<Buffer*>(nullptr)}) {
    EXPECT_EQ(queue->CopyFromHost({at, 0, 0}, {}), OkStatus());
    EXPECT_EQ(queue->CopyToHost({}, {at, 0, 0}), OkStatus());
    EXPECT_EQ(queue->Copy({at, 0, 0}, {buffer.get(), 64, 0}), OkStatus());
  }
  EXPECT_EQ(Done(*queue), OkStatus());
}

// ---- Queues and events ----

TEST_F(DeviceTest, AQueueRunsInOrder) {
  constexpr int kTimes = 50;
  auto buffer = MakeBuffer(64), other = MakeBuffer(64);
  auto queue = MakeQueue("test");
  auto add = Prepare(Request("add", {{DType::kF32, {1}}, {DType::kF32, {1}}}));
  const Floats start = {1, 3};
  Floats seen(kTimes);
  EXPECT_EQ(queue->CopyFromHost(Range(buffer, 0, 2), Bytes(start)), OkStatus());
  for (int i = 0; i < kTimes; ++i) {
    EXPECT_EQ(Run(*queue, *add, {Range(buffer, 0, 1), Range(buffer, 1, 1)}, {Range(other, 2, 1)}),
              OkStatus());
    EXPECT_EQ(queue->Copy(Range(buffer, 0, 1), Range(other, 2, 1)), OkStatus());
    const auto at = std::as_writable_bytes(std::span(seen).subspan(static_cast<size_t>(i), 1));
    EXPECT_EQ(queue->CopyToHost(at, Range(buffer, 0, 1)), OkStatus());
  }
  EXPECT_EQ(Done(*queue), OkStatus());
  for (int i = 0; i < kTimes; ++i) {
    EXPECT_EQ(seen[static_cast<size_t>(i)], static_cast<float>(4 + 3 * i));
  }
}

TEST_F(DeviceTest, AnEventIsReadyOnceItsWorkIsAndMayBeRecordedAgain) {
  auto event = MakeEvent();
  EXPECT_FALSE(event->Ready());
  const auto begin = std::chrono::steady_clock::now();
  // Nobody may ever record it; a device that works as it is called may know that nobody did.
  EXPECT_THAT(event->Wait(0.05).code(),
              AnyOf(absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kFailedPrecondition));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  auto buffer = MakeBuffer(8);
  auto queue = MakeQueue("test");
  for (const float value : {1.0f, 2.0f}) {
    const Floats from = {value};
    Floats to(1);
    EXPECT_EQ(queue->CopyFromHost(Range(buffer, 0, 1), Bytes(from)), OkStatus());
    EXPECT_EQ(queue->CopyToHost(std::as_writable_bytes(std::span(to)), Range(buffer, 0, 1)),
              OkStatus());
    EXPECT_EQ(queue->Record(*event), OkStatus());
    EXPECT_EQ(event->Wait(kLong), OkStatus());
    EXPECT_TRUE(event->Ready());
    EXPECT_EQ(to[0], value);
  }
}

TEST_F(DeviceTest, AWaitEndsAtItsTimeout) {
  if (!asynchronous) GTEST_SKIP() << "its calls return when the work is done";
  auto queue = MakeQueue("long");
  auto done = MakeEvent();
  // More and more work, until a wait of a millisecond is too short for it; a fast device may end
  // small products sooner than they are enqueued.
  bool late = false;
  for (const int64_t side : {384, 3072}) {
    const int64_t floats = side * side;
    auto op =
        Prepare(Request("linear", {{DType::kF32, {side, side}}, {DType::kF32, {side, side}}}));
    auto buffer = MakeBuffer(3 * floats * 4);
    const std::vector<BufferRange> in = {Range(buffer, 0, floats), Range(buffer, floats, floats)};
    for (int calls = 10; !late && calls <= 10000; calls *= 4) {
      for (int i = 0; i < calls; ++i) {
        EXPECT_EQ(Run(*queue, *op, in, {Range(buffer, 2 * floats, floats)}), OkStatus());
      }
      EXPECT_EQ(queue->Record(*done), OkStatus());
      late = done->Wait(1e-3).code() == absl::StatusCode::kDeadlineExceeded;
      EXPECT_EQ(done->Wait(kLong), OkStatus());
      EXPECT_TRUE(done->Ready());
      workspaces_.clear();
    }
    if (late) break;
  }
  EXPECT_TRUE(late);
}

TEST_F(DeviceTest, TwoQueuesHandAValueToAndFro) {
  auto buffer = MakeBuffer(64);
  auto first = MakeQueue("first"), second = MakeQueue("second");
  auto there = MakeEvent(), back = MakeEvent();
  auto add = Prepare(Request("add", {{DType::kF32, {1}}, {DType::kF32, {1}}}));
  Write(*first, Range(buffer, 0, 2), {1, 1});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Run(*first, *add, {Range(buffer, 0, 1), Range(buffer, 1, 1)}, {Range(buffer, 2, 1)}),
              OkStatus());
    EXPECT_EQ(first->Record(*there), OkStatus());
    EXPECT_EQ(second->WaitFor(*there), OkStatus());
    EXPECT_EQ(Run(*second, *add, {Range(buffer, 2, 1), Range(buffer, 1, 1)}, {Range(buffer, 0, 1)}),
              OkStatus());
    EXPECT_EQ(second->Record(*back), OkStatus());
    EXPECT_EQ(first->WaitFor(*back), OkStatus());
  }
  EXPECT_THAT(Read(*first, Range(buffer, 0, 1)), ElementsAre(41));
}

// Of another slice of the device, and from another thread.
TEST_F(DeviceTest, AQueueOfAnotherSliceWaitsForAnEvent) {
  auto far_slice = MakeSlice({.threads = 1});
  auto far_queue = far_slice->CreateQueue("far");
  auto far_event = far_slice->CreateEvent();
  ASSERT_TRUE(far_queue.ok() && far_event.ok());
  const OpRequest product = Request("linear", {{DType::kF32, {96, 96}}, {DType::kF32, {96, 96}}});
  auto op = Prepare(product);
  auto buffer = MakeBuffer(3 * 96 * 96 * 4);
  const std::vector<BufferRange> in = {Range(buffer, 0, 9216), Range(buffer, 9216, 9216)};
  auto queue = MakeQueue("near");
  auto done = MakeEvent();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Run(*queue, *op, in, {Range(buffer, 2 * 9216, 9216)}), OkStatus());
  }
  EXPECT_EQ(queue->Record(*done), OkStatus());
  std::thread([&] {
    EXPECT_EQ((*far_queue)->WaitFor(*done), OkStatus());
    EXPECT_EQ((*far_queue)->Record(**far_event), OkStatus());
  }).join();
  EXPECT_FALSE((*far_event)->Ready() && !done->Ready());
  EXPECT_EQ((*far_event)->Wait(kLong), OkStatus());
  EXPECT_TRUE(done->Ready());
}

TEST_F(DeviceTest, BadDataIsTheStatusOfLaterEventsAndOfWhatWaits) {
  const OpRequest request = Request("cross_entropy", {{DType::kF32, {3, 4}}, {DType::kI32, {3}}});
  Labels labels(request, Prepare(request), MakeBuffer(256));
  auto queue = MakeQueue("compute"), second = MakeQueue("second");
  auto event = MakeEvent(), later = MakeEvent(), inherits = MakeEvent();
  const auto run = [&](Queue& on, const std::vector<int32_t>& values) {
    EXPECT_EQ(on.CopyFromHost(labels.labels(), Bytes(values)), OkStatus());
    EXPECT_EQ(Done(on), OkStatus());
    return Run(on, labels.op(), labels.inputs(), labels.outputs());
  };
  EXPECT_EQ(run(*queue, Labels::With(-1)), OkStatus());  // no label
  EXPECT_NEAR(Read(*queue, labels.outputs()[0])[0], 2 * std::log(4.0), 1e-5);
  // A device may tell at once, as the ones do that work as they are called, or with the event.
  (void)run(*queue, Labels::With(17));
  (void)queue->Record(*event);
  (void)second->WaitFor(*event);
  (void)second->Record(*inherits);
  const Status status = event->Wait(kLong);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(Text(status),
              AllOf(ContainsRegex("label 17 (at position|of row) 1"), HasSubstr("cross_entropy")));
  EXPECT_EQ(inherits->Wait(kLong).code(), absl::StatusCode::kOutOfRange);
  (void)queue->Record(*later);
  EXPECT_EQ(later->Wait(kLong).code(), absl::StatusCode::kOutOfRange);
  // The op goes on on other queues.
  auto third = MakeQueue("third");
  EXPECT_EQ(run(*third, Labels::With(1)), OkStatus());
  EXPECT_NEAR(Read(*third, labels.outputs()[0])[0], 3 * std::log(4.0), 1e-5);
}

TEST_F(DeviceTest, WhatIsEnqueuedMayOutliveItsBuffersAndQueue) {
  Floats to(1, NAN);
  const Floats from = {5};
  auto buffer = MakeBuffer(3 * 96 * 96 * 4), small = MakeBuffer(4);
  auto queue = MakeQueue("test");
  auto op = Prepare(Request("linear", {{DType::kF32, {96, 96}}, {DType::kF32, {96, 96}}}));
  const std::vector<BufferRange> in = {Range(buffer, 0, 9216), Range(buffer, 9216, 9216)};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Run(*queue, *op, in, {Range(buffer, 2 * 9216, 9216)}), OkStatus());
  }
  EXPECT_EQ(queue->CopyFromHost(Range(small, 0, 1), Bytes(from)), OkStatus());
  EXPECT_EQ(queue->CopyToHost(std::as_writable_bytes(std::span(to)), Range(small, 0, 1)),
            OkStatus());
  auto event = MakeEvent();
  EXPECT_EQ(queue->Record(*event), OkStatus());
  buffer = nullptr;
  workspaces_.clear();
  queue = nullptr;
  EXPECT_EQ(event->Wait(kLong), OkStatus());
  EXPECT_EQ(to[0], 5);
}

// ---- Captured work ----

class CaptureTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    queue_ = MakeQueue("compute");
    const Status begun = queue_->BeginCapture();
    if (absl::IsUnimplemented(begun)) GTEST_SKIP() << begun;
    ASSERT_EQ(begun, OkStatus());
    EXPECT_TRUE(queue_->EndCapture().ok());
    buffer_ = MakeBuffer(4096);
    relu_ = Prepare(Request("relu", {{DType::kF32, {4}}}));
    add_ = Prepare(Request("add", {{DType::kF32, {4}}, {DType::kF32, {4}}}));
  }
  BufferRange At(int64_t floats) { return Range(buffer_, floats, 4); }
  Status Relu(int64_t from, int64_t to) { return Run(*queue_, *relu_, {At(from)}, {At(to)}); }
  Status Add(int64_t a, int64_t b, int64_t to) {
    return Run(*queue_, *add_, {At(a), At(b)}, {At(to)});
  }
  template <typename F>
  std::unique_ptr<CapturedWork> Capture(const F& enqueue) {
    EXPECT_EQ(queue_->BeginCapture(), OkStatus());
    enqueue();
    auto work = queue_->EndCapture();
    EXPECT_TRUE(work.ok()) << work.status();
    return work.ok() ? *std::move(work) : nullptr;
  }
  // Pinned where the device has such memory, as the executor's.
  std::span<float> HostFloats(int64_t count) {
    auto memory = slice_->AllocateHost(4 * count);
    EXPECT_TRUE(memory.ok()) << memory.status();
    host_.push_back(*std::move(memory));
    return {reinterpret_cast<float*>(host_.back()->bytes().data()), static_cast<size_t>(count)};
  }

  std::vector<std::unique_ptr<HostMemory>> host_;
  std::unique_ptr<Buffer> buffer_;
  std::unique_ptr<PreparedOp> relu_, add_;
  std::unique_ptr<Queue> queue_;
};

TEST_F(DeviceTest, HostMemoryIsZeroAlignedAndMayBeEmpty) {
  for (const int64_t bytes : {0, 4, 100000}) {
    auto memory = slice_->AllocateHost(bytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    const std::span<std::byte> all = (*memory)->bytes();
    EXPECT_EQ(static_cast<int64_t>(all.size()), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(all.data()) % 64, 0u);
    EXPECT_THAT(all, Each(std::byte{0}));
  }
}

// Nothing runs while it is captured; each launch reads and writes what is there then.
TEST_F(CaptureTest, ALaunchRunsWhatWasCapturedOnWhatIsThereThen) {
  const std::span<float> in = HostFloats(4), out = HostFloats(4);
  std::fill(out.begin(), out.end(), NAN);
  auto work = Capture([&] {
    EXPECT_EQ(queue_->CopyFromHost(At(0), std::as_bytes(in)), OkStatus());
    EXPECT_EQ(Relu(0, 16), OkStatus());
    EXPECT_EQ(Add(16, 32, 32), OkStatus());  // adds up
    EXPECT_EQ(queue_->Copy(At(48), At(32)), OkStatus());
    EXPECT_EQ(queue_->CopyToHost(std::as_writable_bytes(out), At(48)), OkStatus());
  });
  ASSERT_NE(work, nullptr);
  EXPECT_EQ(Done(*queue_), OkStatus());
  EXPECT_THAT(Read(*queue_, At(32)), Each(0.0f));
  EXPECT_TRUE(std::isnan(out[0]));
  for (int i = 1; i <= 3; ++i) {
    std::fill(in.begin(), in.end(), 1.0f);
    in[1] = -1;
    EXPECT_EQ(queue_->Launch(*work), OkStatus());
    EXPECT_EQ(Done(*queue_), OkStatus());
    const auto sum = static_cast<float>(i);
    EXPECT_THAT(Floats(out.begin(), out.end()), ElementsAre(sum, 0, sum, sum));
  }
}

TEST_F(CaptureTest, LaunchesAndOtherWorkRunInOrder) {
  Write(*queue_, At(0), {1, 2, 3, -4});
  auto twice = Capture([&] { EXPECT_EQ(Add(0, 0, 0), OkStatus()); });
  ASSERT_NE(twice, nullptr);
  EXPECT_EQ(queue_->Launch(*twice), OkStatus());
  EXPECT_EQ(queue_->Launch(*twice), OkStatus());
  EXPECT_EQ(Relu(0, 16), OkStatus());
  EXPECT_EQ(queue_->Launch(*twice), OkStatus());
  EXPECT_EQ(Add(0, 16, 32), OkStatus());
  EXPECT_THAT(Read(*queue_, At(32)), ElementsAre(12, 24, 36, -32));
  // On another queue of the slice, behind an event.
  auto second = MakeQueue("second");
  auto done = MakeEvent();
  EXPECT_EQ(queue_->Record(*done), OkStatus());
  EXPECT_EQ(second->WaitFor(*done), OkStatus());
  EXPECT_EQ(second->Launch(*twice), OkStatus());
  EXPECT_THAT(Read(*second, At(0)), ElementsAre(16, 32, 48, -64));
}

TEST_F(CaptureTest, AConditionIsLookedAtByEachLaunch) {
  Status begun;
  const std::span<float> in = HostFloats(4);
  auto work = Capture([&] {
    EXPECT_EQ(queue_->CopyFromHost(At(64), std::as_bytes(in)), OkStatus());
    EXPECT_EQ(Relu(64, 80), OkStatus());
    begun = queue_->BeginIfFinite(Range(buffer_, 81, 1));
    if (!begun.ok()) return;
    EXPECT_EQ(Add(80, 16, 16), OkStatus());
    EXPECT_EQ(queue_->Copy(At(32), At(16)), OkStatus());
    EXPECT_EQ(queue_->EndIf(), OkStatus());
    EXPECT_EQ(Add(80, 0, 0), OkStatus());
  });
  if (absl::IsUnimplemented(begun)) GTEST_SKIP() << begun;
  ASSERT_EQ(begun, OkStatus());
  ASSERT_NE(work, nullptr);
  for (const float second : {2.0f, INFINITY, 0.0f, 1.0f}) {
    in[0] = 1;
    in[1] = second;
    EXPECT_EQ(queue_->Launch(*work), OkStatus());
    EXPECT_EQ(Done(*queue_), OkStatus());
  }
  EXPECT_THAT(Read(*queue_, At(0)), ElementsAre(4, INFINITY, 0, 0));
  EXPECT_THAT(Read(*queue_, At(16)), ElementsAre(3, 3, 0, 0));
  EXPECT_THAT(Read(*queue_, At(32)), ElementsAre(3, 3, 0, 0));
  EXPECT_FALSE(queue_->EndIf().ok());
}

TEST_F(CaptureTest, BadDataIsTheStatusOfTheEventAfterTheLaunch) {
  const OpRequest request = Request("cross_entropy", {{DType::kF32, {3, 4}}, {DType::kI32, {3}}});
  Labels labels(request, Prepare(request), MakeBuffer(256));
  const std::span<float> memory = HostFloats(3);
  const auto set = [&](int32_t second) {
    std::memcpy(memory.data(), Labels::With(second).data(), 12);
  };
  ASSERT_EQ(queue_->BeginCapture(), OkStatus());
  EXPECT_EQ(queue_->CopyFromHost(labels.labels(), std::as_bytes(memory)), OkStatus());
  const Status enqueued = Run(*queue_, labels.op(), labels.inputs(), labels.outputs());
  auto captured = queue_->EndCapture();
  if (absl::IsUnimplemented(enqueued)) GTEST_SKIP() << enqueued;
  ASSERT_EQ(enqueued, OkStatus());
  ASSERT_TRUE(captured.ok()) << captured.status();
  const auto work = *std::move(captured);
  set(1);
  EXPECT_EQ(queue_->Launch(*work), OkStatus());
  EXPECT_EQ(Done(*queue_), OkStatus());
  set(17);
  auto event = MakeEvent();
  (void)queue_->Launch(*work);
  (void)queue_->Record(*event);
  const Status status = event->Wait(kLong);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(Text(status),
              AllOf(ContainsRegex("label 17 (at position|of row) 1"), HasSubstr("cross_entropy")));
}

// A product of some time: the launch still runs when all that it needs goes.
TEST_F(CaptureTest, CapturedWorkMayGoRightAfterItsLaunch) {
  auto op = Prepare(Request("linear", {{DType::kF32, {96, 96}}, {DType::kF32, {96, 96}}}));
  auto big = MakeBuffer(3 * 96 * 96 * 4);
  auto work = Capture([&] {
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(Run(*queue_, *op, {Range(big, 0, 9216), Range(big, 9216, 9216)},
                    {Range(big, 2 * 9216, 9216)}),
                OkStatus());
    }
  });
  ASSERT_NE(work, nullptr);
  EXPECT_EQ(queue_->Launch(*work), OkStatus());
  auto event = MakeEvent();
  EXPECT_EQ(queue_->Record(*event), OkStatus());
  work = nullptr;
  big = nullptr;
  workspaces_.clear();
  EXPECT_EQ(event->Wait(kLong), OkStatus());
}

}  // namespace

// Null where there is no device to test.
std::unique_ptr<Device> FirstDevice() {
  for (const LeafUnderTest& under_test : LeavesUnderTest()) {
    auto devices = under_test.leaf.discover();
    if (!devices.ok()) {
      std::printf("skipped: %s\n", devices.status().ToString().c_str());
    } else if (!devices->empty()) {
      asynchronous = under_test.asynchronous;
      return std::move((*devices)[0]);
    }
  }
  return nullptr;
}

}  // namespace oc::parity

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  constexpr int kSkipped = 77;
  oc::parity::device = oc::parity::FirstDevice();
  if (oc::parity::device == nullptr) return kSkipped;
  const int result = RUN_ALL_TESTS();
  oc::parity::device = nullptr;
  return result;
}

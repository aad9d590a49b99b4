// What the opencl leaf, opened as a module, has of its own. Its slices, queues and events are
// tested by tests/conformance/devices, its kernels by tests/conformance/ops. Skipped where there is
// no device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "openclaw/devices/plugin.h"

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Floats = std::vector<float>;

class OpenClTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto leaf = LoadPlugin(OPENCL_MODULE);
    if (!leaf.ok()) GTEST_SKIP() << leaf.status();
    EXPECT_EQ(leaf->name, "opencl");
    auto devices = leaf->discover();
    ASSERT_TRUE(devices.ok()) << devices.status();
    ASSERT_FALSE(devices->empty());
    device_ = std::move((*devices)[0]);
    slice_ = MakeSlice({.threads = 1});
  }
  std::unique_ptr<Slice> MakeSlice(const SliceOptions& options) {
    auto slice = device_->CreateSlice(options);
    EXPECT_TRUE(slice.ok()) << slice.status();
    return slice.ok() ? std::move(*slice) : nullptr;
  }
  OpRequest Request(const std::string& op, std::vector<TensorType> inputs, Attributes attrs = {}) {
    OpRequest r{.def = ops_->Find(op), .attrs = std::move(attrs), .inputs = std::move(inputs)};
    auto outputs = r.def->infer({r.inputs, r.attrs});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    if (outputs.ok()) r.outputs = *std::move(outputs);
    return r;
  }
  // Reads after all that was enqueued.
  static Floats Read(Slice& slice, Queue& queue, BufferRange from) {
    Floats to(static_cast<size_t>(from.bytes) / sizeof(float), NAN);
    auto event = slice.CreateEvent();
    EXPECT_EQ(queue.CopyToHost(std::as_writable_bytes(std::span(to)), from), OkStatus());
    EXPECT_EQ(queue.Record(**event), OkStatus());
    EXPECT_EQ((*event)->Wait(60), OkStatus());
    return to;
  }

  std::shared_ptr<const OpRegistry> ops_ = BuiltinOps();
  std::unique_ptr<Device> device_;
  std::unique_ptr<Slice> slice_;
};

TEST_F(OpenClTest, ASliceOfSomeUnitsIsASubDevice) {
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(info.leaf, "opencl");
  EXPECT_GT(info.memory_bytes, 0);
  EXPECT_THAT(info.model, ::testing::Not(::testing::ContainsRegex("[ /]")));
  EXPECT_THAT(slice_->kind(), StartsWith("opencl/" + info.model));
  EXPECT_EQ(device_->CreateSlice({.threads = info.threads + 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device_->CreateSlice({.threads = 0}).status().code(),
            absl::StatusCode::kInvalidArgument);
  if (info.threads < 2 || slice_->enforcement() != Enforcement::kHard) {
    GTEST_SKIP() << "the device cannot be divided";
  }
  EXPECT_THAT(slice_->kind(), EndsWith("/1u"));
  EXPECT_THAT(MakeSlice({.threads = info.threads})->kind(),
              EndsWith(absl::StrCat("/", info.threads, "u")));
}

// What the output held does not enter, not even where it is no number.
TEST_F(OpenClTest, AProductOverwritesItsOutput) {
  auto op = slice_->Prepare(Request("matmul", {{DType::kF32, {70, 33}}, {DType::kF32, {33, 65}}}));
  ASSERT_TRUE(op.ok()) << op.status();
  const int64_t a = 70 * 33 * 4, b = 33 * 65 * 4, c = 70 * 65 * 4;
  auto buffer = slice_->Allocate(a + b + c + 64);
  auto work = slice_->Allocate((*op)->workspace_bytes());
  auto queue = slice_->CreateQueue("test");
  ASSERT_TRUE(buffer.ok() && work.ok() && queue.ok());
  Floats all(static_cast<size_t>(a + b + c) / 4, 1.0f);
  std::fill(all.begin() + (a + b) / 4, all.end(), NAN);
  EXPECT_EQ((*queue)->CopyFromHost({buffer->get(), 0, a + b + c}, std::as_bytes(std::span(all))),
            OkStatus());
  const std::vector<BufferRange> in = {{buffer->get(), 0, a}, {buffer->get(), a, b}};
  const std::vector<BufferRange> out = {{buffer->get(), a + b, c}};
  EXPECT_EQ((*queue)->Enqueue(**op, in, out, {work->get(), 0, (*op)->workspace_bytes()}),
            OkStatus());
  EXPECT_THAT(Read(*slice_, **queue, out[0]), Each(33.0f));
}

TEST_F(OpenClTest, AnEventThatNobodyRecordedIsNotWaitedFor) {
  auto unrecorded = slice_->CreateEvent();
  auto queue = slice_->CreateQueue("test");
  ASSERT_TRUE(unrecorded.ok() && queue.ok());
  EXPECT_EQ((*queue)->WaitFor(**unrecorded).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(OpenClTest, MemoryOfAnotherSliceIsRefused) {
  auto other = MakeSlice({.threads = 1});
  auto buffer = other->Allocate(64);
  auto queue = slice_->CreateQueue("test");
  ASSERT_TRUE(buffer.ok() && queue.ok());
  const float x = 1;
  const Status status =
      (*queue)->CopyFromHost({buffer->get(), 0, 4}, std::as_bytes(std::span(&x, 1)));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another slice"));
}

TEST_F(OpenClTest, WhatItLacksIsNamed) {
  const OpRequest request = Request("relu", {{DType::kF64, {2, 3}}});
  const Status status = slice_->Prepare(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("relu"), HasSubstr("f64"), HasSubstr(slice_->kind()),
                    HasSubstr("there are f32")));
  auto support = slice_->Support(request);
  ASSERT_TRUE(support.ok()) << support.status();
  EXPECT_FALSE(support->supported);
  EXPECT_TRUE(slice_->Support(Request("relu", {{DType::kF32, {2, 3}}}))->supported);
}

// Twice the same bits: sums have one order.
TEST_F(OpenClTest, SumsAreTheSameBitsEachTime) {
  constexpr int64_t kCount = 100003;
  auto op = slice_->Prepare(Request("reduce_sum", {{DType::kF32, {kCount}}}));
  ASSERT_TRUE(op.ok()) << op.status();
  auto buffer = slice_->Allocate(kCount * 4 + 64);
  auto work = slice_->Allocate((*op)->workspace_bytes());
  auto queue = slice_->CreateQueue("test");
  ASSERT_TRUE(buffer.ok() && work.ok() && queue.ok());
  Floats x(kCount);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1.0f / static_cast<float>(1 + i * 7919 % 1009);
  const BufferRange in = {buffer->get(), 0, kCount * 4};
  const BufferRange out = {buffer->get(), (kCount * 4 + 3) / 4 * 4, 4};
  EXPECT_EQ((*queue)->CopyFromHost(in, std::as_bytes(std::span(x))), OkStatus());
  Floats sums;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((*queue)->Enqueue(**op, std::span(&in, 1), std::span(&out, 1),
                                {work->get(), 0, (*op)->workspace_bytes()}),
              OkStatus());
    sums.push_back(Read(*slice_, **queue, out)[0]);
  }
  EXPECT_GT(sums[0], 0);
  EXPECT_THAT(sums, Each(sums[0]));
}

}  // namespace
}  // namespace oc

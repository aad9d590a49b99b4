// What the ascend leaf, opened as a module on the emulated libraries, has of its own. Its slices,
// queues and events are tested by tests/conformance/devices, its kernels by tests/conformance/ops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <thread>

#include "openclaw/devices/plugin.h"

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

// Before anything opens the libraries.
TEST(AscendWithoutLibrariesTest, SaysWhatToInstallAndSet) {
  setenv("ASCEND_HOME_PATH", "/nowhere", 1);
  auto leaf = LoadPlugin(ASCEND_MODULE);
  Status status = leaf.status();
  if (leaf.ok()) status = leaf->discover().status();
  if (status.ok()) GTEST_SKIP() << "the loader finds a toolkit's libraries by itself";
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("libascendcl.so cannot be opened"), HasSubstr("/nowhere/lib64"),
                    HasSubstr("CANN toolkit"), HasSubstr("set_env.sh")));
}

class AscendTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("ASCEND_HOME_PATH", ASCEND_EMULATOR, 1);
    auto leaf = LoadPlugin(ASCEND_MODULE);
    ASSERT_TRUE(leaf.ok()) << leaf.status();
    EXPECT_EQ(leaf->name, "ascend");
    auto devices = leaf->discover();
    ASSERT_TRUE(devices.ok()) << devices.status();
    ASSERT_EQ(devices->size(), 2u);
    device_ = std::move((*devices)[0]);
    second_ = std::move((*devices)[1]);
    slice_ = MakeSlice(*device_, {.threads = 1});
  }
  static std::unique_ptr<Slice> MakeSlice(Device& device, const SliceOptions& options) {
    auto slice = device.CreateSlice(options);
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
  std::unique_ptr<Device> device_, second_;
  std::unique_ptr<Slice> slice_;
};

TEST_F(AscendTest, ASliceSharesTheDevice) {
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(info.leaf, "ascend");
  EXPECT_EQ(info.name, "ascend:0");
  EXPECT_EQ(info.model, "Ascend910B-emulated");
  EXPECT_EQ(info.memory_bytes, int64_t{2} << 30);
  EXPECT_EQ(slice_->kind(), "ascend/Ascend910B-emulated/24u");
  EXPECT_EQ(slice_->enforcement(), Enforcement::kSoft);
  EXPECT_EQ(device_->CreateSlice({.threads = 25}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const Status status = device_->CreateSlice({.threads = 1, .options = {{"speed", "2"}}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'speed'"));
}

TEST_F(AscendTest, MemoryThatTheDeviceLacksIsExhausted) {
  const Status full = slice_->Allocate(int64_t{3} << 30).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), AllOf(HasSubstr("aclrtMalloc"), HasSubstr("ascend:0")));
}

TEST_F(AscendTest, WhatAnOpKeepsIsOfTheBudget) {
  // For each window where it begins: 8192 bytes.
  const OpRequest pool = Request("max_pool2d", {{DType::kF32, {1, 32, 32, 1}}},
                                 {{"kernel", std::vector<int64_t>{3, 3}},
                                  {"stride", std::vector<int64_t>{1, 1}},
                                  {"padding", std::vector<int64_t>{1, 1, 1, 1}}});
  auto slice = MakeSlice(*device_, {.threads = 1, .memory_bytes = 10000});
  auto buffer = slice->Allocate(4000);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  const Status refused = slice->Prepare(pool).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("constants"), HasSubstr("max_pool2d"), HasSubstr("4000 are taken")));
  buffer->reset();
  {
    auto op = slice->Prepare(pool);
    ASSERT_TRUE(op.ok()) << op.status();
    EXPECT_EQ(slice->Allocate(4000).status().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_TRUE(slice->Allocate(10000).ok());
}

// Freed, it would be given to others while the device writes there.
TEST_F(AscendTest, MemoryThatTheDeviceStillUsesStaysTaken) {
  auto slice = MakeSlice(*device_, {.threads = 1, .memory_bytes = 1 << 10});
  auto buffer = slice->Allocate(1000);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  setenv("ASCEND_EMULATOR_BUSY", "1", 1);
  buffer->reset();
  unsetenv("ASCEND_EMULATOR_BUSY");
  const Status refused = slice->Allocate(1000).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("1000 are taken"));
}

// Whether an executor is launched again, or each launch makes one; wherever the operands lie.
TEST_F(AscendTest, AnOpRunsAgainAtOtherAddresses) {
  auto buffer = slice_->Allocate(4096);
  auto queue = slice_->CreateQueue("test");
  ASSERT_TRUE(buffer.ok() && queue.ok());
  const Floats x = {1, 2, 3, 4};
  for (bool repeatable : {true, false}) {
    if (!repeatable) setenv("ASCEND_EMULATOR_NO_REPEAT", "1", 1);
    auto op = slice_->Prepare(Request("scale", {{DType::kF32, {4}}}, {{"factor", 2.0}}));
    ASSERT_TRUE(op.ok()) << op.status();
    for (int64_t at : {0, 64, 100}) {  // the last is not aligned
      const BufferRange in = {buffer->get(), at, 16}, out = {buffer->get(), at + 1024, 16};
      EXPECT_EQ((*queue)->CopyFromHost(in, std::as_bytes(std::span(x))), OkStatus());
      EXPECT_EQ((*queue)->Enqueue(**op, std::span(&in, 1), std::span(&out, 1), {}), OkStatus());
      EXPECT_THAT(Read(*slice_, **queue, out), ElementsAre(2, 4, 6, 8));
    }
    const BufferRange odd = {buffer->get(), 2, 16};
    EXPECT_EQ((*queue)->Enqueue(**op, std::span(&odd, 1), std::span(&odd, 1), {}).code(),
              absl::StatusCode::kInvalidArgument);
    unsetenv("ASCEND_EMULATOR_NO_REPEAT");
    queue = slice_->CreateQueue("test");  // the error stayed with the other
  }
}

// Of another device, whose runtime calls come from another thread.
TEST_F(AscendTest, AQueueOfAnotherDeviceWaitsForAnEvent) {
  auto other = MakeSlice(*second_, {.threads = 1});
  auto queue = slice_->CreateQueue("near"), far_queue = other->CreateQueue("far");
  auto done = slice_->CreateEvent(), far_event = other->CreateEvent();
  auto buffer = slice_->Allocate(64);
  ASSERT_TRUE(queue.ok() && far_queue.ok() && done.ok() && far_event.ok() && buffer.ok());
  const float seven = 7;
  EXPECT_EQ((*queue)->CopyFromHost({buffer->get(), 0, 4}, std::as_bytes(std::span(&seven, 1))),
            OkStatus());
  EXPECT_EQ((*queue)->Record(**done), OkStatus());
  std::thread([&] {
    EXPECT_EQ((*far_queue)->WaitFor(**done), OkStatus());
    EXPECT_EQ((*far_queue)->Record(**far_event), OkStatus());
  }).join();
  EXPECT_EQ((*far_event)->Wait(60), OkStatus());
  EXPECT_TRUE((*done)->Ready());
  auto unrecorded = slice_->CreateEvent();
  EXPECT_EQ((*queue)->WaitFor(**unrecorded).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(AscendTest, AFaultOfTheDeviceIsUnavailable) {
  auto op = slice_->Prepare(Request("relu", {{DType::kF32, {4}}}));
  auto buffer = slice_->Allocate(128);
  ASSERT_TRUE(op.ok() && buffer.ok());
  const BufferRange in = {buffer->get(), 0, 16}, out = {buffer->get(), 64, 16};
  for (const char* code : {"507010", "507014", "507015", "507017", "507018", "507034", "507035",
                           "507036", "507053", "507054", "507056", "507899"}) {
    auto queue = slice_->CreateQueue("test");
    auto event = slice_->CreateEvent();
    ASSERT_TRUE(queue.ok() && event.ok());
    setenv("ASCEND_EMULATOR_FAULT", code, 1);
    EXPECT_EQ((*queue)->Enqueue(**op, std::span(&in, 1), std::span(&out, 1), {}), OkStatus());
    unsetenv("ASCEND_EMULATOR_FAULT");
    EXPECT_EQ((*queue)->Record(**event), OkStatus());
    const Status status = (*event)->Wait(60);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << code;
    EXPECT_THAT(std::string(status.message()), HasSubstr(code));
  }
}

TEST_F(AscendTest, MemoryOfAnotherSliceIsRefused) {
  auto other = MakeSlice(*second_, {.threads = 1});
  auto buffer = other->Allocate(64);
  auto queue = slice_->CreateQueue("test");
  ASSERT_TRUE(buffer.ok() && queue.ok());
  const float x = 1;
  const Status status =
      (*queue)->CopyFromHost({buffer->get(), 0, 4}, std::as_bytes(std::span(&x, 1)));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another slice"));
}

TEST_F(AscendTest, WhatItLacksIsNamed) {
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
  // What its operators do not take is the same.
  auto deep = slice_->Support(Request("copy", {{DType::kF32, {1, 1, 1, 1, 1, 1, 1, 1, 2}}}));
  ASSERT_TRUE(deep.ok()) << deep.status();
  EXPECT_FALSE(deep->supported);
  EXPECT_THAT(deep->reason, AllOf(HasSubstr("copy"), HasSubstr("at most 8 dimensions")));
}

}  // namespace
}  // namespace oc

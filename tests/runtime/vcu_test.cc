// Copies between the host and a VCU's memory, also on a device that does them after everybody gave
// up.
#include "openclaw/runtime/vcu.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

namespace oc {
namespace {

class FakeBuffer : public Buffer {
 public:
  explicit FakeBuffer(int64_t bytes) : memory(static_cast<size_t>(bytes)) {}
  int64_t bytes() const override { return static_cast<int64_t>(memory.size()); }
  std::byte* at(int64_t offset) { return memory.data() + offset; }
  std::vector<std::byte> memory;
};

// What is enqueued is done when the event is waited for; on a late device when the queue goes.
struct FakeDevice {
  bool late = false;
  int copies = 0;
  std::vector<std::function<void()>> pending;
  void Do() {
    for (const auto& work : pending) work();
    pending.clear();
  }
};

class FakeEvent : public Event {
 public:
  explicit FakeEvent(FakeDevice& device) : device_(device) {}
  bool Ready() const override { return !device_.late; }
  Status Wait(double) override {
    if (device_.late) return absl::DeadlineExceededError("no signal");
    device_.Do();
    return OkStatus();
  }

 private:
  FakeDevice& device_;
};

class FakeQueue : public Queue {
 public:
  explicit FakeQueue(FakeDevice& device) : device_(device) {}
  ~FakeQueue() override { device_.Do(); }
  Status Enqueue(PreparedOp&, std::span<const BufferRange>, std::span<const BufferRange>,
                 BufferRange) override {
    return Unimplemented("no ops");
  }
  Status CopyFromHost(BufferRange to, std::span<const std::byte> from) override {
    return Later([to, from] { std::memcpy(At(to), from.data(), from.size()); });
  }
  Status CopyToHost(std::span<std::byte> to, BufferRange from) override {
    return Later([to, from] { std::memcpy(to.data(), At(from), to.size()); });
  }
  Status Copy(BufferRange to, BufferRange from) override {
    return Later([to, from] { std::memmove(At(to), At(from), static_cast<size_t>(from.bytes)); });
  }
  Status Record(Event&) override { return OkStatus(); }
  Status WaitFor(Event&) override { return OkStatus(); }

 private:
  static std::byte* At(BufferRange r) { return static_cast<FakeBuffer*>(r.buffer)->at(r.offset); }
  Status Later(std::function<void()> work) {
    ++device_.copies;
    device_.pending.push_back(std::move(work));
    return OkStatus();
  }
  FakeDevice& device_;
};

class FakeSlice : public Slice {
 public:
  explicit FakeSlice(FakeDevice& device) : device_(device) {}
  std::string kind() const override { return "fake"; }
  Enforcement enforcement() const override { return Enforcement::kNone; }
  std::vector<DType> dtypes() const override { return {}; }
  StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override {
    auto buffer = std::make_unique<FakeBuffer>(bytes);
    return std::unique_ptr<Buffer>(std::move(buffer));
  }
  StatusOr<std::unique_ptr<Queue>> CreateQueue(const std::string&) override {
    return std::unique_ptr<Queue>(std::make_unique<FakeQueue>(device_));
  }
  StatusOr<std::unique_ptr<Event>> CreateEvent() override {
    return std::unique_ptr<Event>(std::make_unique<FakeEvent>(device_));
  }
  StatusOr<std::unique_ptr<PreparedOp>> Prepare(const OpRequest&) override {
    return Unimplemented("no ops");
  }
  StatusOr<OpSupport> Support(const OpRequest&) override { return OpSupport(); }
  std::span<std::byte> HostView(BufferRange) override { return {}; }

 private:
  FakeDevice& device_;
};

std::vector<std::byte> Counting(size_t bytes) {
  std::vector<std::byte> values(bytes);
  for (size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>(i * 7 + i / 251);
  return values;
}

class VcuTest : public ::testing::Test {
 protected:
  FakeDevice device_;
  std::unique_ptr<Vcu> vcu_ =
      std::make_unique<Vcu>(0, std::make_unique<FakeSlice>(device_), nullptr);
};

TEST_F(VcuTest, WhatIsWrittenIsRead) {
  const int64_t bytes = (int64_t{9} << 20) + 13;  // in several pieces
  ASSERT_EQ(vcu_->Reserve(bytes + 64, 64), OkStatus());
  const std::vector<std::byte> values = Counting(static_cast<size_t>(bytes));
  ASSERT_EQ(vcu_->Write({Arena::kState, 64, bytes}, values), OkStatus());
  std::vector<std::byte> read(values.size());
  ASSERT_EQ(vcu_->Read(read, {Arena::kState, 64, bytes}), OkStatus());
  EXPECT_EQ(read, values);
  EXPECT_EQ(device_.copies, 6);
}

// The caller's memory is its own again once Write and Read return.
TEST_F(VcuTest, ACopyThatComesLateTouchesNothingOfTheCaller) {
  ASSERT_EQ(vcu_->Reserve(256, 64), OkStatus());
  device_.late = true;
  auto values = std::make_unique<std::vector<std::byte>>(Counting(100));
  EXPECT_EQ(vcu_->Write({Arena::kState, 0, 100}, *values).code(),
            absl::StatusCode::kDeadlineExceeded);
  values.reset();
  // The device is not asked again: its staging is in use.
  std::vector<std::byte> read(100, std::byte{5});
  EXPECT_EQ(vcu_->Read(read, {Arena::kState, 0, 100}).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(device_.copies, 1);
  vcu_ = nullptr;  // now the copy is done
  EXPECT_TRUE(device_.pending.empty());
  EXPECT_EQ(read, std::vector<std::byte>(100, std::byte{5}));
}

TEST_F(VcuTest, AReadThatComesLateTouchesNothingOfTheCaller) {
  ASSERT_EQ(vcu_->Reserve(256, 64), OkStatus());
  device_.late = true;
  std::vector<std::byte> read(100, std::byte{5});
  EXPECT_EQ(vcu_->Read(read, {Arena::kState, 0, 100}).code(), absl::StatusCode::kDeadlineExceeded);
  vcu_ = nullptr;
  EXPECT_EQ(read, std::vector<std::byte>(100, std::byte{5}));
}

}  // namespace
}  // namespace oc

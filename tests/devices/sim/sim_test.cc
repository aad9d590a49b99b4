#include "openclaw/devices/sim/sim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "openclaw/core/clock.h"
#include "openclaw/devices/export.h"
#include "openclaw/devices/reference/reference.h"
#include "openclaw/devices/sim/memory.h"

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Options = std::map<std::string, std::string>;

// Whether this thread may read the byte: the system is asked, so nothing faults.
bool Accessible(const void* byte) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const bool readable = write(ends[1], byte, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return readable;
}

// A door that kernels wait at.
class Gate {
 public:
  void Close() { Set(false); }
  void Open() { Set(true); }
  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return open_; }));
  }

 private:
  void Set(bool open) {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
};
Gate gate;
std::atomic<const std::byte*> seen_memory{nullptr};
std::atomic<bool> seen_accessible{false};

// "relu" waits at the gate and then copies; "exp" tells where its output lies, and writes ones.
Status WaitAtGate(const OpRequest& request, const KernelArgs& args) {
  gate.Pass();
  const int64_t n = request.inputs[0].shape.num_elements();
  std::copy(args.in<float>(0), args.in<float>(0) + n, args.out<float>(0));
  return OkStatus();
}
Status ShowMemory(const OpRequest& request, const KernelArgs& args) {
  seen_memory = args.outputs[0];
  seen_accessible = Accessible(args.outputs[0]) && Accessible(args.inputs[0]);
  std::fill_n(args.out<float>(0), request.outputs[0].shape.num_elements(), 1.0f);
  return OkStatus();
}
KernelRegistries Kernels() {
  auto own = std::make_shared<KernelRegistry>();
  own->Add("relu", StatelessKernel(&WaitAtGate, "gate"));
  own->Add("exp", StatelessKernel(&ShowMemory, "show"));
  return {own, ReferenceKernels()};
}
StatusOr<std::vector<std::unique_ptr<Device>>> Discover() { return DiscoverSim(Kernels()); }

class SimTest : public ::testing::Test {
 protected:
  SimTest() : device_(std::move((*Discover())[0])) { gate.Open(); }
  ~SimTest() override { gate.Open(); }

  void Open(const Options& options, int64_t memory_bytes = 0) {
    queue_ = nullptr;
    ops_.clear();
    event_ = nullptr;
    buffer_ = nullptr;
    auto slice = device_->CreateSlice({.memory_bytes = memory_bytes, .options = options});
    ASSERT_TRUE(slice.ok()) << slice.status();
    slice_ = *std::move(slice);
    buffer_ = *slice_->Allocate(kBytes);
    event_ = *slice_->CreateEvent();
    queue_ = *slice_->CreateQueue("compute");
  }
  // `count` floats from float `at` of the buffer on.
  BufferRange Floats(int64_t at, int64_t count) { return {buffer_.get(), 4 * at, 4 * count}; }
  OpRequest Request(const std::string& op, std::vector<TensorType> inputs, Attributes attrs = {}) {
    OpRequest r{.def = BuiltinOps()->Find(op), .attrs = std::move(attrs), .inputs = inputs};
    auto outputs = r.def->infer({r.inputs, r.attrs});
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    if (outputs.ok()) r.outputs = *std::move(outputs);
    return r;
  }
  std::unique_ptr<PreparedOp> Prepare(const OpRequest& request) {
    auto op = slice_->Prepare(request);
    EXPECT_TRUE(op.ok()) << op.status();
    return op.ok() ? *std::move(op) : nullptr;
  }
  // Float `from` to float `to`, with an op of one float each.
  void Enqueue(Queue& queue, const std::string& name, int64_t from, int64_t to) {
    auto& op = ops_[name];
    if (op == nullptr) op = Prepare(Request(name, {{DType::kF32, {1}}}));
    const std::vector<BufferRange> in = {Floats(from, 1)}, out = {Floats(to, 1)};
    EXPECT_EQ(queue.Enqueue(*op, in, out, {}), OkStatus());
  }
  void Write(int64_t at, std::vector<float> values) {
    EXPECT_EQ(queue_->CopyFromHost(Floats(at, static_cast<int64_t>(values.size())),
                                   std::as_bytes(std::span(values))),
              OkStatus());
    EXPECT_EQ(Done(*queue_), OkStatus());
  }
  std::vector<float> Read(int64_t at, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    EXPECT_EQ(queue_->CopyToHost(std::as_writable_bytes(std::span(values)), Floats(at, count)),
              OkStatus());
    EXPECT_EQ(Done(*queue_), OkStatus());
    return values;
  }
  Status Done(Queue& queue, double timeout_seconds = 20) {
    EXPECT_EQ(queue.Record(*event_), OkStatus());
    return event_->Wait(timeout_seconds);
  }
  static std::string Message(const Status& status) { return std::string(status.message()); }

  static constexpr int64_t kBytes = 1 << 16;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Slice> slice_;
  std::unique_ptr<Buffer> buffer_;
  std::unique_ptr<Event> event_;
  std::map<std::string, std::unique_ptr<PreparedOp>> ops_;
  std::unique_ptr<Queue> queue_;  // the first to go
};

// ---- Memory ----

TEST_F(SimTest, MemoryIsOpenOnlyWhileWorkUsesIt) {
  Open({});
  EXPECT_TRUE(slice_->HostView(Floats(0, 4)).empty());
  Enqueue(*queue_, "exp", 0, 5);
  ASSERT_EQ(Done(*queue_), OkStatus());
  EXPECT_TRUE(seen_accessible);
  ASSERT_NE(seen_memory.load(), nullptr);
  EXPECT_FALSE(Accessible(seen_memory));
  EXPECT_THAT(Read(4, 3), ElementsAre(0, 1, 0));
  EXPECT_FALSE(Accessible(seen_memory));
  buffer_ = nullptr;
  EXPECT_FALSE(Accessible(seen_memory));
}

TEST_F(SimTest, TwoUsersOfABufferBothHaveIt) {
  auto used = std::make_shared<std::atomic<int64_t>>(100);
  auto memory = sim::SimMemory::Create(100, used);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const auto first = (*memory)->Acquire();
  ASSERT_TRUE(first.ok() && (*memory)->Acquire().ok());
  (*memory)->Release();
  EXPECT_TRUE(Accessible(*first + 99));
  EXPECT_FALSE(Accessible(*first + sysconf(_SC_PAGESIZE)));  // behind the memory
  (*memory)->Release();
  EXPECT_FALSE(Accessible(*first));
  (*memory)->Free();
  EXPECT_EQ(used->load(), 0);
  EXPECT_EQ((*memory)->Acquire().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SimTest, HighWaterIsTheHighestByteWritten) {
  Open({});
  EXPECT_EQ(slice_->HighWater(*buffer_), 0);
  Write(10, {1, 2});
  EXPECT_EQ(slice_->HighWater(*buffer_), 48);
  Read(1000, 5);
  Enqueue(*queue_, "exp", 500, 99);
  ASSERT_EQ(Done(*queue_), OkStatus());
  EXPECT_EQ(slice_->HighWater(*buffer_), 400);
  EXPECT_EQ(queue_->Copy(Floats(200, 3), Floats(0, 3)), OkStatus());
  ASSERT_EQ(Done(*queue_), OkStatus());
  EXPECT_EQ(slice_->HighWater(*buffer_), 812);
}

TEST_F(SimTest, FreeWaitsForTheWorkThatUsesTheMemory) {
  Open({});
  gate.Close();
  auto other = *slice_->Allocate(64);
  auto op = Prepare(Request("relu", {{DType::kF32, {1}}}));
  const std::vector<BufferRange> in = {{other.get(), 0, 4}}, out = {{other.get(), 4, 4}};
  Enqueue(*queue_, "relu", 0, 1);
  EXPECT_EQ(queue_->Enqueue(*op, in, out, {}), OkStatus());
  EXPECT_EQ(queue_->Record(*event_), OkStatus());
  op = nullptr;
  std::atomic<bool> freed{false};
  std::thread frees([&] {
    other = nullptr;
    freed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(freed);
  gate.Open();
  frees.join();
  EXPECT_EQ(event_->Wait(20), OkStatus());
}

TEST_F(SimTest, ARangeBeyondTheBufferIsRefused) {
  Open({});
  std::vector<std::byte> host(8);
  const Status status = queue_->CopyFromHost({buffer_.get(), kBytes - 4, 8}, host);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("bytes 65532 to 65540 of a buffer of 65536"));
}

TEST_F(SimTest, BudgetAndOutOfMemoryHold) {
  Open({}, kBytes + 1000);
  auto most = slice_->Allocate(600);
  ASSERT_TRUE(most.ok()) << most.status();
  const Status status = slice_->Allocate(401).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("sim:0"), HasSubstr("budget is 66536")));
  most->reset();
  EXPECT_TRUE(slice_->Allocate(1000).ok());

  Open({{"out_of_memory_at", "70000"}});
  EXPECT_TRUE(slice_->Allocate(4464).ok());
  EXPECT_EQ(slice_->Allocate(4465).status().code(), absl::StatusCode::kResourceExhausted);
}

// ---- Queues and events ----

TEST_F(SimTest, EnqueueReturnsAtOnceAndWaitKeepsItsTimeout) {
  Open({});
  Write(0, {9});
  gate.Close();
  Enqueue(*queue_, "relu", 0, 1);
  Enqueue(*queue_, "sqrt", 1, 2);
  EXPECT_EQ(queue_->Record(*event_), OkStatus());
  EXPECT_FALSE(event_->Ready());
  const double begin = NowSeconds();
  const Status status = event_->Wait(0.05);
  EXPECT_GE(NowSeconds() - begin, 0.05);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(status), HasSubstr("of sim:0, queue compute, after sqrt f32[1]"));
  gate.Open();
  EXPECT_EQ(event_->Wait(20), OkStatus());
  EXPECT_TRUE(event_->Ready());
  EXPECT_THAT(Read(1, 2), ElementsAre(9, 3));
}

// One queue waits at the gate; the other must wait for it, however early it was told to.
TEST_F(SimTest, AQueueWaitsForAnother) {
  Open({});
  auto second = *slice_->CreateQueue("second");
  auto handed = *slice_->CreateEvent();
  Write(0, {49});
  gate.Close();
  Enqueue(*queue_, "relu", 0, 1);
  EXPECT_EQ(queue_->Record(*handed), OkStatus());
  EXPECT_EQ(second->WaitFor(*handed), OkStatus());
  Enqueue(*second, "sqrt", 1, 2);
  EXPECT_EQ(Done(*second, 0.05).code(), absl::StatusCode::kDeadlineExceeded);
  gate.Open();
  EXPECT_EQ(Done(*second), OkStatus());
  EXPECT_THAT(Read(2, 1), ElementsAre(7));
}

TEST_F(SimTest, AnErrorComesWithEveryLaterEventAlsoOfQueuesThatWait) {
  Open({});
  auto second = *slice_->CreateQueue("second");
  auto op = Prepare(Request("cross_entropy", {{DType::kF32, {1, 4}}, {DType::kI32, {1}}}));
  const int32_t label = 7;
  EXPECT_EQ(queue_->CopyFromHost(Floats(4, 1), std::as_bytes(std::span(&label, 1))), OkStatus());
  const std::vector<BufferRange> in = {Floats(0, 4), Floats(4, 1)},
                                 out = {Floats(8, 1), Floats(9, 1)};
  EXPECT_EQ(Done(*queue_), OkStatus());
  EXPECT_EQ(queue_->Enqueue(*op, in, out, {}), OkStatus());
  Enqueue(*queue_, "exp", 0, 20);
  EXPECT_EQ(Done(*queue_).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Done(*second), OkStatus());
  EXPECT_EQ(queue_->Record(*event_), OkStatus());
  EXPECT_EQ(second->WaitFor(*event_), OkStatus());
  const Status status = Done(*second);
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(Message(status), HasSubstr("label 7"));
  // What came after the error was left out.
  queue_ = *slice_->CreateQueue("third");
  EXPECT_THAT(Read(20, 1), ElementsAre(0));
}

TEST_F(SimTest, DestroyingAQueueRunsWhatIsEnqueued) {
  Open({{"latency_us", "1e6"}});
  constexpr int kCopies = 20;
  std::vector<float> source(kCopies, 4), target(kCopies);
  const double begin = NowSeconds();
  for (int i = 0; i < kCopies; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_EQ(queue_->CopyFromHost(Floats(i, 1), std::as_bytes(std::span(source).subspan(at, 1))),
              OkStatus());
    EXPECT_EQ(
        queue_->CopyToHost(std::as_writable_bytes(std::span(target).subspan(at, 1)), Floats(i, 1)),
        OkStatus());
  }
  queue_ = nullptr;
  EXPECT_LT(NowSeconds() - begin, 20);  // of 40 that they are to take
  EXPECT_THAT(target, Each(4));
}

TEST_F(SimTest, DestroyingAQueueGivesUpAnEventThatNobodyRecords) {
  Open({});
  auto never = *slice_->CreateEvent();
  EXPECT_EQ(queue_->WaitFor(*never), OkStatus());
  EXPECT_EQ(queue_->Record(*event_), OkStatus());
  EXPECT_FALSE(event_->Ready());
  queue_ = nullptr;
  EXPECT_EQ(event_->Wait(1).code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Message(never->Wait(0.01)), HasSubstr("an event that was not recorded"));
}

// ---- Time ----

// An op, and how long the unit says and shows that it takes.
TEST_F(SimTest, AnOpTakesItsModelledTime) {
  const OpRequest request = Request("matmul", {{DType::kF32, {32, 32}}, {DType::kF32, {32, 32}}});
  for (const auto& [speed, seconds] : {std::pair{"1", 0.0655}, {"2", 0.0328}, {"0.5", 0.131}}) {
    Open({{"speed", speed}, {"flops", "1e6"}});
    auto support = slice_->Support(request);
    ASSERT_TRUE(support.ok() && support->supported);
    EXPECT_NEAR(support->seconds, seconds, 0.01 * seconds);
    auto op = Prepare(request);
    const std::vector<BufferRange> in = {Floats(0, 1024), Floats(1024, 1024)},
                                   out = {Floats(2048, 1024)};
    const double begin = NowSeconds();
    EXPECT_EQ(queue_->Enqueue(*op, in, out, {}), OkStatus());
    EXPECT_LT(NowSeconds() - begin, 0.02);
    EXPECT_EQ(Done(*queue_), OkStatus());
    EXPECT_GE(NowSeconds() - begin, 0.99 * seconds);
    EXPECT_LT(NowSeconds() - begin, seconds + 2);
    queue_ = nullptr;
  }
}

TEST_F(SimTest, CopiesTakeLatencyAndBandwidth) {
  Open({{"latency_us", "20000"}, {"bandwidth_gbps", "0.001"}});
  const std::vector<float> values(5000, 1);
  const double begin = NowSeconds();
  Write(0, values);  // 20 ms, and 20000 bytes at 1 MB/s
  EXPECT_GE(NowSeconds() - begin, 0.04);
  const double middle = NowSeconds();
  Read(0, 10000);  // 20 ms, and 40 ms
  EXPECT_GE(NowSeconds() - middle, 0.06);
}

TEST_F(SimTest, KindsTellWhatCostsDependOn) {
  const auto kind = [&](const Options& options) {
    auto slice = device_->CreateSlice({.threads = 2, .options = options});
    EXPECT_TRUE(slice.ok()) << slice.status();
    return slice.ok() ? (*slice)->kind() : "";
  };
  EXPECT_EQ(kind({}), "sim/host/2t");
  EXPECT_EQ(kind({{"speed", "2.0"}, {"latency_us", "5"}}), "sim/2x/2t");
  EXPECT_EQ(kind({{"flops", "1e9"}}), "sim/1x,flops=1e+09/2t");
  EXPECT_EQ(kind({{"speed", "0.5"}, {"memory_gbps", "3"}, {"dtypes", "f32, i32"}}),
            "sim/0.5x,memory_gbps=3,dtypes=f32+i32/2t");
}

TEST_F(SimTest, OnlyTheDTypesThatItIsToHave) {
  Open({{"dtypes", "f32,i32"}});
  EXPECT_THAT(slice_->dtypes(), ElementsAre(DType::kF32, DType::kI32));
  const OpRequest request = Request("sqrt", {{DType::kBF16, {4}}});
  EXPECT_FALSE(slice_->Support(request)->supported);
  const Status status = slice_->Prepare(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("sqrt bf16[4]"), HasSubstr("sim/host"),
                                     HasSubstr("no kernel for bf16")));
  EXPECT_TRUE(slice_->Prepare(Request("sqrt", {{DType::kF32, {4}}})).ok());
}

// ---- Faults ----

TEST_F(SimTest, ADeviceIsLostAtAnOp) {
  Open({{"fail_at", "2"}});
  auto second = *slice_->CreateQueue("second");
  Enqueue(*queue_, "exp", 0, 1);
  EXPECT_EQ(Done(*queue_), OkStatus());
  Enqueue(*queue_, "sqrt", 1, 2);
  const Status status = Done(*queue_);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), HasSubstr("device lost: sim:0, at op 2, sqrt f32[1]"));
  for (Queue* queue : {queue_.get(), second.get()}) {
    Enqueue(*queue, "exp", 0, 3);
    EXPECT_EQ(Done(*queue).code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(slice_->Allocate(1).status().code(), absl::StatusCode::kUnavailable);
  // Another unit of the device lives.
  Open({});
  Enqueue(*queue_, "exp", 0, 1);
  EXPECT_EQ(Done(*queue_), OkStatus());
}

TEST_F(SimTest, FaultsCountTheOpsOfAQueueAlone) {
  Open({{"fail_at", "2"}, {"faults_on", "second"}});
  auto second = *slice_->CreateQueue("second");
  for (int i = 0; i < 3; ++i) Enqueue(*queue_, "exp", 0, 1);
  Enqueue(*second, "exp", 0, 1);
  EXPECT_EQ(Done(*queue_), OkStatus());
  EXPECT_EQ(Done(*second), OkStatus());
  Enqueue(*second, "exp", 0, 1);
  EXPECT_EQ(Done(*second).code(), absl::StatusCode::kUnavailable);
}

TEST_F(SimTest, AnEventThatNeverSignals) {
  Open({{"never_signal_at", "1"}});
  auto second = *slice_->CreateQueue("second");
  auto never = *slice_->CreateEvent(), behind = *slice_->CreateEvent();
  Enqueue(*queue_, "exp", 0, 1);
  EXPECT_EQ(queue_->Record(*never), OkStatus());
  EXPECT_EQ(second->WaitFor(*never), OkStatus());
  EXPECT_EQ(second->Record(*behind), OkStatus());
  EXPECT_EQ(Done(*queue_), OkStatus());  // the work went on
  const Status status = never->Wait(0.05);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("sim:0"), HasSubstr("after exp f32[1]")));
  EXPECT_FALSE(never->Ready());
  EXPECT_FALSE(behind->Ready());
  second = nullptr;
  EXPECT_EQ(behind->Wait(1).code(), absl::StatusCode::kCancelled);
  // Recorded again it stands for a newer point.
  EXPECT_EQ(queue_->Record(*never), OkStatus());
  EXPECT_EQ(never->Wait(20), OkStatus());
}

// ---- Options ----

TEST_F(SimTest, BadOptionsAreNamed) {
  const auto error = [&](const Options& options) {
    const Status status = device_->CreateSlice({.options = options}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return Message(status);
  };
  EXPECT_THAT(error({{"sped", "2"}}),
              AllOf(HasSubstr("slice of sim:0"), HasSubstr("'sped'; did you mean 'speed'?")));
  EXPECT_THAT(error({{"colour", "red"}}), HasSubstr("known here: bandwidth_gbps, dtypes, "));
  EXPECT_THAT(error({{"speed", "fast"}}), HasSubstr("'speed' is 'fast', which must be a number"));
  EXPECT_THAT(error({{"speed", "0"}}), HasSubstr("above 0"));
  EXPECT_THAT(error({{"speed", "inf"}}), HasSubstr("above 0"));
  EXPECT_THAT(error({{"latency_us", "-1"}}), HasSubstr("at least 0"));
  EXPECT_THAT(error({{"fail_at", "1.5"}}), HasSubstr("an integer of at least 1"));
  EXPECT_THAT(error({{"dtypes", "f32,f31"}}), HasSubstr("f31"));
  EXPECT_THAT(error({{"faults_on", "compute"}}), HasSubstr("needs 'fail_at'"));
}

TEST(SimThroughTheTable, OptionsAndEventsArrive) {
  const DeviceLeaf leaf = ThroughTable<&Discover>("sim");
  auto devices = leaf.discover();
  ASSERT_TRUE(devices.ok()) << devices.status();
  auto slice = (*devices)[0]->CreateSlice({.options = {{"speed", "3"}, {"fail_at", "1"}}});
  ASSERT_TRUE(slice.ok()) << slice.status();
  EXPECT_EQ((*slice)->kind(), "sim/3x/1t");
  auto buffer = *(*slice)->Allocate(64);
  EXPECT_TRUE((*slice)->HostView({buffer.get(), 0, 64}).empty());
  const TensorType one = {DType::kF32, {1}};
  auto op =
      (*slice)->Prepare({.def = BuiltinOps()->Find("sqrt"), .inputs = {one}, .outputs = {one}});
  ASSERT_TRUE(op.ok()) << op.status();
  auto event = *(*slice)->CreateEvent();
  auto queue = *(*slice)->CreateQueue("compute");
  const std::vector<BufferRange> in = {{buffer.get(), 0, 4}}, out = {{buffer.get(), 4, 4}};
  EXPECT_EQ(queue->Enqueue(**op, in, out, {}), OkStatus());
  EXPECT_EQ(queue->Record(*event), OkStatus());
  EXPECT_EQ(event->Wait(20).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ((*devices)[0]->CreateSlice({.options = {{"sped", "3"}}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace oc

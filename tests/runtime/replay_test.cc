// Steps that devices capture: which commands make a run, how a run is captured and launched, and
// that training over it is the same bit by bit.
#include "openclaw/runtime/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "openclaw/devices/reference/reference.h"
#include "openclaw/devices/sim/sim.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/runtime/data/synthetic.h"
#include "openclaw/runtime/pipeline.h"
#include "openclaw/runtime/runs.h"

namespace oc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- Runs ----

class RunsTest : public ::testing::Test {
 protected:
  RunsTest() { p_.lanes = {{LaneKind::kCompute, 0}, {LaneKind::kHost, 0}, {LaneKind::kGroup, 0}}; }
  int Add(CommandKind kind, int lane, std::vector<int> waits = {}, Arena arena = Arena::kStep) {
    Command c{.kind = kind, .lane = lane, .waits = std::move(waits)};
    (kind == CommandKind::kSnapshot ? c.reads : c.writes).push_back({arena, 0, 64});
    p_.commands.push_back(std::move(c));
    return static_cast<int>(p_.commands.size()) - 1;
  }
  int Compute(std::vector<int> waits = {}) {
    return Add(CommandKind::kCompute, 0, std::move(waits));
  }
  int Feed(std::vector<int> waits = {}, Arena arena = Arena::kStep) {
    return Add(CommandKind::kFeed, 1, std::move(waits), arena);
  }
  int Snapshot(std::vector<int> waits) { return Add(CommandKind::kSnapshot, 1, std::move(waits)); }
  int Reduce(std::vector<int> waits) { return Add(CommandKind::kCollective, 2, std::move(waits)); }

  VcuProgram p_;
};

TEST_F(RunsTest, AStepOnOneDeviceIsOneRun) {
  const int feed = Feed();
  const int next = Feed();
  const int f0 = Compute({feed});
  Feed({f0});  // where the first was
  Compute({next});
  Snapshot({f0});
  Compute();
  const Runs runs = FindRuns(p_);
  ASSERT_EQ(runs.runs.size(), 1u);
  EXPECT_THAT(runs.runs[0].commands, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(runs.runs[0].waits, IsEmpty());
  EXPECT_TRUE(runs.all(p_));
}

// What a transfer waits for ends a run, and what waits for a transfer begins one.
TEST_F(RunsTest, TransfersAreNeitherDelayedNorWaitedForTooEarly) {
  const int feed = Feed();
  const int backward = Compute({feed});
  const int first = Reduce({backward});
  const int more = Compute();
  const int more_still = Compute();
  const int second = Reduce({more_still});
  const int update = Compute({first});
  const int last = Compute({second});
  const int metrics = Snapshot({first, last});
  const Runs runs = FindRuns(p_);
  ASSERT_EQ(runs.runs.size(), 4u);
  EXPECT_THAT(runs.runs[0].commands, ElementsAre(feed, backward));
  EXPECT_THAT(runs.runs[1].commands, ElementsAre(more, more_still));
  EXPECT_THAT(runs.runs[2].commands, ElementsAre(update));
  EXPECT_THAT(runs.runs[2].waits, ElementsAre(first));
  EXPECT_THAT(runs.runs[3].commands, ElementsAre(last, metrics));
  EXPECT_THAT(runs.runs[3].waits, ElementsAre(second));
  EXPECT_EQ(runs.run_of[first], kNone);
  EXPECT_FALSE(runs.all(p_));
}

// The host's lane keeps its order: with a feed of the host's own memory no part of it moves.
TEST_F(RunsTest, TheHostsLaneJoinsAsAWholeOrNotAtAll) {
  const int feed = Feed();
  Feed({}, Arena::kHost);
  const int compute = Compute({feed});
  const Runs runs = FindRuns(p_);
  ASSERT_EQ(runs.runs.size(), 1u);
  EXPECT_THAT(runs.runs[0].commands, ElementsAre(compute));
  EXPECT_THAT(runs.runs[0].waits, ElementsAre(feed));
}

// ---- Replay ----

// Refuses to capture what it is told to.
class Refusing : public Queue {
 public:
  explicit Refusing(std::unique_ptr<Queue> queue) : queue_(std::move(queue)) {}
  Status Enqueue(PreparedOp& op, std::span<const BufferRange> inputs,
                 std::span<const BufferRange> outputs, BufferRange workspace) override {
    if (capturing_ && &op == refused) return Unimplemented("this op must not be captured");
    return queue_->Enqueue(op, inputs, outputs, workspace);
  }
  Status CopyFromHost(BufferRange to, std::span<const std::byte> from) override {
    return queue_->CopyFromHost(to, from);
  }
  Status CopyToHost(std::span<std::byte> to, BufferRange from) override {
    return queue_->CopyToHost(to, from);
  }
  Status Copy(BufferRange to, BufferRange from) override { return queue_->Copy(to, from); }
  Status Record(Event& event) override { return queue_->Record(event); }
  Status WaitFor(Event& event) override { return queue_->WaitFor(event); }
  Status BeginCapture() override {
    capturing_ = true;
    return queue_->BeginCapture();
  }
  StatusOr<std::unique_ptr<CapturedWork>> EndCapture() override {
    capturing_ = false;
    return queue_->EndCapture();
  }
  Status Launch(CapturedWork& work) override {
    ++launches;
    return queue_->Launch(work);
  }
  Status BeginIfFinite(BufferRange value) override {
    return conditions ? queue_->BeginIfFinite(value) : Queue::BeginIfFinite(value);
  }
  Status EndIf() override { return queue_->EndIf(); }

  PreparedOp* refused = nullptr;
  bool conditions = true;
  int launches = 0;

 private:
  std::unique_ptr<Queue> queue_;
  bool capturing_ = false;
};

// y = relu(x), twice = y + y; where `number` is finite: sum += twice, both += y; last = y.
class ReplayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto devices = DiscoverSim({ReferenceKernels()});
    ASSERT_TRUE(devices.ok()) << devices.status();
    device_ = std::move((*devices)[0]);
    slice_ = *device_->CreateSlice({.threads = 1});
    buffer_ = *slice_->Allocate(4096);
    queue_ = std::make_unique<Refusing>(*slice_->CreateQueue("compute"));
    event_ = *slice_->CreateEvent();
    const TensorType four = {DType::kF32, {4}};
    relu_ = *slice_->Prepare({.def = ops_->Find("relu"), .inputs = {four}, .outputs = {four}});
    for (auto* op : {&twice_, &sum_, &both_}) {
      *op = *slice_->Prepare({.def = ops_->Find("add"), .inputs = {four, four}, .outputs = {four}});
    }
    host_ = *slice_->AllocateHost(1024);
    Call(relu_, {0}, 64);
    Call(twice_, {64, 64}, 128);
    Call(sum_, {128, 192}, 192);
    Call(both_, {64, 256}, 256);
    Call(relu_, {64}, 320);
  }
  BufferRange At(int64_t offset) const { return {buffer_.get(), offset, 16}; }
  void Call(const std::unique_ptr<PreparedOp>& op, const std::vector<int64_t>& inputs,
            int64_t output) {
    auto ranges = std::make_unique<std::vector<BufferRange>>();
    for (int64_t at : inputs) ranges->push_back(At(at));
    ranges->push_back(At(output));
    calls_.push_back({.op = op.get(),
                      .inputs = ranges->data(),
                      .outputs = ranges->data() + inputs.size(),
                      .num_inputs = inputs.size(),
                      .num_outputs = 1});
    ranges_.push_back(std::move(ranges));
  }
  std::span<std::byte> Host(size_t at, size_t bytes = 16) {
    return host_->bytes().subspan(at, bytes);
  }
  std::unique_ptr<Replay> Make() {
    auto replay = std::make_unique<Replay>(*queue_, [this]() -> Status {
      OC_RETURN_IF_ERROR(queue_->Record(*event_));
      return event_->Wait(30);
    });
    replay->Feed(At(0), Host(0));
    replay->Compute(calls_[0]);
    replay->Compute(calls_[1]);
    replay->BeginIfFinite({buffer_.get(), 68, 4}, Host(64, 4));
    replay->Compute(calls_[2]);
    replay->Compute(calls_[3]);
    replay->EndIf();
    replay->Compute(calls_[4]);
    replay->Snapshot(Host(128), At(192));
    replay->Snapshot(Host(192), At(256));
    replay->Snapshot(Host(256), At(320));
    return replay;
  }
  std::vector<float> Floats(size_t at) {
    std::vector<float> values(4);
    std::memcpy(values.data(), Host(at).data(), 16);
    return values;
  }
  // Three steps, the second with a number that is not finite.
  void ExpectSums(Replay& replay) {
    for (const float number : {2.0f, INFINITY, 3.0f}) {
      const float in[] = {1, number, -5, 0};
      std::memcpy(Host(0).data(), in, 16);
      ASSERT_EQ(replay.Run(), OkStatus());
      ASSERT_EQ(replay.Synchronize(), OkStatus());
      EXPECT_THAT(Floats(256), ElementsAre(1, number, 0, 0));
    }
    EXPECT_THAT(Floats(128), ElementsAre(4, 10, 0, 0));
    EXPECT_THAT(Floats(192), ElementsAre(2, 5, 0, 0));
  }

  const std::shared_ptr<const OpRegistry> ops_ = BuiltinOps();
  std::unique_ptr<Device> device_;
  std::unique_ptr<Slice> slice_;
  std::unique_ptr<Buffer> buffer_;
  std::unique_ptr<PreparedOp> relu_, twice_, sum_, both_;
  std::vector<std::unique_ptr<std::vector<BufferRange>>> ranges_;
  std::vector<BoundCall> calls_;
  std::unique_ptr<HostMemory> host_;
  std::unique_ptr<Event> event_;
  std::unique_ptr<Refusing> queue_;
};

TEST_F(ReplayTest, OneLaunchWhereAllCanBeCaptured) {
  auto replay = Make();
  ExpectSums(*replay);
  EXPECT_EQ(queue_->launches, 3);
  const CaptureReport report = replay->report();
  EXPECT_EQ(report.launches, 1);
  EXPECT_EQ(report.captured_calls, 5);
  EXPECT_EQ(report.plain_calls, 0);
  EXPECT_EQ(report.reason, "");
}

TEST_F(ReplayTest, AConditionThatTheDeviceCannotDecideIsTheHosts) {
  queue_->conditions = false;
  auto replay = Make();
  ExpectSums(*replay);
  EXPECT_EQ(queue_->launches, 3 + 2 + 3);
  EXPECT_EQ(replay->report().launches, 3);
  EXPECT_EQ(replay->report().captured_calls, 5);
  EXPECT_THAT(replay->report().reason, HasSubstr("conditions"));
}

TEST_F(ReplayTest, AnOpThatCannotBeCapturedStandsBetweenPieces) {
  queue_->refused = twice_.get();
  auto replay = Make();
  ExpectSums(*replay);
  EXPECT_EQ(replay->report().launches, 2);
  EXPECT_EQ(replay->report().captured_calls, 4);
  EXPECT_EQ(replay->report().plain_calls, 1);
  EXPECT_THAT(replay->report().reason, HasSubstr("must not be captured"));
}

class RefusedWithin : public ReplayTest, public ::testing::WithParamInterface<bool> {};

TEST_P(RefusedWithin, LeavesTheConditionToTheHost) {
  queue_->refused = GetParam() ? sum_.get() : both_.get();
  auto replay = Make();
  ExpectSums(*replay);
  EXPECT_EQ(replay->report().launches, 3);
  EXPECT_EQ(replay->report().captured_calls, 4);
  EXPECT_EQ(replay->report().plain_calls, 1);
  EXPECT_THAT(replay->report().reason, HasSubstr("must not be captured"));
}

INSTANTIATE_TEST_SUITE_P(FirstAndLast, RefusedWithin, ::testing::Bool());

// ---- Training ----

struct Trained {
  std::vector<double> losses, norms;
  std::vector<bool> skipped;
  std::vector<float> parameters;
  std::vector<CaptureReport> reports;
};

class CapturedTraining : public ::testing::Test {
 protected:
  static ClusterEntry Sim(std::map<std::string, std::string> options = {}) {
    return {.device = "sim", .cores = 1, .options = std::move(options)};
  }
  Trained Train(bool capture, std::vector<ClusterEntry> entries, PipelineOptions options) {
    Trained trained;
    auto cluster = Cluster::Discover({.config = {.entries = std::move(entries)}});
    EXPECT_TRUE(cluster.ok()) << cluster.status();
    if (!cluster.ok()) return trained;
    auto model = models::Mlp({.input = {8, 8, 1}, .hidden = {48, 32}});
    EXPECT_TRUE(model.ok()) << model.status();
    options.micro_batch = 8;
    options.global_batch = 32;
    options.profile_seconds = 0.02;
    options.plan_json = plan_;  // the same for all
    options.capture = capture;
    auto pipeline = ElasticPipeline::Create(
        *model, *cluster, HybridOptimizer(AdamW{.lr = 0.01}, {.clip_norm = 1}), options);
    EXPECT_TRUE(pipeline.ok()) << pipeline.status();
    if (!pipeline.ok()) return trained;
    plan_ = (*pipeline)->plan().ToJson();
    const auto batches = (*pipeline)->UseData(*data_, 8);
    EXPECT_TRUE(batches.ok()) << batches.status();
    for (const Batch& batch : *batches) {
      const auto step = (*pipeline)->Step(batch);
      EXPECT_TRUE(step.ok()) << step.status();
      if (!step.ok()) return trained;
      trained.losses.push_back(step->loss);
      // What is not a number is not equal to itself.
      trained.norms.push_back(std::isfinite(step->grad_norm) ? step->grad_norm : -1);
      trained.skipped.push_back(step->skipped);
    }
    for (const auto& vcu : cluster->vcus()) {
      trained.reports.push_back((*pipeline)->executor().capture(vcu->index()));
    }
    for (const Variable& v : (*pipeline)->joint().parameters) {
      const auto value = (*pipeline)->ReadVariable((*pipeline)->joint().value(v.value).name);
      EXPECT_TRUE(value.ok()) << value.status();
      for (int64_t i = 0; i < value->num_elements(); ++i) {
        trained.parameters.push_back(static_cast<float>(value->at(i)));
      }
    }
    const auto evaluated = (*pipeline)->Evaluate(*data_);
    EXPECT_TRUE(evaluated.ok()) << evaluated.status();
    trained.losses.push_back(evaluated->loss);
    return trained;
  }
  // Trains with and without; returns what was captured.
  std::vector<CaptureReport> ExpectSame(const std::vector<ClusterEntry>& entries,
                                        const PipelineOptions& options) {
    const Trained plain = Train(false, entries, options);
    const Trained captured = Train(true, entries, options);
    EXPECT_EQ(plain.losses, captured.losses);
    EXPECT_EQ(plain.norms, captured.norms);
    EXPECT_EQ(plain.skipped, captured.skipped);
    EXPECT_EQ(plain.parameters, captured.parameters);
    EXPECT_EQ(captured.losses.size(), 9u);
    if (captured.losses.size() != 9u) return {};
    EXPECT_LT(captured.losses[7], captured.losses[0]);
    for (const CaptureReport& r : plain.reports) {
      EXPECT_EQ(r.launches + r.captured_calls, 0);
      EXPECT_GT(r.plain_calls, 0);
      EXPECT_THAT(r.reason, HasSubstr("switched off"));
    }
    skipped_ = std::count(captured.skipped.begin(), captured.skipped.end(), true);
    return captured.reports;
  }

  std::unique_ptr<Dataset> data_ = MakeSyntheticImages({.size = 90, .height = 8, .width = 8});
  std::string plan_;
  int64_t skipped_ = 0;
};

TEST_F(CapturedTraining, OneDeviceLaunchesItsStepAtOnce) {
  const auto reports = ExpectSame({Sim()}, {});
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].launches, 1);
  EXPECT_GT(reports[0].captured_calls, 50);
  EXPECT_EQ(reports[0].plain_calls, 0);
  EXPECT_EQ(reports[0].reason, "");
}

TEST_F(CapturedTraining, APipelineLaunchesBetweenItsMessages) {
  for (const CaptureReport& r :
       ExpectSame({Sim(), Sim()}, {.pipeline_depth = 2, .data_parallel = 1})) {
    EXPECT_GT(r.launches, 4);
    EXPECT_GT(r.captured_calls, r.launches);
    EXPECT_EQ(r.plain_calls, 0);
  }
}

TEST_F(CapturedTraining, ReplicasLaunchBetweenTheirSums) {
  for (const CaptureReport& r :
       ExpectSame({Sim(), Sim()}, {.pipeline_depth = 1, .data_parallel = 2, .shard = 1})) {
    EXPECT_GT(r.launches, 1);
    EXPECT_EQ(r.plain_calls, 0);
  }
}

// The scale begins too high: the first steps are left out, on the device, also captured ones.
TEST_F(CapturedTraining, StepsThatOverflowAreLeftOut) {
  PipelineOptions options{.amp_level = AmpLevel::kO2, .half = DType::kF16};
  options.loss_scale = {.mode = LossScaleConfig::Mode::kDynamic, .value = 67108864};
  const auto reports = ExpectSame({Sim()}, options);
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].launches, 1);
  EXPECT_GE(skipped_, 3);
  EXPECT_LT(skipped_, 8);
}

TEST_F(CapturedTraining, OpsOnTheHostAreEnqueuedBetweenPiecesAndTheReasonSaysSo) {
  const auto reports = ExpectSame({Sim({{"lacks", "cross_entropy"}})}, {});
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].plain_calls, 4);  // one a micro-batch
  EXPECT_EQ(reports[0].launches, 5);
  EXPECT_THAT(reports[0].reason, HasSubstr("on cpu/"));
}

}  // namespace
}  // namespace oc

// Jobs on simulated units: asynchronous devices with memories of their own, of unlike speed, that
// fail in the middle of a step. Beside them stand reference devices, which the thread sanitizer
// knows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "openclaw/core/clock.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/runtime/data/synthetic.h"
#include "openclaw/runtime/pipeline.h"

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 12;

class SimDevicesTest : public ::testing::Test {
 protected:
  static ClusterEntry Sim(std::map<std::string, std::string> options = {}) {
    return {.device = "sim", .cores = 1, .options = std::move(options)};
  }

  void Open(std::vector<ClusterEntry> entries, int depth, int replicas,
            double timeout_seconds = 30) {
    pipeline_ = nullptr;
    auto cluster = Cluster::Discover({.config = {.entries = std::move(entries)}});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = std::make_unique<Cluster>(*std::move(cluster));
    auto model = models::Mlp({.input = {8, 8, 1}, .hidden = {48, 32}});
    ASSERT_TRUE(model.ok()) << model.status();
    auto pipeline = ElasticPipeline::Create(
        *model, *cluster_,
        HybridOptimizer(Sgd{.lr = 0.05, .momentum = 0.9, .nesterov = true}, {.clip_norm = 2}),
        {.micro_batch = 8,
         .global_batch = 32,
         .pipeline_depth = depth,
         .data_parallel = replicas,
         .timeout_seconds = timeout_seconds,
         .profile_seconds = 0.02});
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    pipeline_ = *std::move(pipeline);
  }
  // Ends with the first step that fails.
  Status Train(std::vector<double>& losses) {
    OC_ASSIGN_OR_RETURN(const Batches batches, pipeline_->UseData(*data_, kSteps));
    for (const Batch& batch : batches) {
      step_begin_ = NowSeconds();
      OC_ASSIGN_OR_RETURN(const StepResult step, pipeline_->Step(batch));
      losses.push_back(step.loss);
    }
    OC_ASSIGN_OR_RETURN(const EvalResult evaluated, pipeline_->Evaluate(*data_));
    losses.push_back(evaluated.loss);
    return OkStatus();
  }
  void ExpectSameCurve(std::vector<ClusterEntry> entries, int depth, int replicas) {
    std::vector<double> one, other;
    Open({{.device = "reference"}}, 1, 1);
    ASSERT_EQ(Train(one), OkStatus());
    Open(std::move(entries), depth, replicas);
    ASSERT_EQ(Train(other), OkStatus());
    ASSERT_EQ(one.size(), static_cast<size_t>(kSteps + 1));
    ASSERT_EQ(other.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(other[i], one[i], 1e-5 * one[i]) << i;
    EXPECT_LT(one.back(), 0.7 * one.front());
  }
  // The error of the step in which the second unit, with these options, fails.
  void ExpectFailure(const std::map<std::string, std::string>& options, int depth, int replicas,
                     absl::StatusCode code, const std::string& what) {
    constexpr double kTimeout = 1;
    Open({Sim(), Sim(options)}, depth, replicas, kTimeout);
    if (HasFatalFailure()) return;
    std::vector<double> losses;
    const Status status = Train(losses);
    const double end = NowSeconds();
    EXPECT_LT(end - step_begin_, kTimeout + 2);
    EXPECT_GE(losses.size(), 1u);
    EXPECT_LT(losses.size(), static_cast<size_t>(kSteps));
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("VCU sim:0.1"), HasSubstr("sim:0,"), HasSubstr(what),
                      ::testing::ContainsRegex(", (at op [0-9]*|after)[, ]+[a-z_]+ [a-z]+[0-9]+")));
    pipeline_ = nullptr;
    EXPECT_LT(NowSeconds() - end, 5);
  }

  std::unique_ptr<Dataset> data_ = MakeSyntheticImages({.size = 90, .height = 8, .width = 8});
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<ElasticPipeline> pipeline_;
  double step_begin_ = 0;
};

TEST_F(SimDevicesTest, Pipeline) { ExpectSameCurve({Sim(), Sim()}, 2, 1); }
TEST_F(SimDevicesTest, Replicas) { ExpectSameCurve({Sim(), Sim()}, 1, 2); }
TEST_F(SimDevicesTest, PipelineOfUnlikeUnits) {
  ExpectSameCurve({Sim({{"flops", "2e9"}, {"memory_gbps", "4"}, {"latency_us", "50"}}),
                   {.device = "reference", .cores = 1},
                   Sim({{"flops", "1e9"}, {"memory_gbps", "4"}, {"bandwidth_gbps", "1"}})},
                  3, 1);
}

// What a unit does and what it says that it used agree with the plan.
TEST_F(SimDevicesTest, PeaksAreAsPlanned) {
  Open({Sim(), Sim()}, 2, 1);
  std::vector<double> losses;
  ASSERT_EQ(Train(losses), OkStatus());
  for (const auto& vcu : cluster_->vcus()) {
    const VcuProgram& program = pipeline_->program().vcus[vcu->index()];
    const int64_t predicted = program.state_bytes + program.step_bytes;
    EXPECT_LE(vcu->PeakBytes(), predicted);
    EXPECT_GT(vcu->PeakBytes(), predicted - 2 * 64);  // the ends of two arenas are aligned
  }
}

TEST_F(SimDevicesTest, MeasuredCostsFollowTheKnob) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "what the sanitizer adds to each op is longer than what the knob does";
#endif
  Open({Sim({{"flops", "1e7"}, {"memory_gbps", "1"}}),
        Sim({{"speed", "4"}, {"flops", "1e7"}, {"memory_gbps", "1"}})},
       2, 1);
  const std::string slow = " on sim/1x,flops=1e+07,memory_gbps=1/1t";
  const std::string fast = " on sim/4x,flops=1e+07,memory_gbps=1/1t";
  double slow_seconds = 0, fast_seconds = 0;
  for (const auto& [key, entry] : pipeline_->costs().entries()) {
    if (!key.ends_with(slow)) continue;
    const CostEntry* other =
        pipeline_->costs().Find(key.substr(0, key.size() - slow.size()) + fast);
    if (other == nullptr) continue;
    slow_seconds += entry.seconds;
    fast_seconds += other->seconds;
  }
  EXPECT_GT(slow_seconds, 0.005);
  EXPECT_GT(slow_seconds, 2.5 * fast_seconds);
}

// A unit without some ops runs them decomposed or on the host, says so, and counts it.
TEST_F(SimDevicesTest, MissingOpsAreMadeUpForAndListed) {
  // The linear layers have a decomposition, the loss has none.
  const std::map<std::string, std::string> lacks = {
      {"lacks", "linear,linear_grad_weight,cross_entropy,cross_entropy_grad"}};
  ExpectSameCurve({{.device = "cpu", .cores = 1}, Sim(lacks)}, 1, 2);
  int decomposed = 0, moved = 0;
  for (const Substitute& s : pipeline_->plan().substitutes) {
    EXPECT_EQ(s.vcu, "sim:0.1");
    EXPECT_GT(s.calls, 0);
    EXPECT_GT(s.seconds, 0);
    decomposed += s.by.starts_with("decomposed into ") ? 1 : 0;
    moved += s.by.starts_with("on cpu/") && s.by.ends_with(", with copies") ? 1 : 0;
    EXPECT_EQ(s.op.starts_with("linear"), s.by.starts_with("decomposed")) << s.op << " " << s.by;
  }
  EXPECT_GE(decomposed, 4);
  EXPECT_GE(moved, 2);
  auto read = Plan::FromJson(pipeline_->plan().ToJson());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->substitutes.size(), pipeline_->plan().substitutes.size());
}

// Ops are counted on the compute queue, so that profiling does not count.
TEST_F(SimDevicesTest, ALostDeviceEndsTheStepOfAPipeline) {
  ExpectFailure({{"fail_at", "150"}, {"faults_on", "compute"}}, 2, 1,
                absl::StatusCode::kUnavailable, "device lost: sim:0, at op 150");
}
TEST_F(SimDevicesTest, ALostDeviceEndsTheStepOfReplicas) {
  ExpectFailure({{"fail_at", "200"}, {"faults_on", "compute"}}, 1, 2,
                absl::StatusCode::kUnavailable, "device lost: sim:0, at op 200");
}
TEST_F(SimDevicesTest, AnEventThatNeverSignalsEndsTheStep) {
  ExpectFailure({{"never_signal_at", "150"}, {"faults_on", "compute"}}, 2, 1,
                absl::StatusCode::kDeadlineExceeded, "wait for an event of sim:0");
}

TEST_F(SimDevicesTest, AMistakenOptionNamesEntryAndOption) {
  const Status status =
      Cluster::Discover({.config = {.entries = {Sim(), Sim({{"latency", "3"}})}}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cluster.1"), HasSubstr("sim:0"), HasSubstr("'latency'")));
  const Status cpu =
      Cluster::Discover({.config = {.entries = {{.device = "cpu", .options = {{"a", "b"}}}}}})
          .status();
  EXPECT_EQ(cpu.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cpu.message()), HasSubstr("takes no options"));
}

TEST_F(SimDevicesTest, AUnitWithoutMemoryEndsCreate) {
  auto cluster = Cluster::Discover({.config = {.entries = {Sim({{"out_of_memory_at", "1000"}})}}});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto model = models::Mlp({.input = {8, 8, 1}, .hidden = {48, 32}});
  ASSERT_TRUE(model.ok()) << model.status();
  const Status status = ElasticPipeline::Create(*model, *cluster, Sgd{}, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("out of memory"));
}

}  // namespace
}  // namespace oc

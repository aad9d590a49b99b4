// Optimizer states in memory of the host or in a file: the same training, in less memory of the
// device, and checkpoints that any run goes on from.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>

#include "training_run.h"

namespace oc {
namespace {

using absl::StatusCode;
using testing::ExpectError;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::TrainingRun;

ClusterEntry Sim(std::map<std::string, std::string> options = {}) {
  return {.device = "sim", .cores = 1, .options = std::move(options)};
}

class OffloadTest : public ::testing::Test {
 protected:
  TrainingRun Plain(ClusterEntry entry) {
    TrainingRun run;
    run.entries = {std::move(entry)};
    return run;
  }
  TrainingRun Offloaded(ClusterEntry entry, OffloadConfig offload) {
    TrainingRun run = Plain(std::move(entry));
    run.options.offload = std::move(offload);
    return run;
  }
  OffloadConfig ToFile() const { return {.optimizer = "file", .path = folder_.path()}; }

  // The states leave the arenas of the device for `other_bytes`; what is planned is what is used.
  void ExpectLess(const TrainingRun& plain, const TrainingRun& less) {
    const VcuPrediction &a = plain.plan.vcus[0], &b = less.plan.vcus[0];
    // Of AdamW two states a parameter, and the average.
    EXPECT_LE(b.state_bytes, a.state_bytes / 4 + 4096);
    EXPECT_LE(b.step_bytes, a.step_bytes + a.state_bytes / 4);
    EXPECT_LT(less.peaks[0], plain.peaks[0]);
    EXPECT_LE(less.peaks[0], b.state_bytes + b.step_bytes);
    EXPECT_GE(less.peaks[0], b.state_bytes + b.step_bytes - 4096);
    EXPECT_LE(less.host_peaks[0], b.host_arena_bytes);
    EXPECT_GE(b.host_arena_bytes + b.file_bytes, a.state_bytes - b.state_bytes);
  }
  void ExpectEqual(const TrainingRun& a, const TrainingRun& b) {
    EXPECT_EQ(a.losses, b.losses);
    EXPECT_GE(a.tensors().size(), 1u);
    EXPECT_TRUE(a.tensors() == b.tensors());
  }

  TempDir folder_;
};

TEST_F(OffloadTest, AFileGivesTheSameBits) {
  for (const ClusterEntry& entry : {ClusterEntry{.device = "cpu", .cores = 1}, Sim()}) {
    SCOPED_TRACE(entry.device);
    TrainingRun plain = Plain(entry), file = Offloaded(entry, ToFile());
    ASSERT_OK(plain.Run(folder_, "plain"));
    ASSERT_OK(file.Run(folder_, "file"));
    ExpectEqual(plain, file);
    ExpectLess(plain, file);
    EXPECT_GT(file.plan.vcus[0].file_bytes, 0);
    EXPECT_EQ(file.plan.offload_of(0).states, StateHome::kFile);
  }
}

TEST_F(OffloadTest, TheHostsMemoryGivesTheSameBits) {
  TrainingRun plain = Plain(Sim()),
              host = Offloaded(Sim(), {.optimizer = "host", .update = "device"});
  ASSERT_OK(plain.Run(folder_, "plain"));
  ASSERT_OK(host.Run(folder_, "host"));
  ExpectEqual(plain, host);
  ExpectLess(plain, host);
  EXPECT_GT(host.plan.vcus[0].host_arena_bytes, 0);
  EXPECT_EQ(host.plan.vcus[0].file_bytes, 0);
}

// The host's kernels are others: equal to rounding, and to the bit where it only copies.
TEST_F(OffloadTest, TheHostUpdates) {
  TrainingRun plain = Plain(Sim()),
              there = Offloaded(Sim(), {.optimizer = "host", .update = "host"});
  ASSERT_OK(plain.Run(folder_, "plain"));
  ASSERT_OK(there.Run(folder_, "there"));
  EXPECT_TRUE(there.plan.offload_of(0).update_on_host);
  ExpectLess(plain, there);
  ASSERT_EQ(there.losses.size(), plain.losses.size());
  EXPECT_EQ(there.losses[0], plain.losses[0]);
  for (size_t i = 0; i < plain.losses.size(); ++i) {
    EXPECT_NEAR(there.losses[i], plain.losses[i], 1e-5 * plain.losses[i]) << i;
  }
}

// A run goes on from the checkpoint of another that keeps its states elsewhere.
TEST_F(OffloadTest, CheckpointsGoOnAnywhere) {
  const ClusterEntry entry = Sim();
  TrainingRun whole = Plain(entry);
  whole.steps = 6;
  ASSERT_OK(whole.Run(folder_, "whole"));
  const std::vector<OffloadConfig> ways = {{}, ToFile(), {.optimizer = "host", .update = "device"}};
  for (size_t first = 0; first < ways.size(); ++first) {
    SCOPED_TRACE(first);
    TrainingRun half = Offloaded(entry, ways[first]);
    half.steps = 3;
    ASSERT_OK(half.Run(folder_, absl::StrCat("half", first)));
    TrainingRun rest = Offloaded(entry, ways[(first + 1) % ways.size()]);
    rest.steps = 3;
    rest.load = half.checkpoint;
    ASSERT_OK(rest.Run(folder_, absl::StrCat("rest", first)));
    EXPECT_TRUE(rest.tensors() == whole.tensors());
  }
}

// The host keeps copies of the parameters: loading fills them too.
TEST_F(OffloadTest, TheHostGoesOnFromACheckpoint) {
  const OffloadConfig there = {.optimizer = "host", .update = "host"};
  TrainingRun whole = Offloaded(Sim(), there), half = whole, rest = whole;
  whole.steps = 6;
  half.steps = rest.steps = 3;
  ASSERT_OK(whole.Run(folder_, "whole"));
  ASSERT_OK(half.Run(folder_, "half"));
  rest.load = half.checkpoint;
  ASSERT_OK(rest.Run(folder_, "rest"));
  EXPECT_TRUE(rest.tensors() == whole.tensors());
}

// What does not fit stays out: of two units the one whose memory is small.
TEST_F(OffloadTest, AutoOffloadsOnlyWhereMemoryIsShort) {
  TrainingRun plain;
  plain.entries = {Sim(), Sim()};
  plain.options.data_parallel = 2;
  TrainingRun mixed = plain;
  ASSERT_OK(plain.Run(folder_, "plain"));
  const VcuPrediction& p = plain.plan.vcus[0];
  mixed.entries[1].memory_bytes = p.state_bytes / 2 + p.step_bytes;
  TrainingRun none = mixed;
  const Status failed = none.Run(folder_, "none");
  EXPECT_EQ(failed.code(), StatusCode::kResourceExhausted) << failed;
  mixed.options.offload = {.optimizer = "auto", .update = "device"};
  ASSERT_OK(mixed.Run(folder_, "mixed"));
  EXPECT_EQ(mixed.plan.offload_of(0).states, StateHome::kDevice);
  EXPECT_EQ(mixed.plan.offload_of(1).states, StateHome::kHost);
  ExpectEqual(plain, mixed);
}

// By a slow link gradients cost half of what the states do, both ways; the planner counts it.
TEST_F(OffloadTest, ThePlannerUpdatesWhereItIsFaster) {
  TrainingRun slow_link = Offloaded(Sim({{"bandwidth_gbps", "0.02"}}), {.optimizer = "host"});
  ASSERT_OK(slow_link.Run(folder_, "slow"));
  EXPECT_TRUE(slow_link.plan.offload_of(0).update_on_host);
  ASSERT_EQ(slow_link.plan.advice.size(), 1u);
  EXPECT_THAT(slow_link.plan.advice[0], HasSubstr("sim:0.0 is updated on its host"));
}

// Divided over replicas, the parts lie elsewhere too; what is not built is passed by.
TEST_F(OffloadTest, DividedStatesGiveTheSameBits) {
  for (const int shard : {1, 3}) {
    SCOPED_TRACE(shard);
    TrainingRun plain;
    plain.entries = {Sim(), Sim()};
    plain.options.data_parallel = 2;
    plain.options.shard = shard;
    plain.options.balance = Balance::kEven;
    TrainingRun away = plain;
    away.options.offload = {.optimizer = "host", .activations = {"transformer.h.0"}};
    ASSERT_OK(plain.Run(folder_, "plain"));
    ASSERT_OK(away.Run(folder_, "away"));
    EXPECT_FALSE(away.plan.offload_of(1).update_on_host);
    ExpectEqual(plain, away);
    EXPECT_LT(away.plan.vcus[1].state_bytes, plain.plan.vcus[1].state_bytes);
    EXPECT_GT(away.plan.vcus[1].host_arena_bytes, 0);
  }
}

// Forward, backward, dropout and the update give the same bits, whatever lay elsewhere meanwhile.
TEST_F(OffloadTest, ActivationsInTheHostsMemoryGiveTheSameBits) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    SCOPED_TRACE(schedule);
    TrainingRun plain = Plain(Sim());
    plain.width = 64;
    plain.context = 32;
    plain.steps = 2;
    plain.options.micro_batch = 4;
    plain.options.global_batch = 16;
    plain.options.schedule = schedule;
    TrainingRun away = plain;
    away.options.offload = {
        .optimizer = "host", .update = "device", .activations = {"transformer.h.*"}};
    ASSERT_OK(plain.Run(folder_, "plain"));
    ASSERT_OK(away.Run(folder_, "away"));
    ExpectEqual(plain, away);
    const VcuPrediction &a = plain.plan.vcus[0], &b = away.plan.vcus[0];
    EXPECT_GT(away.plan.offload_of(0).activations.size(), 10u);
    EXPECT_LT(b.step_bytes, a.step_bytes);
    EXPECT_LE(away.peaks[0], b.state_bytes + b.step_bytes);
    EXPECT_GE(away.peaks[0], b.state_bytes + b.step_bytes - 4096);
    EXPECT_LE(away.host_peaks[0], b.host_arena_bytes);
    EXPECT_GE(away.host_peaks[0], b.host_arena_bytes - 4096);
  }
}

TEST_F(OffloadTest, AModuleThatIsNoneIsNamed) {
  TrainingRun run = Offloaded(Sim(), {.activations = {"transformer.h.0.atn"}});
  ExpectError(run.Run(folder_, "run"), StatusCode::kInvalidArgument, "no module '");
  run.options.offload = {.activations = {"*"}};
  run.entries = {{.device = "cpu", .cores = 1}};
  ExpectError(run.Run(folder_, "run"), StatusCode::kInvalidArgument,
              "parallel.offload.activations: the memory of cpu:0.0 is the host's own");
}

TEST_F(OffloadTest, APlanFileSaysIt) {
  TrainingRun file = Offloaded({.device = "cpu", .cores = 1}, ToFile());
  ASSERT_OK(file.Run(folder_, "file"));
  TrainingRun again = Offloaded({.device = "cpu", .cores = 1}, {.path = folder_.path()});
  again.options.plan_json = file.plan.ToJson();
  ASSERT_OK(again.Run(folder_, "again"));
  EXPECT_EQ(again.plan.offload, file.plan.offload);
  ExpectEqual(file, again);
}

TEST_F(OffloadTest, WhatGainsNothingIsRefused) {
  TrainingRun run = Offloaded({.device = "cpu", .cores = 1}, {.optimizer = "host"});
  const Status status = run.Run(folder_, "run");
  ExpectError(status, StatusCode::kInvalidArgument, "the memory of cpu:0.0 is the host's own");
  run.options.offload = {.optimizer = "file"};
  ExpectError(run.Run(folder_, "run"), StatusCode::kInvalidArgument, "parallel.offload.path");
}

TEST_F(OffloadTest, AFolderThatIsNoneIsNamed) {
  const std::string missing = folder_.File("missing");
  TrainingRun run =
      Offloaded({.device = "cpu", .cores = 1}, {.optimizer = "file", .path = missing});
  const Status status = run.Run(folder_, "run");
  ExpectError(status, StatusCode::kInvalidArgument, missing);
}

// The room is taken before the first step.
TEST_F(OffloadTest, AFullDiskIsFoundBeforeTraining) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 20 << 20;  // above what is measured with
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto file = File::CreateNameless(folder_.path(), 64 << 20);
  const auto fits = File::CreateNameless(folder_.path(), 8 << 20);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  ExpectError(file, StatusCode::kResourceExhausted, folder_.path());
  EXPECT_OK(fits);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

}  // namespace
}  // namespace oc

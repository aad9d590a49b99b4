// The plan is invisible: one model under many plans, in one process and under mpirun, gives one
// loss curve, one set of running statistics, one checkpoint.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "openclaw/runtime/checkpoint/store.h"

namespace oc {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  std::map<std::string, std::vector<double>> series;  // "loss", "norm", "valid", "count"
  std::string checkpoint, plan;
  std::vector<std::vector<std::string>> scales;  // by rank: "STEP SCALE", "STEP SCALE skipped"
};

class PlanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("oc_plan_test_" + std::to_string(getpid()));
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  Outcome Run(const std::string& model, int ranks, const std::string& flags, int64_t steps = 50) {
    const std::string name = std::to_string(runs_++);
    const std::string out = dir_ / (name + ".txt"), saved = dir_ / name;
    std::string command;
    if (ranks > 1) {
      // Open MPI leaks at exit.
      command =
          "mpirun --allow-run-as-root --oversubscribe --bind-to none "
          "-x ASAN_OPTIONS=detect_leaks=0 -np " +
          std::to_string(ranks) + " ";
    }
    command += std::string(PLAN_RUN) + " --model " + model + " " + flags + " --steps " +
               std::to_string(steps) + " --out " + out + " --checkpoint " + saved;
    EXPECT_EQ(std::system((command + " > " + out + ".log 2>&1").c_str()), 0)
        << command << "\n"
        << std::ifstream(out + ".log").rdbuf();
    Outcome result;
    result.plan = out + ".plan";
    std::ifstream in(out);
    std::string series, value;  // a value may be nan
    int64_t step;
    while (in >> series >> step >> value) {
      result.series[series].push_back(std::strtod(value.c_str(), nullptr));
    }
    for (int rank = 0; rank < ranks; ++rank) {
      std::ifstream scales(out + ".scales." + std::to_string(rank));
      result.scales.emplace_back();
      for (std::string line; std::getline(scales, line);) result.scales.back().push_back(line);
    }
    auto newest = LatestCheckpoint(saved);
    EXPECT_TRUE(newest.ok() && newest->has_value()) << command;
    if (newest.ok() && newest->has_value()) result.checkpoint = **newest;
    return result;
  }

  static double Relative(double a, double b) {
    return std::fabs(a - b) / std::max(1e-12, std::fabs(a));
  }

  // Losses within 1e-5 over the first 10 steps and within LONG_TOLERANCE, 1e-3, over all.
  static void ExpectSameCurve(const Outcome& a, const Outcome& b, const std::string& what) {
    const auto& x = a.series.at("loss");
    const auto& y = b.series.at("loss");
    ASSERT_EQ(x.size(), y.size()) << what;
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_LE(Relative(x[i], y[i]), i < 10 ? 1e-5 : LONG_TOLERANCE) << what << " step " << i + 1;
    }
    EXPECT_EQ(a.series.at("count"), b.series.at("count")) << what;
    EXPECT_LE(Relative(a.series.at("valid")[0], b.series.at("valid")[0]), 5e-3) << what;
  }

  // Every stored tensor (parameters, tied ones once, running statistics, optimizer state),
  // norm-wise.
  static void ExpectSameState(const Outcome& a, const Outcome& b, double tolerance,
                              const std::string& what) {
    auto x = Checkpoint::Open(a.checkpoint), y = Checkpoint::Open(b.checkpoint);
    ASSERT_TRUE(x.ok() && y.ok()) << what;
    ASSERT_EQ(x->manifest().tensors.size(), y->manifest().tensors.size()) << what;
    for (const StoredTensor& t : x->manifest().tensors) {
      auto u = x->ReadTensor(t.name), v = y->ReadTensor(t.name);
      ASSERT_TRUE(u.ok() && v.ok()) << what << " " << t.name;
      double difference = 0, norm = 0;
      for (int64_t i = 0; i < u->num_elements(); ++i) {
        difference += std::pow(u->at(i) - v->at(i), 2);
        norm += std::pow(u->at(i), 2);
      }
      EXPECT_LE(std::sqrt(difference), tolerance * std::sqrt(norm) + 1e-12)
          << what << " " << t.name;
    }
  }

  void Compare(const std::string& model, int micro_batches, int64_t steps = 50) {
    const std::string m = " --micro-batches " + std::to_string(micro_batches);
    const Outcome one = Run(model, 1, "--depth 1 --dp 1" + m, steps);
    const Outcome pipeline = Run(model, 1, "--depth 2 --dp 1" + m, steps);
    const Outcome replicas = Run(model, 1, "--depth 1 --dp 2" + m, steps);
    const Outcome pipeline_mpi =
        Run(model, 2, "--depth 2 --dp 1" + m + " --plan " + pipeline.plan, steps);
    const Outcome grid_mpi = Run(model, 4, "--depth 2 --dp 2" + m, steps);
    ExpectSameCurve(one, pipeline, "pipeline of two");
    ExpectSameCurve(one, replicas, "two replicas");
    ExpectSameCurve(one, pipeline_mpi, "pipeline under mpirun");
    ExpectSameCurve(one, grid_mpi, "2 x 2 under mpirun");
    // One plan over two transports: the same bits.
    EXPECT_EQ(pipeline.series, pipeline_mpi.series);
    ExpectSameState(pipeline, pipeline_mpi, 0, "pipeline, inproc and mpi");
  }

  fs::path dir_;
  int runs_ = 0;
};

TEST_F(PlanTest, MlpTwoMicroBatches) { Compare("mlp", 2); }
TEST_F(PlanTest, MlpFourMicroBatches) { Compare("mlp", 4); }
TEST_F(PlanTest, LeNetTwoMicroBatches) { Compare("lenet", 2); }
TEST_F(PlanTest, LeNetFourMicroBatches) { Compare("lenet", 4); }
TEST_F(PlanTest, ResNetTwoMicroBatches) { Compare("resnet", 2); }
TEST_F(PlanTest, ResNetFourMicroBatches) { Compare("resnet", 4); }
TEST_F(PlanTest, GptTwoMicroBatches) { Compare("gpt", 2); }
TEST_F(PlanTest, GptFourMicroBatches) { Compare("gpt", 4); }

// Where no op couples samples, the size of the micro-batch is invisible too, and so are schedule
// and recomputation.
TEST_F(PlanTest, MicroBatchScheduleAndRecomputation) {
  const Outcome four = Run("gpt", 1, "--depth 1 --dp 1 --micro-batches 4");
  ExpectSameCurve(four, Run("gpt", 1, "--depth 1 --dp 1 --micro-batches 2"), "2 micro-batches");
  ExpectSameCurve(four, Run("gpt", 1, "--depth 2 --dp 1 --micro-batches 4 --schedule gpipe"),
                  "gpipe");
  ExpectSameCurve(four, Run("gpt", 1, "--depth 2 --dp 1 --micro-batches 4 --recompute"),
                  "recompute");
}

// A checkpoint of one plan goes on under another as if nothing had happened, dropout included.
TEST_F(PlanTest, CheckpointsCrossPlans) {
  for (const char* model : {"gpt", "resnet"}) {
    const Outcome whole = Run(model, 1, "--depth 2 --dp 1", 12);
    const Outcome half = Run(model, 1, "--depth 2 --dp 1 --plan " + whole.plan, 6);
    const Outcome same =
        Run(model, 1, "--depth 2 --dp 1 --plan " + whole.plan + " --resume " + half.checkpoint, 6);
    const auto& a = whole.series.at("loss");
    EXPECT_EQ(std::vector<double>(a.begin() + 6, a.end()), same.series.at("loss")) << model;
    ExpectSameState(whole, same, 0, "resumed");
    const Outcome other = Run(model, 1, "--depth 1 --dp 2 --resume " + half.checkpoint, 6);
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_LE(Relative(a[i + 6], other.series.at("loss")[i]), 1e-4) << model << " step " << i + 7;
    }
  }
}

// State divided over replicas: the same bits as undivided, in one process and under mpirun.
TEST_F(PlanTest, DividedStateUnderMpirun) {
  const std::string flags = "--depth 1 --dp 2 --micro-batches 2 --amp O2";
  const Outcome plain = Run("gpt", 1, flags, 8);
  for (const char* shard : {" --shard 1", " --shard 2", " --shard 3"}) {
    const Outcome alone = Run("gpt", 1, flags + shard, 8);
    const Outcome ranks = Run("gpt", 2, flags + shard + " --plan " + alone.plan, 8);
    for (const Outcome* other : {&alone, &ranks}) {
      EXPECT_EQ(plain.series, other->series) << shard;
      ExpectSameState(plain, *other, 0, shard);
    }
  }
  // A checkpoint whose parts two ranks wrote goes on where one VCU holds all, and back.
  const Outcome divided = Run("gpt", 2, flags + " --shard 3", 4);
  const std::string resume = " --resume " + divided.checkpoint;
  const Outcome one = Run("gpt", 1, "--depth 1 --dp 1 --micro-batches 2 --amp O2" + resume, 4);
  const Outcome two = Run("gpt", 2, flags + " --shard 3" + resume, 4);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_LE(Relative(one.series.at("loss")[i], two.series.at("loss")[i]), 2e-3) << i;
    EXPECT_EQ(plain.series.at("loss")[i + 4], two.series.at("loss")[i]) << i;
  }
}

// An infinity in the data of one replica: all leave the same step out, and all lower the same
// scale.
TEST_F(PlanTest, AnInfinityOnOneRankSkipsTheStepOnAll) {
  for (const char* plan : {"--depth 1 --dp 2", "--depth 2 --dp 1"}) {
    const std::string flags = std::string(plan) + " --amp O2 --half f16";
    const Outcome good = Run("mlp", 1, flags, 8);
    ASSERT_EQ(good.scales.size(), 1u);
    EXPECT_EQ(good.scales[0][3], "4 65536") << plan;
    const Outcome alone = Run("mlp", 1, flags + " --plant 4", 8);
    const Outcome ranks = Run("mlp", 2, flags + " --plant 4 --plan " + alone.plan, 8);
    ASSERT_EQ(ranks.scales.size(), 2u);
    const std::vector<std::string> expected = {"1 65536", "2 65536", "3 65536", "4 65536 skipped",
                                               "5 32768", "6 32768", "7 32768", "8 32768"};
    EXPECT_EQ(alone.scales[0], expected) << plan;
    EXPECT_EQ(ranks.scales[0], expected) << plan;
    EXPECT_EQ(ranks.scales[1], expected) << plan;
    ExpectSameState(alone, ranks, 0, plan);
    // What the step would have done to the parameters is the only difference.
    const auto& with = alone.series.at("loss");
    const auto& without = good.series.at("loss");
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(with[i], without[i]) << plan << " step " << i + 1;
    for (size_t i = 4; i < 8; ++i) {
      EXPECT_LE(Relative(without[i], with[i]), 0.25) << plan << " step " << i + 1;
    }
  }
}

// The scale is part of a checkpoint: a resumed run goes on bit by bit.
TEST_F(PlanTest, TheLossScaleIsResumed) {
  const std::string flags = "--depth 2 --dp 1 --amp O2 --half f16";
  const Outcome whole = Run("mlp", 1, flags + " --plant 3", 8);
  const Outcome half = Run("mlp", 1, flags + " --plant 3 --plan " + whole.plan, 4);
  const Outcome rest =
      Run("mlp", 1, flags + " --plan " + whole.plan + " --resume " + half.checkpoint, 4);
  const auto& a = whole.series.at("loss");
  EXPECT_EQ(std::vector<double>(a.begin() + 4, a.end()), rest.series.at("loss"));
  EXPECT_EQ(std::vector<std::string>(whole.scales[0].begin() + 4, whole.scales[0].end()),
            rest.scales[0]);
  EXPECT_EQ(rest.scales[0][0], "5 32768");
  ExpectSameState(whole, rest, 0, "resumed");
}

// Stages and replicas are invisible at mixed precision as well.
TEST_F(PlanTest, MixedPrecisionUnderManyPlans) {
  const std::string flags = " --micro-batches 4 --amp O2 --half bf16";
  const Outcome one = Run("gpt", 1, "--depth 1 --dp 1" + flags, 20);
  for (const char* plan : {"--depth 2 --dp 1", "--depth 1 --dp 2"}) {
    const Outcome other = Run("gpt", 1, plan + flags, 20);
    const auto& x = one.series.at("loss");
    const auto& y = other.series.at("loss");
    for (size_t i = 0; i < 20; ++i) EXPECT_LE(Relative(x[i], y[i]), 2e-3) << plan << " " << i;
  }
  const Outcome pipeline = Run("gpt", 1, "--depth 2 --dp 1" + flags, 10);
  const Outcome mpi = Run("gpt", 2, "--depth 2 --dp 1 --plan " + pipeline.plan + flags, 10);
  EXPECT_EQ(pipeline.series, mpi.series);
}

}  // namespace
}  // namespace oc

// Training on the reference device over the in-process transport: every thread of the runtime
// (lanes, loader, collectives) without a library's own threads, so that the thread sanitizer sees
// all of it.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "openclaw/devices/export.h"
#include "openclaw/devices/reference/reference.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/runtime/data/synthetic.h"
#include "openclaw/runtime/pipeline.h"

namespace oc {
namespace {

constexpr int64_t kSteps = 4;

struct Trained {
  std::vector<double> losses;
  double evaluated = 0;
};

class ReferenceTest : public ::testing::Test {
 protected:
  void SetUp() override { registry_.Add(ThroughTable<&DiscoverReference>("reference")); }

  void Open(int depth, int replicas) {
    auto cluster = Cluster::Discover({.vcus = depth * replicas, .registry = &registry_});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_.emplace(std::move(*cluster));
    auto model = models::Gpt2(
        {.layers = 2, .width = 16, .heads = 2, .context = 8, .vocabulary = 17, .dropout = 0.1});
    ASSERT_TRUE(model.ok()) << model.status();
    auto pipeline = ElasticPipeline::Create(*model, *cluster_,
                                            HybridOptimizer(AdamW{.lr = 1e-2}, {.clip_norm = 1.0}),
                                            {.micro_batch = 2,
                                             .global_batch = 8,
                                             .pipeline_depth = depth,
                                             .data_parallel = replicas,
                                             .data_workers = 2,
                                             .profile_seconds = 0.01});
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    pipeline_ = std::move(*pipeline);
  }

  void Train(Trained& result) {
    auto batches = pipeline_->UseData(*data_, kSteps);
    ASSERT_TRUE(batches.ok()) << batches.status();
    for (const Batch& batch : *batches) {
      auto step = pipeline_->Step(batch);
      ASSERT_TRUE(step.ok()) << step.status();
      EXPECT_FALSE(step->stop);
      result.losses.push_back(step->loss);
    }
    auto evaluated = pipeline_->Evaluate(*data_);
    ASSERT_TRUE(evaluated.ok()) << evaluated.status();
    result.evaluated = evaluated->loss;
  }

  DeviceRegistry registry_;
  std::unique_ptr<Dataset> data_ =
      MakeSyntheticTokens({.size = 21, .context = 8, .vocabulary = 17});
  std::optional<Cluster> cluster_;
  std::unique_ptr<ElasticPipeline> pipeline_;
};

TEST_F(ReferenceTest, OneCurveUnderEveryPlan) {
  Trained one;
  Open(1, 1);
  if (HasFatalFailure()) return;
  Train(one);
  ASSERT_EQ(one.losses.size(), static_cast<size_t>(kSteps));
  for (const auto& [depth, replicas] : {std::pair(2, 1), {1, 2}, {2, 2}}) {
    pipeline_.reset();
    Trained other;
    Open(depth, replicas);
    if (HasFatalFailure()) return;
    Train(other);
    ASSERT_EQ(other.losses.size(), one.losses.size());
    for (size_t i = 0; i < one.losses.size(); ++i) {
      EXPECT_NEAR(other.losses[i], one.losses[i], 1e-5 * one.losses[i])
          << depth << " x " << replicas << ", step " << i + 1;
    }
    EXPECT_NEAR(other.evaluated, one.evaluated, 1e-4 * one.evaluated);
  }
}

TEST_F(ReferenceTest, AStopFromAnotherThreadRidesOnAStep) {
  Open(2, 1);
  if (HasFatalFailure()) return;
  auto batches = pipeline_->UseData(*data_, 1000);
  ASSERT_TRUE(batches.ok()) << batches.status();
  std::thread stopper([&] { pipeline_->RequestStop(); });
  bool stopped = false;
  for (const Batch& batch : *batches) {
    auto step = pipeline_->Step(batch);
    ASSERT_TRUE(step.ok()) << step.status();
    if ((stopped = step->stop)) break;
  }
  stopper.join();
  EXPECT_TRUE(stopped);
  const std::filesystem::path dir =
      std::filesystem::temp_directory_path() / ("oc_reference_" + std::to_string(getpid()));
  auto saved = pipeline_->Save(dir);
  EXPECT_TRUE(saved.ok()) << saved.status();
  if (saved.ok()) {
    EXPECT_EQ(pipeline_->Load(*saved), OkStatus());
  }
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace oc

// One job on unlike devices with memories of their own: the example plugin, and the opencl leaf,
// beside the cpu.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "openclaw/graph/models/models.h"
#include "openclaw/runtime/data/synthetic.h"
#include "openclaw/runtime/pipeline.h"

namespace oc {
namespace {

constexpr int64_t kSteps = 12;

class MixedDevicesTest : public ::testing::Test {
 protected:
  // No entries: auto.
  void Train(std::vector<ClusterEntry> entries, int depth, int replicas,
             std::vector<double>& losses) {
    DiscoverOptions options;
    options.vcus = depth * replicas;
    options.config = {.entries = std::move(entries), .plugins = {PLAIN_PLUGIN}};
    auto cluster = Cluster::Discover(options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    found_ = cluster->found();
    for (const VcuSpec& v : cluster->spec().vcus) devices_.insert(v.device);
    ASSERT_TRUE(model_.ok()) << model_.status();
    auto pipeline = ElasticPipeline::Create(*model_, *cluster, optimizer_,
                                            {.micro_batch = 8,
                                             .global_batch = 32,
                                             .pipeline_depth = depth,
                                             .data_parallel = replicas,
                                             .profile_seconds = 0.02});
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    auto batches = (*pipeline)->UseData(*data_, kSteps);
    ASSERT_TRUE(batches.ok()) << batches.status();
    for (const Batch& batch : *batches) {
      auto step = (*pipeline)->Step(batch);
      ASSERT_TRUE(step.ok()) << step.status();
      losses.push_back(step->loss);
    }
    auto evaluated = (*pipeline)->Evaluate(*data_);
    ASSERT_TRUE(evaluated.ok()) << evaluated.status();
    losses.push_back(evaluated->loss);
  }
  void ExpectSameCurve(std::vector<ClusterEntry> entries, int depth, int replicas,
                       double tolerance = 1e-5) {
    std::vector<double> one, other;
    Train({{.device = "cpu"}}, 1, 1, one);
    Train(std::move(entries), depth, replicas, other);
    ASSERT_EQ(one.size(), static_cast<size_t>(kSteps + 1));
    ASSERT_EQ(other.size(), one.size());
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(other[i], one[i], tolerance * one[i]) << i;
    EXPECT_LT(one.back(), most_left_ * one.front());
  }

  StatusOr<Graph> model_ = models::Mlp({.input = {8, 8, 1}, .hidden = {48, 32}});
  std::unique_ptr<Dataset> data_ = MakeSyntheticImages({.size = 90, .height = 8, .width = 8});
  HybridOptimizer optimizer_ = {Sgd{.lr = 0.05, .momentum = 0.9, .nesterov = true},
                                {.clip_norm = 2}};
  double most_left_ = 0.7;  // of the loss
  std::string found_;       // by the cluster of the last run
  std::set<std::string> devices_;
};

TEST_F(MixedDevicesTest, PipelineOverCpuAndPlugin) {
  ExpectSameCurve({{.device = "cpu", .cores = 1}, {.device = "plain"}}, 2, 1);
}
TEST_F(MixedDevicesTest, PipelineOverPluginAndCpu) {
  ExpectSameCurve({{.device = "plain"}, {.device = "cpu", .cores = 1}}, 2, 1);
}
TEST_F(MixedDevicesTest, ReplicasOnCpuAndPlugin) {
  ExpectSameCurve({{.device = "cpu", .cores = 1}, {.device = "plain"}}, 1, 2);
}
TEST_F(MixedDevicesTest, PluginsAlone) {
  ExpectSameCurve({{.device = "plain"}, {.device = "plain"}}, 2, 1);
}

// `cluster: auto` takes the plugin's device beside the processors.
TEST_F(MixedDevicesTest, AutoTakesAPluginThatWasNamed) {
  ExpectSameCurve({}, 2, 1);
  EXPECT_THAT(devices_, ::testing::IsSupersetOf({"cpu", "plain"}));
  EXPECT_THAT(found_, ::testing::HasSubstr(", plain:0 ("));
  EXPECT_THAT(found_, ::testing::Not(::testing::HasSubstr("sim")));
}

// The plugin knows linear layers only: a convolutional network trains all the same, and the plan
// says what ran where.
TEST_F(MixedDevicesTest, OpsThatADeviceLacksRunElsewhereAndAreListed) {
  DiscoverOptions options;
  options.config = {.entries = {{.device = "plain"}}, .plugins = {PLAIN_PLUGIN}};
  auto cluster = Cluster::Discover(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto model = models::LeNet({});
  ASSERT_TRUE(model.ok());
  const auto data = MakeSyntheticImages({.size = 64});
  auto pipeline =
      ElasticPipeline::Create(*model, *cluster, Sgd{.lr = 0.01},
                              {.micro_batch = 4, .global_batch = 8, .profile_seconds = 0.02});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  std::set<std::string> moved;
  for (const Substitute& s : (*pipeline)->plan().substitutes) {
    if (s.by.starts_with("on cpu/")) moved.insert(s.op.substr(0, s.op.find_first_of("@(")));
  }
  EXPECT_THAT(moved, ::testing::IsSupersetOf({"conv2d", "conv2d_grad_weight", "max_pool2d"}));
  // What they take of the host is predicted: the first convolution's operands at least.
  const VcuPrediction& predicted = (*pipeline)->plan().vcus[0];
  const int64_t images = 4 * 28 * 28 * 4, activations = 4 * 28 * 28 * 6 * 4;
  EXPECT_GE(predicted.host_bytes, images + activations);
  EXPECT_LT(predicted.host_bytes, 8 * (images + activations));
  // The arenas are the device's own.
  const int64_t process = (*pipeline)->predicted_process_bytes();
  const int64_t host = predicted.host_bytes + (*pipeline)->executor().host_bytes();
  EXPECT_GE(process, host);
  EXPECT_LT(process, host + predicted.state_bytes + predicted.step_bytes);
  auto batches = (*pipeline)->UseData(*data, 2);
  ASSERT_TRUE(batches.ok()) << batches.status();
  for (const Batch& batch : *batches) {
    auto step = (*pipeline)->Step(batch);
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_LT(step->loss, 5);
  }
}

TEST_F(MixedDevicesTest, APluginTwiceIsRefused) {
  const Status status = LeavesWithPlugins({PLAIN_PLUGIN, PLAIN_PLUGIN}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("'plain' already"));
}

// The leaf is a module: no plugin is named, a cluster's list says `device: opencl`.
class MixedOpenClTest : public MixedDevicesTest {
 protected:
  void SetUp() override {
    auto registry = LeavesWithPlugins({});
    ASSERT_TRUE(registry.ok()) << registry.status();
    auto leaf = registry->Find("opencl");
    if (!leaf.ok()) GTEST_SKIP() << "openclaw_opencl was not built: " << leaf.status();
    auto devices = (*leaf)->discover();
    if (!devices.ok()) GTEST_SKIP() << devices.status();
  }
  void UseGpt() {
    model_ = models::Gpt2({.layers = 2, .width = 32, .heads = 2, .context = 16, .vocabulary = 29});
    data_ = MakeSyntheticTokens({.size = 90, .context = 16, .vocabulary = 29});
    most_left_ = 0.95;
  }
  static constexpr double kTolerance = 1e-4;
};

TEST_F(MixedOpenClTest, PipelineOfAnMlpOverCpuAndOpenCl) {
  ExpectSameCurve({{.device = "cpu", .cores = 1}, {.device = "opencl", .cores = 1}}, 2, 1,
                  kTolerance);
}
TEST_F(MixedOpenClTest, ReplicasOfAnMlpOnCpuAndOpenCl) {
  ExpectSameCurve({{.device = "cpu", .cores = 1}, {.device = "opencl"}}, 1, 2, kTolerance);
}
TEST_F(MixedOpenClTest, PipelineOfAGptOverOpenClAndCpu) {
  UseGpt();
  ExpectSameCurve({{.device = "opencl", .cores = 1}, {.device = "cpu", .cores = 1}}, 2, 1,
                  kTolerance);
}
TEST_F(MixedOpenClTest, ReplicasOfAGptOnCpuAndOpenCl) {
  UseGpt();
  ExpectSameCurve({{.device = "cpu", .cores = 1}, {.device = "opencl"}}, 1, 2, kTolerance);
}
// PoCL is the processors once more.
TEST_F(MixedOpenClTest, AutoLeavesOutDevicesOfTheSameCores) {
  auto registry = LeavesWithPlugins({});
  ASSERT_TRUE(registry.ok());
  auto devices = (*registry->Find("opencl"))->discover();
  ASSERT_TRUE(devices.ok());
  std::string left_out;
  int taken = 0;
  for (const auto& d : *devices) {
    if (d->info().cores.empty()) {
      ++taken;
    } else {
      left_out = d->info().name;
    }
  }
  if (left_out.empty()) GTEST_SKIP() << "no OpenCL driver for processors is installed";
  DiscoverOptions options;
  auto cluster = Cluster::Discover(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_THAT(cluster->found(), ::testing::ContainsRegex("left out: (.*, )?" + left_out +
                                                         " .*the same cores as cpu"));
  for (const VcuSpec& v : cluster->spec().vcus) taken -= v.device == "opencl" ? 1 : 0;
  EXPECT_EQ(taken, 0);
}
TEST_F(MixedOpenClTest, PipelineOfALeNetOverOpenClAlone) {
  model_ = models::LeNet({});
  data_ = MakeSyntheticImages({.size = 90});
  most_left_ = 0.97;
  ExpectSameCurve({{.device = "opencl", .cores = 1}, {.device = "opencl", .cores = 1}}, 2, 1,
                  kTolerance);
}

// The same on the emulated libraries (tests/devices/ascend/emulator).
class MixedAscendTest : public MixedDevicesTest {
 protected:
  void SetUp() override { setenv("ASCEND_HOME_PATH", ASCEND_EMULATOR, 1); }
  // With dropout, which every device draws alike.
  void UseGpt() {
    model_ = models::Gpt2(
        {.layers = 2, .width = 32, .heads = 2, .context = 16, .vocabulary = 29, .dropout = 0.1});
    data_ = MakeSyntheticTokens({.size = 90, .context = 16, .vocabulary = 29});
    optimizer_ = {AdamW{.lr = 3e-3, .weight_decay = 0.1}, {.clip_norm = 1}};
    most_left_ = 0.95;
  }
  static constexpr double kTolerance = 1e-4;
};

TEST_F(MixedAscendTest, PipelineOfAnMlpOverCpuAndAscend) {
  ExpectSameCurve({{.device = "cpu", .cores = 1}, {.device = "ascend"}}, 2, 1, kTolerance);
}
TEST_F(MixedAscendTest, ReplicasOfAnMlpOnCpuAndAscend) {
  ExpectSameCurve({{.device = "cpu", .cores = 1}, {.device = "ascend"}}, 1, 2, kTolerance);
}
TEST_F(MixedAscendTest, AutoFindsTheDevicesOfTheLibraries) {
  ExpectSameCurve({}, 1, 3, kTolerance);
  EXPECT_THAT(devices_, ::testing::IsSupersetOf({"cpu", "ascend"}));
  EXPECT_THAT(found_, ::testing::HasSubstr("ascend:1 ("));
}
TEST_F(MixedAscendTest, PipelineOfAGptOverCpuAndAscend) {
  UseGpt();
  ExpectSameCurve({{.device = "cpu", .cores = 1}, {.device = "ascend"}}, 2, 1, kTolerance);
}
TEST_F(MixedAscendTest, PipelineOfAGptOverTwoAscends) {
  UseGpt();
  ExpectSameCurve({{.device = "ascend"}, {.device = "ascend"}}, 2, 1, kTolerance);
}
TEST_F(MixedAscendTest, PipelineOfALlamaOverAscendAndCpu) {
  UseGpt();
  model_ = models::Llama({.layers = 2,
                          .width = 32,
                          .heads = 4,
                          .kv_heads = 2,
                          .ffn = 48,
                          .context = 16,
                          .vocabulary = 29});
  ExpectSameCurve({{.device = "ascend"}, {.device = "cpu", .cores = 1}}, 2, 1, kTolerance);
}
TEST_F(MixedAscendTest, PipelineOfALeNetOverAscendAndCpu) {
  model_ = models::LeNet({});
  data_ = MakeSyntheticImages({.size = 90});
  most_left_ = 0.97;
  ExpectSameCurve({{.device = "ascend"}, {.device = "cpu", .cores = 1}}, 2, 1, kTolerance);
}
TEST_F(MixedAscendTest, ReplicasOfAGptOnCpuAndAscend) {
  UseGpt();
  ExpectSameCurve({{.device = "cpu", .cores = 1}, {.device = "ascend"}}, 1, 2, kTolerance);
}

}  // namespace
}  // namespace oc

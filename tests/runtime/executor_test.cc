#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "openclaw/devices/host/host_device.h"
#include "openclaw/graph/builder.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/runtime/data/synthetic.h"
#include "openclaw/runtime/pipeline.h"

#include "count_allocations.h"

namespace oc {
namespace {

// Zeros for everything but what must not be zero.
class QuietHost : public StepHost {
 public:
  Status Feed(int, const std::string& name, int, std::span<std::byte> to) override {
    std::memset(to.data(), 0, to.size());
    if (name == "step") {
      const float one = 1;
      std::memcpy(to.data(), &one, 4);
    }
    return OkStatus();
  }
  Status Snapshot(int, const std::string&, int, std::span<const std::byte>) override {
    return OkStatus();
  }
};

class FailingHost : public QuietHost {
 public:
  Status Feed(int vcu, const std::string& name, int g, std::span<std::byte> to) override {
    if (name == "images" && g == 2) return DataLoss("no more images");
    return QuietHost::Feed(vcu, name, g, to);
  }
};

class ExecutorTest : public ::testing::Test {
 protected:
  void Make(int depth, int replicas, int64_t hidden = 256,
            const DeviceRegistry* registry = nullptr) {
    auto cluster = Cluster::Discover({.vcus = depth * replicas, .registry = registry});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_.emplace(std::move(*cluster));
    auto model = models::Mlp({.hidden = {hidden, hidden}});
    ASSERT_TRUE(model.ok());
    auto pipeline = ElasticPipeline::Create(*model, *cluster_, HybridOptimizer(AdamW{}),
                                            {.micro_batch = 64,
                                             .global_batch = 64 * 8,
                                             .pipeline_depth = depth,
                                             .data_parallel = replicas,
                                             .profile_seconds = 0.05});
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    pipeline_ = std::move(*pipeline);
  }
  std::optional<Cluster> cluster_;
  std::unique_ptr<ElasticPipeline> pipeline_;
};

// A device whose kernels do nothing: what is left is the project's own code.
DeviceLeaf NullLeaf() {
  return {"null", []() -> StatusOr<std::vector<std::unique_ptr<Device>>> {
            auto kernels = std::make_shared<KernelRegistry>();
            for (const std::string& op : BuiltinOps()->names()) {
              kernels->Add(
                  op,
                  StatelessKernel([](const OpRequest&, const KernelArgs&) { return OkStatus(); },
                                  "null"),
                  ~0u);
            }
            std::vector<std::unique_ptr<Device>> devices;
            devices.push_back(MakeHostDevice({.info = {.name = "null:0",
                                                       .leaf = "null",
                                                       .model = "null",
                                                       .threads = 2,
                                                       .memory_bytes = int64_t{1} << 30},
                                              .dtypes = {DType::kF32},
                                              .kernels = {kernels}}));
            return devices;
          }};
}

TEST_F(ExecutorTest, SteadyStateAllocatesNothing) {
  DeviceRegistry registry;
  registry.Add(NullLeaf());
  for (auto [depth, replicas] : {std::pair(2, 1), std::pair(1, 2)}) {
    Make(depth, replicas, 16, &registry);
    QuietHost host;
    for (int i = 0; i < 3; ++i) ASSERT_EQ(pipeline_->executor().Run(host), OkStatus());
    const int64_t before = oc::testing::Allocations();
    for (int i = 0; i < 5; ++i) ASSERT_EQ(pipeline_->executor().Run(host), OkStatus());
    EXPECT_EQ(oc::testing::Allocations() - before, 0) << depth << " x " << replicas;
    pipeline_.reset();
  }
}

// A transfer runs while the VCU that sends computes.
TEST_F(ExecutorTest, SendsOverlapWithComputation) {
  Make(2, 1, 1024);
  QuietHost host;
  int overlapping = 0;
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(pipeline_->executor().Run(host), OkStatus());
    const std::vector<TraceSpan> spans = pipeline_->executor().spans();
    for (const TraceSpan& s : spans) {
      if (pipeline_->program().vcus[s.vcu].commands[s.command].kind != CommandKind::kSend) continue;
      for (const TraceSpan& c : spans) {
        const bool compute =
            c.vcu == s.vcu &&
            pipeline_->program().vcus[c.vcu].commands[c.command].kind == CommandKind::kCompute;
        if (compute && c.begin_nanos < s.end_nanos && s.begin_nanos < c.end_nanos) ++overlapping;
      }
    }
  }
  EXPECT_GT(overlapping, 0);
}

TEST_F(ExecutorTest, AFailureEndsEveryLaneAndNamesTheCommand) {
  Make(2, 1);
  FailingHost host;
  const Status status = pipeline_->executor().Run(host);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_NE(status.message().find("images of micro-batch 2"), absl::string_view::npos) << status;
}

TEST_F(ExecutorTest, MemoryAndImplementationsAreAsPredicted) {
  // Outlives the fixture's pipeline, which reads it ahead.
  static const auto data = MakeSyntheticImages({.size = 2048});
  Make(2, 1);
  auto batches = pipeline_->UseData(*data, 3);
  ASSERT_TRUE(batches.ok()) << batches.status();
  for (const Batch& batch : *batches) {
    auto step = pipeline_->Step(batch);
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_TRUE(std::isfinite(step->loss));
  }
  for (const auto& vcu : cluster_->vcus()) {
    const VcuProgram& p = pipeline_->program().vcus[vcu->index()];
    const double predicted = static_cast<double>(p.state_bytes + p.step_bytes);
    EXPECT_NEAR(static_cast<double>(vcu->PeakBytes()), predicted, 0.01 * predicted);
  }
  for (const ImplementationCount& c : pipeline_->executor().implementations()) {
    EXPECT_NE(c.implementation, "reference") << c.op;
  }
  pipeline_.reset();  // its loader reads `data`
}

// The images in 65 pieces, put together again, into a linear layer.
StatusOr<Graph> ManyPieces() {
  GraphBuilder b("pieces");
  const Val x = b.Reshape(b.Data("images", {DType::kF32, {Dim("B"), 28, 28, 1}}), {Dim("B"), 784});
  std::vector<Val> pieces;
  for (int64_t i = 0; i < 65; ++i) pieces.push_back(b.Relu(b.Slice(x, 1, 12 * i, 12 * i + 12)));
  const Val y = b.Linear(b.Op("concat", pieces, {{"axis", int64_t{1}}}),
                         b.Parameter("w", {DType::kF32, {10, 780}}, Initializer::Normal(0, 0.01)));
  const Val labels = b.Data("labels", {DType::kI32, {Dim("B")}});
  b.Loss(b.OpN("cross_entropy", {y, labels})[0], b.Op("count_valid", {labels}));
  return b.Finish();
}

TEST(ManyOperands, AnOpOf65InputsTrains) {
  auto cluster = Cluster::Discover({.vcus = 1});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto model = ManyPieces();
  ASSERT_TRUE(model.ok()) << model.status();
  auto data = MakeSyntheticImages({.size = 64});
  auto pipeline = ElasticPipeline::Create(*model, *cluster, Sgd{.lr = 0.1},
                                          {.micro_batch = 16, .profile_seconds = 0.02});
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  auto batches = (*pipeline)->UseData(*data, 2);
  ASSERT_TRUE(batches.ok()) << batches.status();
  for (const Batch& batch : *batches) {
    auto step = (*pipeline)->Step(batch);
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_TRUE(std::isfinite(step->loss));
  }
  size_t widest = 0;
  for (const Segment& segment : (*pipeline)->program().vcus[0].segments) {
    for (const Call& call : segment.calls) widest = std::max(widest, call.inputs.size());
  }
  EXPECT_EQ(widest, 65u);  // no pass took it apart
  pipeline->reset();       // its loader reads `data`
}

// No op of the shipped models runs on reference code.
TEST(Implementations, ShippedModelsRunOnFastKernels) {
  const std::pair<const char*, StatusOr<Graph>> all[] = {
      {"lenet", models::LeNet({})},
      {"resnet",
       models::ResNet(
           {.input = {28, 28, 1}, .depth = 18, .classes = 10, .stem = "imagenet", .width = 8})},
      {"resnet50",
       models::ResNet(
           {.input = {28, 28, 1}, .depth = 50, .classes = 10, .stem = "small", .width = 8})},
      {"gpt", models::Gpt2({.layers = 1,
                            .width = 32,
                            .heads = 2,
                            .context = 16,
                            .vocabulary = 50,
                            .dropout = 0.1})},
      {"llama", models::Llama({.layers = 1,
                               .width = 32,
                               .heads = 4,
                               .kv_heads = 2,
                               .context = 16,
                               .vocabulary = 50})}};
  for (const auto& [name, model] : all) {
    ASSERT_TRUE(model.ok()) << name << model.status();
    for (const HybridOptimizer& optimizer :
         {HybridOptimizer(AdamW{}), HybridOptimizer(Sgd{.momentum = 0.9})}) {
      auto cluster = Cluster::Discover({.vcus = 1});
      ASSERT_TRUE(cluster.ok()) << cluster.status();
      auto pipeline = ElasticPipeline::Create(*model, *cluster, optimizer,
                                              {.micro_batch = 4, .profile_seconds = 0.02});
      ASSERT_TRUE(pipeline.ok()) << name << ": " << pipeline.status();
      for (const ImplementationCount& c : (*pipeline)->executor().implementations()) {
        EXPECT_NE(c.implementation, "reference") << name << ": " << c.op;
      }
    }
  }
}

}  // namespace
}  // namespace oc

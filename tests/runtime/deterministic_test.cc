// Runs of one plan file repeat bit by bit (train.deterministic), on every device that says so of
// its ops; an op of which it does not is made of others, run elsewhere, or refused by name.
#include <gmock/gmock.h>

#include "openclaw/devices/reference/reference.h"
#include "openclaw/devices/sim/sim.h"
#include "openclaw/devices/substitute.h"

#include "training_run.h"

namespace oc {
namespace {

using absl::StatusCode;
using testing::ExpectError;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::TrainingRun;

// The second run gets the first one's plan, and measures costs of its own.
void ExpectRepeats(const std::vector<ClusterEntry>& entries, int replicas) {
  testing::TempDir folder;
  TrainingRun first, second;
  first.entries = entries;
  first.deterministic = true;
  first.options.data_parallel = replicas;
  first.options.data_workers = 2;
  second = first;
  ASSERT_OK(first.Run(folder, "first"));
  EXPECT_THAT(first.plan.not_deterministic, IsEmpty());
  second.options.plan_json = first.plan.ToJson();
  ASSERT_OK(second.Run(folder, "second"));
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_LT(first.losses.back(), first.losses.front());
  ASSERT_GE(first.files.size(), 2u);  // a shard and the manifest
  EXPECT_TRUE(first.files == second.files);
}

TEST(Deterministic, CpuWithTwoThreads) { ExpectRepeats({{.device = "cpu", .cores = 2}}, 1); }

TEST(Deterministic, TwoReplicas) {
  ExpectRepeats({{.device = "cpu", .cores = 1}, {.device = "cpu", .cores = 1}}, 2);
}

TEST(Deterministic, Reference) { ExpectRepeats({{.device = "reference", .cores = 1}}, 1); }

TEST(Deterministic, OpenCl) {
  const auto devices = LeavesWithPlugins({});
  ASSERT_OK(devices);
  if (!devices->Find("opencl").ok()) GTEST_SKIP() << "no opencl module here";
  const auto leaf = devices->Find("opencl");
  if (const auto found = (*leaf)->discover(); !found.ok() || found->empty()) {
    GTEST_SKIP() << found.status();
  }
  ExpectRepeats({{.device = "opencl"}}, 1);
}

ClusterEntry SimThatMayDiffer(const std::string& ops) {
  // Without the fused op that would run in gelu's place.
  return {.device = "sim",
          .cores = 1,
          .options = {{"not_deterministic", ops}, {"lacks", "linear_gelu"}}};
}

TEST(Deterministic, WhatMayDifferIsListed) {
  testing::TempDir folder;
  TrainingRun run;
  run.entries = {SimThatMayDiffer("gelu,softmax_grad")};
  run.steps = 1;
  ASSERT_OK(run.Run(folder, "run"));
  ASSERT_EQ(run.plan.not_deterministic.size(), 1u);  // the model has no softmax of its own
  EXPECT_THAT(run.plan.not_deterministic[0].op, HasSubstr("gelu@"));
  EXPECT_EQ(run.plan.not_deterministic[0].vcu, "sim:0.0");
  EXPECT_EQ(run.plan.not_deterministic[0].calls, 2 * 2);  // layers x micro-batches
  EXPECT_THAT(run.plan.substitutes, IsEmpty());
  const auto read = Plan::FromJson(run.plan.ToJson());
  ASSERT_OK(read);
  EXPECT_EQ(read->not_deterministic.size(), 1u);
}

TEST(Deterministic, WhatMayDifferIsReplaced) {
  testing::TempDir folder;
  TrainingRun run;
  run.entries = {SimThatMayDiffer("gelu")};
  run.deterministic = true;
  run.steps = 1;
  ASSERT_OK(run.Run(folder, "run"));
  EXPECT_THAT(run.plan.not_deterministic, IsEmpty());
  ASSERT_EQ(run.plan.substitutes.size(), 1u);
  EXPECT_THAT(run.plan.substitutes[0].op, HasSubstr("gelu@"));
}

OpRequest Product(bool deterministic = false) {
  static const std::shared_ptr<const OpRegistry> ops = BuiltinOps();
  const TensorType square = {DType::kF32, {4, 4}};
  Attributes attrs;
  attrs.Set("transpose_a", false);
  attrs.Set("transpose_b", false);
  return {.def = ops->Find("matmul"),
          .attrs = attrs,
          .inputs = {square, square},
          .outputs = {square},
          .deterministic = deterministic};
}

StatusOr<std::unique_ptr<Slice>> SimSlice(std::vector<std::unique_ptr<Device>>& devices) {
  OC_ASSIGN_OR_RETURN(devices, DiscoverSim({ReferenceKernels()}));
  return devices[0]->CreateSlice({.options = {{"not_deterministic", "matmul"}}});
}

TEST(Deterministic, WhatCannotBeReplacedIsRefused) {
  std::vector<std::unique_ptr<Device>> devices;
  auto slice = SimSlice(devices);
  ASSERT_OK(slice);
  const auto strict = WithSubstitutes(*std::move(slice), nullptr, {.deterministic = true});
  const auto op = strict->Prepare(Product());
  ExpectError(op, StatusCode::kUnimplemented, "op matmul");
  ExpectError(op, StatusCode::kUnimplemented, "may not repeat bit by bit");
  const auto support = strict->Support(Product());
  ASSERT_OK(support);
  EXPECT_FALSE(support->supported);
  EXPECT_THAT(support->reason, HasSubstr("may not repeat bit by bit"));
}

TEST(Deterministic, WithoutTheWishItRuns) {
  std::vector<std::unique_ptr<Device>> devices;
  auto slice = SimSlice(devices);
  ASSERT_OK(slice);
  const auto plain = WithSubstitutes(*std::move(slice), nullptr);
  const auto op = plain->Prepare(Product());
  ASSERT_OK(op);
  EXPECT_FALSE((*op)->deterministic());
}

// A device that does not know the wish: its answer counts.
class Ignorant : public Slice {
 public:
  explicit Ignorant(std::unique_ptr<Slice> slice) : slice_(std::move(slice)) {}
  std::string kind() const override { return slice_->kind(); }
  Enforcement enforcement() const override { return slice_->enforcement(); }
  std::vector<DType> dtypes() const override { return slice_->dtypes(); }
  StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override {
    return slice_->Allocate(bytes);
  }
  StatusOr<std::unique_ptr<Queue>> CreateQueue(const std::string& name) override {
    return slice_->CreateQueue(name);
  }
  StatusOr<std::unique_ptr<Event>> CreateEvent() override { return slice_->CreateEvent(); }
  StatusOr<std::unique_ptr<PreparedOp>> Prepare(const OpRequest& request) override {
    return slice_->Prepare(Forget(request));
  }
  StatusOr<OpSupport> Support(const OpRequest& request) override {
    return slice_->Support(Forget(request));
  }
  std::span<std::byte> HostView(BufferRange range) override { return slice_->HostView(range); }

 private:
  static OpRequest Forget(OpRequest request) {
    request.deterministic = false;
    return request;
  }
  std::unique_ptr<Slice> slice_;
};

TEST(Deterministic, ADeviceThatDoesNotKnowTheWishIsAskedWhatItMade) {
  std::vector<std::unique_ptr<Device>> devices;
  auto slice = SimSlice(devices);
  ASSERT_OK(slice);
  const auto strict = WithSubstitutes(std::make_unique<Ignorant>(*std::move(slice)), nullptr,
                                      {.deterministic = true});
  ExpectError(strict->Prepare(Product()), StatusCode::kUnimplemented,
              "reference does not say that it repeats its results bit by bit");
  const auto support = strict->Support(Product());
  ASSERT_OK(support);
  EXPECT_FALSE(support->supported);
}

// A kernel of a user's that says nothing gives way to the next one that does.
TEST(Deterministic, AKernelThatSaysNothingGivesWay) {
  auto own = std::make_shared<KernelRegistry>();
  own->Add("matmul", ReferenceKernels()->Find("matmul")->create);
  for (const bool wanted : {false, true}) {
    const auto kernel = CreateKernel({own, ReferenceKernels()}, Product(wanted), 1, "here");
    ASSERT_OK(kernel);
    EXPECT_EQ((*kernel)->deterministic(), wanted);
  }
  ExpectError(CreateKernel({own}, Product(true), 1, "here"), StatusCode::kUnimplemented,
              "does not say that it repeats its results");
}

}  // namespace
}  // namespace oc

#include "openclaw/runtime/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <thread>

#include "openclaw/graph/models/models.h"
#include "openclaw/runtime/data/synthetic.h"

#include "test_files.h"

namespace oc {
namespace {

using absl::StatusCode;
using testing::ExpectError;

constexpr double kLr = 0.5;

// Two stages of a small network and its data.
class PipelineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto cluster = Cluster::Discover({.vcus = 2});
    ASSERT_OK(cluster);
    cluster_.emplace(std::move(*cluster));
    auto model = models::Mlp({.hidden = {32}});
    ASSERT_OK(model);
    auto pipeline = ElasticPipeline::Create(
        *model, *cluster_, Sgd{.lr = kLr},
        {.micro_batch = 8, .global_batch = 32, .pipeline_depth = 2, .profile_seconds = 0.02});
    ASSERT_OK(pipeline);
    pipeline_ = std::move(*pipeline);
    auto batches = pipeline_->UseData(*data_, /*steps=*/4);
    ASSERT_OK(batches);
    for (const Batch& batch : *batches) batches_.push_back(batch);
  }
  std::vector<double> Read(const std::string& name) {
    auto value = pipeline_->ReadVariable(name);
    EXPECT_OK(value);
    std::vector<double> numbers;
    for (int64_t i = 0; value.ok() && i < value->num_elements(); ++i) {
      numbers.push_back(value->at(i));
    }
    return numbers;
  }
  // One step; what is read as a gradient afterwards must be what moved the parameter.
  void StepAndCompare(int index, const std::string& name) {
    const std::vector<double> before = Read(name);
    ASSERT_OK(pipeline_->Step(batches_[index]));
    const std::vector<double> after = Read(name), gradient = Read("grad." + name);
    ASSERT_EQ(gradient.size(), before.size());
    double difference = 0, norm = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      difference += std::pow((before[i] - after[i]) / kLr - gradient[i], 2);
      norm += gradient[i] * gradient[i];
    }
    EXPECT_GT(norm, 0) << name;
    EXPECT_LE(std::sqrt(difference / norm), 1e-4) << name;
  }

  std::unique_ptr<Dataset> data_ = MakeSyntheticImages({.size = 256});
  std::optional<Cluster> cluster_;
  std::unique_ptr<ElasticPipeline> pipeline_;
  std::vector<Batch> batches_;
};

constexpr char kOverwritten[] =
    "gradients are those of the last training step; an evaluation since then overwrote them: read "
    "before Evaluate";

TEST_F(PipelineTest, GradientsAreReadBetweenAStepAndAnEvaluation) {
  for (const char* name : {"layers.0.weight", "layers.1.weight"}) {
    SCOPED_TRACE(name);
    const std::string gradient = absl::StrCat("grad.", name);
    StepAndCompare(static_cast<int>(pipeline_->step()), name);
    ASSERT_OK(pipeline_->Evaluate(*data_));
    const auto read = pipeline_->ReadVariable(gradient);
    ExpectError(read, StatusCode::kFailedPrecondition, kOverwritten);
    ExpectError(read, StatusCode::kFailedPrecondition, "read variable " + gradient);
    EXPECT_OK(pipeline_->ReadVariable(name));
    StepAndCompare(static_cast<int>(pipeline_->step()), name);
  }
}

TEST_F(PipelineTest, ForwardOverwritesGradientsToo) {
  StepAndCompare(0, "layers.1.bias");
  const std::map<std::string, Tensor> inputs = {{"images", Tensor({DType::kF32, {8, 28, 28, 1}})}};
  ASSERT_OK(pipeline_->Forward(inputs, "logits"));
  ExpectError(pipeline_->ReadVariable("grad.layers.1.bias"), StatusCode::kFailedPrecondition,
              kOverwritten);
}

TEST_F(PipelineTest, NoGradientsBeforeAStepHasEnded) {
  ExpectError(pipeline_->ReadVariable("grad.layers.0.weight"), StatusCode::kFailedPrecondition,
              "none has ended well: read after Step");
  EXPECT_OK(pipeline_->ReadVariable("layers.0.weight"));
}

TEST_F(PipelineTest, AnUnknownVariableIsUnknownWhateverRan) {
  for (int i = 0; i < 2; ++i) {
    for (const char* name : {"grad.layers.7.weight", "layers.7.weight", "grad."}) {
      ExpectError(pipeline_->ReadVariable(name), StatusCode::kInvalidArgument,
                  absl::StrCat("read variable ", name, ": no VCU of this process holds it"));
    }
    ASSERT_OK(pipeline_->Evaluate(*data_));
  }
}

// A plan knows whether it computes activations again, so that it can be run as it was.
TEST_F(PipelineTest, APlanIsRunAgainWithItsRecomputation) {
  pipeline_.reset();
  auto model = models::Gpt2({.layers = 2, .width = 16, .heads = 2, .context = 8, .vocabulary = 17});
  ASSERT_OK(model);
  PipelineOptions options = {.micro_batch = 2,
                             .global_batch = 4,
                             .pipeline_depth = 2,
                             .recompute = "marked",
                             .profile_seconds = 0.02};
  auto first = ElasticPipeline::Create(*model, *cluster_, AdamW{}, options);
  ASSERT_OK(first);
  EXPECT_FALSE((*first)->plan().recomputed.empty());
  options.plan_json = (*first)->plan().ToJson();
  options.recompute = "auto";
  options.epoch = 1;
  auto again = ElasticPipeline::Create(*model, *cluster_, AdamW{}, options);
  ASSERT_OK(again);
  EXPECT_EQ((*again)->plan().recomputed, (*first)->plan().recomputed);
}

// The averages are states, saved with the rest, and take the parameters' place where they are asked
// for.
TEST_F(PipelineTest, MovingAveragesAreSavedAndLoaded) {
  const std::filesystem::path dir =
      std::filesystem::temp_directory_path() / ("oc_averages_" + std::to_string(getpid()));
  ASSERT_OK(pipeline_->Step(batches_[0]));
  auto without = pipeline_->Save(dir / "without");
  ASSERT_OK(without);
  const Status none = pipeline_->LoadModel(*without, /*ema=*/true);
  ExpectError(none, StatusCode::kInvalidArgument, "kept no moving averages (optimizer.ema)");
  pipeline_.reset();
  auto model = models::Mlp({.hidden = {32}});
  ASSERT_OK(model);
  auto averaging = ElasticPipeline::Create(
      *model, *cluster_, HybridOptimizer(Lamb{.lr = 0.01}, {.ema_decay = 0.75}),
      {.micro_batch = 8, .global_batch = 48, .profile_seconds = 0.02, .epoch = 1});
  ASSERT_OK(averaging);
  pipeline_ = std::move(*averaging);
  auto batches = pipeline_->UseData(*data_, 3);
  ASSERT_OK(batches);
  std::vector<double> expected;
  for (const Batch& batch : *batches) {
    ASSERT_OK(pipeline_->Step(batch));
    const std::vector<double> weight = Read("layers.0.weight");
    if (expected.empty()) expected = weight;
    for (size_t i = 0; i < weight.size(); ++i) expected[i] += 0.25 * (weight[i] - expected[i]);
  }
  const std::vector<double> average = Read("ema.layers.0.weight");
  for (size_t i = 0; i < average.size(); ++i) ASSERT_NEAR(average[i], expected[i], 1e-6);
  auto saved = pipeline_->Save(dir / "with");
  ASSERT_OK(saved);
  EXPECT_OK(pipeline_->LoadModel(*saved, /*ema=*/true));
  EXPECT_EQ(Read("layers.0.weight"), average);
  EXPECT_OK(pipeline_->LoadModel(*saved));
  EXPECT_NE(Read("layers.0.weight"), average);
  std::filesystem::remove_all(dir);
}

// Evaluation takes a checkpoint whatever batch and seed the run had; training does not.
TEST_F(PipelineTest, LoadModelTakesWeightsAlone) {
  const std::filesystem::path dir =
      std::filesystem::temp_directory_path() / ("oc_load_model_" + std::to_string(getpid()));
  ASSERT_OK(pipeline_->Step(batches_[0]));
  const std::vector<double> weight = Read("layers.0.weight");
  auto saved = pipeline_->Save(dir);
  ASSERT_OK(saved);
  pipeline_.reset();
  auto model = models::Mlp({.hidden = {32}});
  ASSERT_OK(model);
  auto other = ElasticPipeline::Create(
      *model, *cluster_, AdamW{},
      {.micro_batch = 8, .global_batch = 48, .seed = 9, .profile_seconds = 0.02, .epoch = 1});
  ASSERT_OK(other);
  pipeline_ = std::move(*other);
  EXPECT_FALSE(pipeline_->Load(*saved).ok());
  EXPECT_OK(pipeline_->LoadModel(*saved));
  EXPECT_EQ(Read("layers.0.weight"), weight);
  std::filesystem::remove_all(dir);
}

// A data set that counts what is read.
class Counted : public Dataset {
 public:
  explicit Counted(std::unique_ptr<Dataset> inner)
      : Dataset(inner->features()), inner_(std::move(inner)) {}
  int64_t size() const override { return inner_->size(); }
  Status Read(int64_t index, Sample& sample) const override {
    reads_.fetch_add(1);
    return inner_->Read(index, sample);
  }
  int64_t reads() const { return reads_.load(); }

 private:
  const std::unique_ptr<Dataset> inner_;
  mutable std::atomic<int64_t> reads_{0};
};

// Nothing is read ahead beyond the last step, so that the data may go before the pipeline.
TEST_F(PipelineTest, DataEndsWithTheLastStep) {
  constexpr int kSteps = 3;
  auto data = std::make_unique<Counted>(MakeSyntheticImages({.size = 256}));
  auto batches = pipeline_->UseData(*data, kSteps);
  ASSERT_OK(batches);
  for (const Batch& batch : *batches) ASSERT_OK(pipeline_->Step(batch));
  EXPECT_EQ(pipeline_->step(), kSteps);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // for who would read ahead
  EXPECT_EQ(data->reads(), kSteps * pipeline_->global_batch());
  // A step beyond them reads what it needs itself.
  ASSERT_OK(pipeline_->Step({.step = kSteps, .indices = batches_[0].indices}));
  EXPECT_EQ(data->reads(), (kSteps + 1) * pipeline_->global_batch());
  data.reset();
  EXPECT_OK(pipeline_->Evaluate(*data_));
  pipeline_.reset();
}

}  // namespace
}  // namespace oc

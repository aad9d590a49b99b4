// The applied gradient is that of the mean over all valid tokens of the global batch, however the
// batch is cut into micro-batches and shared among replicas. The measure is made of the samples'
// own gradients, each trained on alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "openclaw/graph/models/models.h"
#include "openclaw/runtime/data/synthetic.h"
#include "openclaw/runtime/pipeline.h"

#include "masked_targets.h"
#include "test_files.h"

namespace oc {
namespace {

constexpr int64_t kContext = 24, kVocabulary = 61, kSamples = 8;
// Of norms, in f32.
constexpr double kTolerance = 1e-6;

// Valid tokens from none and one to all.
int64_t HiddenOf(int64_t index, int64_t length) {
  constexpr double kShares[kSamples] = {0, 0.96, 0.5, 1, 0.1, 0.9, 0.25, 0.75};
  return static_cast<int64_t>(std::llround(kShares[index % kSamples] * double(length)));
}

// Gradients by name, flat.
using Gradients = std::map<std::string, std::vector<double>>;

struct StepOf {
  Gradients gradients;
  double valid = 0;  // tokens
};

class GradientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // Without dropout, whose masks are indexed by a sample's place in the batch.
    auto model = models::Gpt2({.layers = 2,
                               .width = 32,
                               .heads = 2,
                               .context = kContext,
                               .vocabulary = kVocabulary,
                               .dropout = 0});
    ASSERT_OK(model);
    model_ = std::move(*model);
  }

  StatusOr<std::unique_ptr<ElasticPipeline>> Create(Cluster& cluster, int64_t micro_batch,
                                                    int64_t global_batch, int replicas,
                                                    std::string plan = "") {
    return ElasticPipeline::Create(model_, cluster, Sgd{.lr = 1e-3},
                                   {.micro_batch = micro_batch,
                                    .global_batch = global_batch,
                                    .pipeline_depth = 1,
                                    .data_parallel = replicas,
                                    .plan_json = std::move(plan),
                                    .profile_seconds = 0.01});
  }

  // The gradients of one step on `samples`, the first that the pipeline takes.
  StatusOr<StepOf> Step(ElasticPipeline& pipeline, std::vector<int64_t> samples) {
    OC_RETURN_IF_ERROR(pipeline.UseData(*data_, 1).status());
    OC_ASSIGN_OR_RETURN(const StepResult step, pipeline.Step({.indices = std::move(samples)}));
    StepOf result{.valid = step.metrics.at("loss_count")};
    const Graph& joint = pipeline.joint();
    for (const Variable& p : joint.parameters) {
      const std::string& name = joint.value(p.value).name;
      OC_ASSIGN_OR_RETURN(const Tensor gradient, pipeline.ReadVariable("grad." + name));
      std::vector<double>& numbers = result.gradients[name];
      for (int64_t i = 0; i < gradient.num_elements(); ++i) numbers.push_back(gradient.at(i));
    }
    return result;
  }

  // Of all samples on one VCU, in micro-batches of this size.
  StepOf Accumulated(int64_t micro_batch) {
    auto cluster = Cluster::Discover({.vcus = 1});
    EXPECT_OK(cluster);
    auto pipeline = Create(*cluster, micro_batch, kSamples, 1);
    EXPECT_OK(pipeline);
    if (!pipeline.ok()) return {};
    auto step = Step(**pipeline, All());
    EXPECT_OK(step);
    return step.ok() ? *step : StepOf{};
  }

  static std::vector<int64_t> All() {
    std::vector<int64_t> all(kSamples);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  // Each sample's gradient, of the mean over its own tokens; none of a sample without any.
  std::vector<StepOf> Alone() {
    std::vector<StepOf> steps;
    auto cluster = Cluster::Discover({.vcus = 1});
    EXPECT_OK(cluster);
    for (int64_t i = 0; i < kSamples; ++i) {
      if (HiddenOf(i, kContext) == kContext) continue;
      auto pipeline = Create(*cluster, 1, 1, 1);
      EXPECT_OK(pipeline);
      if (!pipeline.ok()) return {};
      auto step = Step(**pipeline, {i});
      EXPECT_OK(step);
      steps.push_back(step.ok() ? *step : StepOf{});
    }
    return steps;
  }

  Graph model_;
  std::unique_ptr<Dataset> data_ = std::make_unique<MaskedTargets>(
      MakeSyntheticTokens({.size = 64, .context = kContext, .vocabulary = kVocabulary}), HiddenOf);
};

// The mean with weights.
Gradients Mean(const std::vector<StepOf>& steps, const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  Gradients mean;
  for (size_t k = 0; k < steps.size(); ++k) {
    for (const auto& [name, from] : steps[k].gradients) {
      std::vector<double>& to = mean[name];
      to.resize(from.size());
      for (size_t i = 0; i < from.size(); ++i) to[i] += weights[k] / sum * from[i];
    }
  }
  return mean;
}

// |a - b| / |b| over all parameters.
double Difference(const Gradients& a, const Gradients& b) {
  double difference = 0, norm = 0;
  for (const auto& [name, expected] : b) {
    const auto it = a.find(name);
    if (it == a.end() || it->second.size() != expected.size()) return HUGE_VAL;
    for (size_t i = 0; i < expected.size(); ++i) {
      difference += std::pow(it->second[i] - expected[i], 2);
      norm += expected[i] * expected[i];
    }
  }
  return std::sqrt(difference / norm);
}

// The means over all tokens and over samples differ, so that what follows can tell them apart.
TEST_F(GradientTest, AccumulationGivesTheMeanOverAllTokens) {
  const std::vector<StepOf> alone = Alone();
  ASSERT_EQ(alone.size(), static_cast<size_t>(kSamples) - 1);
  std::vector<double> tokens;
  for (const StepOf& s : alone) tokens.push_back(s.valid);
  EXPECT_EQ(*std::min_element(tokens.begin(), tokens.end()), 1);
  EXPECT_EQ(*std::max_element(tokens.begin(), tokens.end()), kContext);
  const Gradients mean = Mean(alone, tokens);
  const Gradients mean_of_means = Mean(alone, std::vector<double>(alone.size(), 1.0));
  EXPECT_GT(Difference(mean_of_means, mean), 1000 * kTolerance);
  for (const int64_t micro_batches : {1, 2, 4, 8}) {
    const StepOf step = Accumulated(kSamples / micro_batches);
    EXPECT_LE(Difference(step.gradients, mean), kTolerance) << micro_batches << " micro-batches";
    EXPECT_EQ(step.valid, std::accumulate(tokens.begin(), tokens.end(), 0.0));
  }
}

TEST_F(GradientTest, UnequalSharesGiveTheMeanOverAllTokens) {
  const StepOf one = Accumulated(kSamples);
  auto cluster = Cluster::Discover({.vcus = 3});
  ASSERT_OK(cluster);
  Plan plan;
  {
    auto planned = Create(*cluster, 1, kSamples, 3);
    ASSERT_OK(planned);
    plan = (*planned)->plan();
  }
  for (const std::vector<int>& owner : {std::vector<int>{0, 0, 0, 0, 0, 1, 1, 2},
                                        {2, 1, 0, 0, 1, 0, 0, 0},
                                        {0, 0, 0, 1, 1, 1, 2, 2}}) {
    plan.stages[0].owner = owner;
    auto pipeline = Create(*cluster, 1, kSamples, 3, plan.ToJson());
    ASSERT_OK(pipeline);
    ASSERT_EQ((*pipeline)->plan().stages[0].owner, owner);
    auto step = Step(**pipeline, All());
    ASSERT_OK(step);
    EXPECT_LE(Difference(step->gradients, one.gradients), kTolerance);
  }
}

}  // namespace
}  // namespace oc

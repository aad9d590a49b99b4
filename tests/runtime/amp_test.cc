// Mixed precision in training: curves at each level, sums in f32, units without the half type, and
// values that are not finite.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "openclaw/graph/models/models.h"
#include "openclaw/runtime/data/synthetic.h"
#include "openclaw/runtime/pipeline.h"

#include "test_files.h"

namespace oc {
namespace {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::Contains;
using testing::ExpectError;
using ::testing::HasSubstr;
using testing::Message;
using ::testing::Not;

// Everything but the half types.
constexpr char kNoHalf[] = "f32, i32, i64, u8, bool";

ClusterEntry Sim(const std::string& dtypes = "") {
  ClusterEntry entry{.device = "sim", .cores = 1};
  if (!dtypes.empty()) entry.options["dtypes"] = dtypes;
  return entry;
}

// The samples of another set, one value of some of them replaced.
class Replaced : public Dataset {
 public:
  Replaced(std::unique_ptr<Dataset> inner, float value, int64_t from = 0)
      : Dataset(inner->features()), inner_(std::move(inner)), value_(value), from_(from) {}
  int64_t size() const override { return inner_->size(); }
  Status Read(int64_t index, Sample& sample) const override {
    OC_RETURN_IF_ERROR(inner_->Read(index, sample));
    if (index >= from_) sample.row<float>(0)[5] = value_;
    return OkStatus();
  }

 private:
  const std::unique_ptr<Dataset> inner_;
  const float value_;
  const int64_t from_;
};

// The first sample of another set, again and again.
class Same : public Dataset {
 public:
  explicit Same(std::unique_ptr<Dataset> inner)
      : Dataset(inner->features()), inner_(std::move(inner)) {}
  int64_t size() const override { return inner_->size(); }
  Status Read(int64_t, Sample& sample) const override { return inner_->Read(0, sample); }

 private:
  const std::unique_ptr<Dataset> inner_;
};

class AmpTest : public ::testing::Test {
 protected:
  // Data must outlive the pipeline that reads it ahead: declared behind the data.
  class EndsPipeline {
   public:
    explicit EndsPipeline(AmpTest& test) : test_(test) {}
    ~EndsPipeline() { test_.pipeline_ = nullptr; }

   private:
    AmpTest& test_;
  };

  Status Open(const StatusOr<Graph>& model, const HybridOptimizer& optimizer,
              PipelineOptions options, std::vector<ClusterEntry> entries = {}) {
    pipeline_ = nullptr;
    OC_RETURN_IF_ERROR(model.status());
    DiscoverOptions discover{.config = {.entries = std::move(entries)}};
    if (discover.config.entries.empty()) discover.vcus = 1;
    OC_ASSIGN_OR_RETURN(Cluster cluster, Cluster::Discover(discover));
    cluster_ = std::make_unique<Cluster>(std::move(cluster));
    options.profile_seconds = 0.02;
    OC_ASSIGN_OR_RETURN(pipeline_, ElasticPipeline::Create(*model, *cluster_, optimizer, options));
    return OkStatus();
  }
  // Losses of all steps, or of those before the error.
  Status Train(const Dataset& data, int64_t steps, std::vector<double>& losses) {
    OC_ASSIGN_OR_RETURN(const Batches batches, pipeline_->UseData(data, steps));
    for (const Batch& batch : batches) {
      OC_ASSIGN_OR_RETURN(last_, pipeline_->Step(batch));
      losses.push_back(last_.loss);
    }
    return OkStatus();
  }
  std::vector<double> Read(const std::string& name) {
    std::vector<double> numbers;
    const auto value = pipeline_->ReadVariable(name);
    EXPECT_OK(value);
    for (int64_t i = 0; value.ok() && i < value->num_elements(); ++i) {
      numbers.push_back(value->at(i));
    }
    return numbers;
  }

  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<ElasticPipeline> pipeline_;
  StepResult last_;
};

struct Level {
  AmpLevel level;
  DType half;
  double slack;  // how much further it may stray
};

double MeanOfLast(const std::vector<double>& losses, size_t n) {
  double sum = 0;
  for (size_t i = losses.size() - n; i < losses.size(); ++i) sum += losses[i];
  return sum / static_cast<double>(n);
}

// The whole way at each level, close to f32.
TEST_F(AmpTest, CurvesOfAllLevelsLieTogether) {
  struct Case {
    const char* name;
    StatusOr<Graph> model;
    std::unique_ptr<Dataset> data;
    double tolerance;  // of the mean of the last losses, at O1 and O2
  };
  std::vector<Case> cases;
  const EndsPipeline ends(*this);
  cases.push_back({"mlp", models::Mlp({.hidden = {64, 32}, .dropout = 0.1}),
                   MakeSyntheticImages({.size = 512, .noise = 4.0}), 0.03});
  cases.push_back(
      {"resnet",
       models::ResNet(
           {.input = {12, 12, 1}, .depth = 18, .classes = 10, .stem = "small", .width = 8}),
       MakeSyntheticImages({.size = 512, .height = 12, .width = 12, .noise = 3.0}), 0.05});
  cases.push_back(
      {"gpt", models::Gpt2({.layers = 2, .width = 32, .heads = 2, .context = 16, .vocabulary = 61}),
       MakeSyntheticTokens({.size = 512, .context = 16, .vocabulary = 61}), 0.01});
  constexpr Level kLevels[] = {{AmpLevel::kO1, DType::kBF16, 1},
                               {AmpLevel::kO1, DType::kF16, 1},
                               {AmpLevel::kO2, DType::kBF16, 1},
                               {AmpLevel::kO2, DType::kF16, 1},
                               {AmpLevel::kO3, DType::kBF16, 5}};
  for (Case& c : cases) {
    PipelineOptions options = {.micro_batch = 8, .global_batch = 16};
    const HybridOptimizer optimizer(AdamW{.lr = 2e-3}, {.clip_norm = 1.0});
    ASSERT_OK(Open(c.model, optimizer, options));
    std::vector<double> exact;
    ASSERT_OK(Train(*c.data, 30, exact));
    const auto evaluated = pipeline_->Evaluate(*c.data);
    ASSERT_OK(evaluated);
    EXPECT_LT(MeanOfLast(exact, 5), 0.9 * exact[0]) << c.name;
    for (const Level& level : kLevels) {
      const double tolerance = c.tolerance * level.slack;
      SCOPED_TRACE(absl::StrCat(c.name, " ", Name(level.level), " ", Name(level.half)));
      options.amp_level = level.level;
      options.half = level.half;
      ASSERT_OK(Open(c.model, optimizer, options));
      std::vector<double> losses;
      ASSERT_OK(Train(*c.data, 30, losses));
      EXPECT_NEAR(losses[0], exact[0], 0.01 * exact[0]);
      EXPECT_NE(losses[0], exact[0]);  // it is another arithmetic
      const double expected = MeanOfLast(exact, 5);
      EXPECT_NEAR(MeanOfLast(losses, 5), expected, tolerance * expected);
      const auto half = pipeline_->Evaluate(*c.data);
      ASSERT_OK(half);
      EXPECT_NEAR(half->loss, evaluated->loss, 2 * tolerance * evaluated->loss);
      // From O1 to O2 parameters are what a checkpoint of f32 holds.
      const DType stored = level.level == AmpLevel::kO3 ? level.half : DType::kF32;
      EXPECT_EQ(pipeline_->joint().value(pipeline_->joint().parameters[0].value).type.dtype,
                stored);
    }
  }
}

// Five hundred equal gradients: a sum of eight bits would stop growing at half of it.
TEST_F(AmpTest, MicroBatchesAreAddedInF32) {
  const Same data(MakeSyntheticImages({.size = 512}));
  const EndsPipeline ends(*this);
  PipelineOptions options = {.micro_batch = 1, .global_batch = 512};
  std::vector<double> losses;
  const HybridOptimizer still(Sgd{.lr = 0});
  ASSERT_OK(Open(models::Mlp({.hidden = {16}}), still, options));
  ASSERT_OK(Train(data, 1, losses));
  const std::vector<double> exact = Read("grad.layers.1.weight");
  for (AmpLevel level : {AmpLevel::kO2, AmpLevel::kO3}) {
    options.amp_level = level;
    ASSERT_OK(Open(models::Mlp({.hidden = {16}}), still, options));
    ASSERT_OK(Train(data, 1, losses));
    const std::vector<double> half = Read("grad.layers.1.weight");
    double difference = 0, norm = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      difference += std::pow(half[i] - exact[i], 2);
      norm += exact[i] * exact[i];
    }
    ASSERT_GT(norm, 0);
    EXPECT_LT(std::sqrt(difference / norm), 0.02) << Name(level);
  }
}

// A power of two leaves every digit where it was.
TEST_F(AmpTest, AFixedScaleChangesNothingInF32) {
  const auto data = MakeSyntheticImages({.size = 256});
  const EndsPipeline ends(*this);
  PipelineOptions options = {.micro_batch = 8, .global_batch = 16};
  const HybridOptimizer optimizer(Sgd{.lr = 0.1, .momentum = 0.9}, {.clip_norm = 0.5});
  std::vector<double> plain, scaled;
  ASSERT_OK(Open(models::Mlp({.hidden = {16}}), optimizer, options));
  ASSERT_OK(Train(*data, 10, plain));
  const double norm = last_.grad_norm;
  options.loss_scale = {.mode = LossScaleConfig::Mode::kFixed, .value = 1024};
  ASSERT_OK(Open(models::Mlp({.hidden = {16}}), optimizer, options));
  ASSERT_OK(Train(*data, 10, scaled));
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(plain[i], scaled[i], 1e-6 * plain[i]);
  EXPECT_NEAR(last_.grad_norm, norm, 1e-5 * norm);
  EXPECT_EQ(last_.loss_scale, 1024);
}

// A unit without the half type computes in the best that it has, beside one that has it.
TEST_F(AmpTest, EachUnitComputesInWhatItHas) {
  const auto data = MakeSyntheticImages({.size = 512, .height = 8, .width = 8, .noise = 2.0});
  const EndsPipeline ends(*this);
  const auto model = models::Mlp({.input = {8, 8, 1}, .hidden = {48, 32}});
  const HybridOptimizer optimizer(AdamW{.lr = 2e-3}, {.clip_norm = 1});
  PipelineOptions options = {.micro_batch = 8, .global_batch = 32};
  std::vector<double> exact;
  ASSERT_OK(Open(model, optimizer, options, {Sim()}));
  ASSERT_OK(Train(*data, 20, exact));
  options.amp_level = AmpLevel::kO2;
  struct Mix {
    const char* first;
    DType expected;
  };
  for (const Mix& mix :
       {Mix{kNoHalf, DType::kF32}, Mix{"f32, f16, i32, i64, u8, bool", DType::kF16}}) {
    for (const auto& [depth, replicas] : {std::pair{2, 1}, std::pair{1, 2}}) {
      SCOPED_TRACE(absl::StrCat(mix.first, " ", depth, "x", replicas));
      options.pipeline_depth = depth;
      options.data_parallel = replicas;
      ASSERT_OK(Open(model, optimizer, options, {Sim(mix.first), Sim()}));
      EXPECT_EQ(pipeline_->plan().compute_types, (std::vector<DType>{mix.expected, DType::kBF16}));
      const auto read = Plan::FromJson(pipeline_->plan().ToJson());
      ASSERT_OK(read);
      EXPECT_EQ(read->compute_types, pipeline_->plan().compute_types);
      std::vector<double> losses;
      ASSERT_OK(Train(*data, 20, losses));
      ASSERT_OK(pipeline_->Evaluate(*data));
      EXPECT_NEAR(MeanOfLast(losses, 5), MeanOfLast(exact, 5), 0.02 * MeanOfLast(exact, 5));
      // A loss scale only where somebody needs it, and the same for all.
      EXPECT_EQ(last_.loss_scale, mix.expected == DType::kF16 ? 65536 : 1);
    }
  }
}

TEST_F(AmpTest, ALevelThatNoDeviceHasIsRefused) {
  const auto model = models::Mlp({.hidden = {16}});
  PipelineOptions options = {.micro_batch = 8, .global_batch = 32, .amp_level = AmpLevel::kO2};
  ExpectError(Open(model, AdamW{}, options, {Sim(kNoHalf), Sim(kNoHalf)}),
              StatusCode::kInvalidArgument, "no VCU computes in it");
  options.amp_level = AmpLevel::kO3;
  const Status status = Open(model, AdamW{}, options, {Sim(kNoHalf), Sim()});
  ExpectError(status, StatusCode::kInvalidArgument, "use O2");
  EXPECT_THAT(Message(status), HasSubstr("layers.0.weight"));
  options.amp_level = AmpLevel::kO2Fp8;
  ExpectError(Open(model, AdamW{}, options, {Sim()}), StatusCode::kUnimplemented, "O2-fp8");
}

// Of devices that move half as many bytes in a half type it takes one; of those that have none, O0.
// Each level's row tells what its own plan takes.
TEST_F(AmpTest, AnOpenLevelIsTheFastestThatTheDevicesHave) {
  // Activations outweigh weights and their casts.
  const auto model =
      models::Gpt2({.layers = 1, .width = 32, .heads = 2, .context = 32, .vocabulary = 16});
  PipelineOptions options = {.micro_batch = 8, .global_batch = 8, .amp_level = std::nullopt};
  const auto slow = [](const std::string& dtypes) {
    ClusterEntry entry = Sim(dtypes);
    entry.options["memory_gbps"] = "0.06";
    entry.options["flops"] = "1e12";
    return entry;
  };
  ASSERT_OK(Open(model, Sgd{.lr = 0.1}, options, {slow("")}));
  EXPECT_NE(pipeline_->amp_level(), AmpLevel::kO0);
  EXPECT_NE(pipeline_->amp_level(), AmpLevel::kO3);
  EXPECT_THAT(pipeline_->plan().advice, Contains(HasSubstr("precision.amp_level auto is O")));
  const auto rows = pipeline_->CompareLevels();
  ASSERT_OK(rows);
  ASSERT_EQ(rows->size(), 4u);
  const double own = pipeline_->plan().predicted_step_seconds;
  for (size_t i = 0; i < rows->size(); ++i) {
    const PlanAlternative& row = (*rows)[i];
    EXPECT_EQ(row.name, absl::StrCat("amp_level O", i));
    EXPECT_TRUE(row.fits);
    EXPECT_EQ(row.chosen, row.name.back() == Name(pipeline_->amp_level())[1]);
    EXPECT_FALSE(row.why.empty()) << row.name;
    if (i < 3) {
      EXPECT_GE(row.step_seconds, own * 0.99) << row.name;
    }
  }
  EXPECT_GT((*rows)[0].step_seconds, own * 1.05);
  EXPECT_LT((*rows)[3].arena_bytes, (*rows)[0].arena_bytes);
  EXPECT_THAT((*rows)[3].why, HasSubstr("taken on request alone"));

  // A plan file brings its level.
  const std::string plan = pipeline_->plan().ToJson();
  const AmpLevel level = pipeline_->amp_level();
  options.plan_json = plan;
  ASSERT_OK(Open(model, Sgd{.lr = 0.1}, options, {slow("")}));
  EXPECT_EQ(pipeline_->amp_level(), level);
  options.plan_json.clear();

  ASSERT_OK(Open(model, Sgd{.lr = 0.1}, options, {slow(kNoHalf)}));
  EXPECT_EQ(pipeline_->amp_level(), AmpLevel::kO0);
  const auto one = pipeline_->CompareLevels();
  ASSERT_OK(one);
  ASSERT_EQ(one->size(), 1u);
  EXPECT_TRUE((*one)[0].chosen);
}

// The step, the op and what it reads are named, and the parameters are still the good ones.
TEST_F(AmpTest, ANaNNamesTheStepAndWhereItArose) {
  for (AmpLevel level : {AmpLevel::kO0, AmpLevel::kO2}) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Replaced data(MakeSyntheticImages({.size = 64}), nan, /*from=*/63);
    const EndsPipeline ends(*this);
    PipelineOptions options = {.micro_batch = 8, .global_batch = 16, .amp_level = level};
    ASSERT_OK(Open(models::Mlp({.hidden = {16}}), Sgd{.lr = 0.1}, options));
    const std::vector<double> before = Read("layers.0.weight");
    std::vector<double> losses;
    const Status status = Train(data, 4, losses);
    ExpectError(status, StatusCode::kFailedPrecondition,
                absl::StrCat("step ", losses.size() + 1, ": the loss is "));
    EXPECT_LT(losses.size(), 4u);
    EXPECT_THAT(Message(status), AllOf(HasSubstr("first: input 0 f32"), HasSubstr("images"),
                                       HasSubstr("is nan, in F"), HasSubstr("learning rate")));
    for (double w : Read("layers.0.weight")) ASSERT_TRUE(std::isfinite(w));
    EXPECT_EQ(pipeline_->step(), static_cast<int64_t>(losses.size()));
    if (!losses.empty()) EXPECT_NE(Read("layers.0.weight"), before);
  }
}

// A weight that is beyond f16 overflows whatever the scale.
TEST_F(AmpTest, AnOverflowThatNeverEndsStopsWithAdvice) {
  const Replaced data(MakeSyntheticImages({.size = 512}), std::numeric_limits<float>::infinity());
  const EndsPipeline ends(*this);
  PipelineOptions options = {
      .micro_batch = 8, .global_batch = 16, .amp_level = AmpLevel::kO2, .half = DType::kF16};
  ASSERT_OK(Open(models::Mlp({.hidden = {16}}), Sgd{.lr = 0.1}, options));
  const std::vector<double> before = Read("layers.0.weight");
  std::vector<double> losses;
  const Status status = Train(data, 100, losses);
  EXPECT_EQ(losses.size() + 1, static_cast<size_t>(LossScaler::kMostHalvings));
  ExpectError(status, StatusCode::kFailedPrecondition,
              absl::StrCat("step ", LossScaler::kMostHalvings));
  EXPECT_THAT(Message(status), AllOf(HasSubstr("in a row"), HasSubstr("precision.dtype=bf16")));
  EXPECT_EQ(Read("layers.0.weight"), before);
}

// Running statistics of a skipped step are not taken up, and the optimizer's count stands still.
TEST_F(AmpTest, ASkippedStepLeavesAllStateAsItWas) {
  const Replaced data(MakeSyntheticImages({.size = 64, .height = 8, .width = 8}),
                      std::numeric_limits<float>::infinity());
  const EndsPipeline ends(*this);
  PipelineOptions options = {
      .micro_batch = 8, .global_batch = 16, .amp_level = AmpLevel::kO2, .half = DType::kF16};
  ASSERT_OK(Open(
      models::ResNet({.input = {8, 8, 1}, .depth = 18, .classes = 10, .stem = "small", .width = 8}),
      AdamW{}, options));
  std::map<std::string, std::vector<double>> before;
  for (const StateEntry& e : pipeline_->program().vcus[0].state) before[e.name] = Read(e.name);
  std::vector<double> losses;
  ASSERT_OK(Train(data, 2, losses));
  EXPECT_TRUE(last_.skipped);
  EXPECT_EQ(last_.loss_scale, 32768);
  for (const auto& [name, values] : before) EXPECT_EQ(Read(name), values) << name;
}

}  // namespace
}  // namespace oc

// Every optimizer against PyTorch's, or its paper's formulas, and every schedule against PyTorch's:
// references.json is made by make_references.py. The norm-wise relative difference is at most 1e-6
// after one step and 1e-5 after a hundred on the same gradients, from float64 and from float32, on
// the reference device and on the cpu device.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "openclaw/core/rng.h"
#include "openclaw/devices/cpu/cpu.h"
#include "openclaw/devices/export.h"
#include "openclaw/devices/reference/reference.h"
#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/builder.h"
#include "openclaw/optim/learning_rate.h"
#include "openclaw/optim/optimizer.h"

#include "../graph/interpreter.h"

namespace oc {
namespace {

using nlohmann::json;

StatusOr<std::vector<std::unique_ptr<Device>>> DiscoverCpusWithReference() {
  return DiscoverCpus(ReferenceKernels());
}

const json& References() {
  static const json references = json::parse(std::ifstream(REFERENCES_JSON));
  return references;
}

// Element i of tensor `name`, in [-1, 1): as in make_references.py.
double Uniform(const std::string& name, uint64_t i) {
  uint64_t z = (i + 1) * 0x9E3779B97F4A7C15ull + StreamOf(name.data(), name.size());
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  return static_cast<double>(z >> 40) * 0x1p-23 - 1.0;
}

Tensor Values(const std::string& name, const TensorType& type, double scale) {
  Tensor t(type);
  float* const values = t.data<float>();
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    values[i] = static_cast<float>(scale * Uniform(name, static_cast<uint64_t>(i)));
  }
  return t;
}

// An embedding, two hidden layers and one that makes the output.
Graph Model() {
  GraphBuilder b("model");
  const auto weight = [&](const char* name, Shape shape, bool decay = true) {
    return b.Parameter(name, {DType::kF32, std::move(shape)}, Initializer::Constant(0), decay);
  };
  const Val ids = b.Data("ids", {DType::kI32, {4}});
  const Val e = b.Op("embedding", {ids, weight("embed.weight", {300, 256})});
  const Val up =
      b.Linear(e, weight("up.weight", {40, 256}), weight("up.bias", {40}, /*decay=*/false));
  const Val down = b.Linear(b.Relu(up), weight("down.weight", {80, 40}));
  const Val y = b.Linear(b.Relu(down), weight("head.weight", {8, 80}));
  b.Loss(b.ReduceSum(b.Mul(y, y), {}), b.Op("count_valid", {ids}));
  auto forward = b.Finish();
  OC_CHECK(forward.ok(), forward.status().ToString());
  auto joint = Differentiate(*forward);
  OC_CHECK(joint.ok(), joint.status().ToString());
  return *std::move(joint);
}

constexpr int kSteps = 100;

const std::map<std::string, HybridOptimizer>& Cases() {
  const OptimizerOptions clipped = {.clip_norm = 5.0};
  static const std::map<std::string, HybridOptimizer> kCases = {
      {"sgd", Sgd{.lr = 0.05, .weight_decay = 0.1}},
      {"sgd momentum", Sgd{.lr = 0.02, .momentum = 0.9, .weight_decay = 0.01}},
      {"sgd nesterov",
       {Sgd{.lr = 0.02, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01}, clipped}},
      {"adam", Adam{.lr = 0.01, .weight_decay = 0.1}},
      {"adamw",
       {AdamW{.lr = 0.01, .beta2 = 0.95, .weight_decay = 0.1},
        {.clip_norm = 5.0,
         .schedule = {.name = "cosine", .warmup_steps = 10, .final_ratio = 0.1}}}},
      {"adamw clipped",
       {AdamW{.lr = 0.01, .weight_decay = 0.1}, {.clip_value = 0.05, .ema_decay = 0.9}}},
      {"adamw groups",
       {AdamW{.lr = 0.01, .weight_decay = 0.1},
        {.groups = {{.match = {"up.*"}, .lr_scale = 0.5, .weight_decay = 0.3},
                    {.match = {"head.*"}, .lr_scale = 2, .weight_decay = 0.0}}}}},
      {"lamb", Lamb{.lr = 0.01, .weight_decay = 0.1}},
      {"lion", Lion{.lr = 0.001, .weight_decay = 0.1}},
      {"adafactor", Adafactor{.lr = 0.02, .weight_decay = 0.1}},
      {"adafactor d",
       {Adafactor{.lr = 0.02, .beta2_decay = -0.6, .eps2 = 1e-2, .d = 1.5}, clipped}},
      {"muon",
       Muon{.lr = 0.02, .adamw = {.lr = 0.003, .beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.05}}},
      {"muon rms",
       {Muon{.lr = 0.01,
             .momentum = 0.9,
             .nesterov = false,
             .adjust_lr_fn = "match_rms_adamw",
             .adamw = {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.95}},
        clipped}},
  };
  return kCases;
}

double Norm(const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += v * v;
  return std::sqrt(sum);
}

// The samples' norm-wise difference from a reference, and that of the norms.
void ExpectNear(const Tensor& actual, const json& expected, double allowed,
                const std::string& what) {
  const std::vector<double> samples = expected["samples"];
  const int64_t n = actual.num_elements();
  const int64_t stride = std::max<int64_t>(1, n / 40);
  std::vector<double> difference;
  for (size_t i = 0; i < samples.size(); ++i) {
    difference.push_back(actual.at(static_cast<int64_t>(i) * stride) - samples[i]);
  }
  EXPECT_LE(Norm(difference) / Norm(samples), allowed) << what;
  std::vector<double> all;
  for (int64_t i = 0; i < n; ++i) all.push_back(actual.at(i));
  EXPECT_NEAR(Norm(all), expected["norm"].get<double>(), allowed * Norm(all)) << what;
}

class Trainer {
 public:
  Trainer(const HybridOptimizer& optimizer, Slice& slice) : optimizer_(optimizer), slice_(slice) {
    auto update = optimizer.BuildUpdate(Model());
    OC_CHECK(update.ok(), update.status().ToString());
    update_ = *std::move(update);
    variables_ = test::InitialValues(update_, /*seed=*/1);
    for (const Variable& p : update_.parameters) {
      const Value& value = update_.value(p.value);
      variables_[value.name] = Values(value.name, value.type, 0.5);
    }
  }
  void Step(int step) {
    std::map<std::string, Tensor> inputs = variables_;
    for (const Variable& p : update_.parameters) {
      const Value& value = update_.value(p.value);
      inputs["grad." + value.name] = Values(absl::StrCat(value.name, "@", step), value.type, 0.125);
    }
    const auto scalar = [](double v) { return Tensor::Of<float>({}, {static_cast<float>(v)}); };
    inputs["lr"] =
        scalar(LearningRate(optimizer_.options().schedule, optimizer_.lr(), step, kSteps));
    inputs["step"] = scalar(step + 1);
    inputs["grad_norm_sq"] = scalar(0);
    if (optimizer_.options().clip_norm > 0) {
      const std::vector<Tensor> values = Run(inputs);
      double sum = 0;
      for (int v : update_.accumulators[0].contributions) sum += values[v].at(0);
      inputs["grad_norm_sq"] = scalar(sum);
    }
    const std::vector<Tensor> values = Run(inputs);
    for (const auto* list : {&update_.parameters, &update_.states}) {
      for (const Variable& v : *list) {
        variables_[update_.value(v.value).name] = values[v.updated];
      }
    }
  }
  const std::map<std::string, Tensor>& variables() const { return variables_; }

 private:
  std::vector<Tensor> Run(const std::map<std::string, Tensor>& inputs) {
    auto values = test::Interpret(update_, inputs, slice_);
    OC_CHECK(values.ok(), values.status().ToString());
    return *std::move(values);
  }
  HybridOptimizer optimizer_;
  Slice& slice_;
  Graph update_;
  std::map<std::string, Tensor> variables_;
};

void ExpectEqualsReferences(const DeviceLeaf& leaf, const std::string& name) {
  auto slice = test::FirstSlice(leaf, /*threads=*/2);
  ASSERT_TRUE(slice.ok()) << slice.status();
  const json& references = References()["optimizers"][name];
  Trainer trainer(Cases().at(name), *slice->slice);
  for (int step = 0; step < kSteps; ++step) {
    trainer.Step(step);
    if (step > 0 && step < kSteps - 1) continue;
    for (const char* dtype : {"float64", "float32"}) {
      const json& expected = references[dtype][std::to_string(step + 1)];
      ASSERT_GE(expected.size(), 5u);
      for (const auto& [tensor, values] : expected.items()) {
        ASSERT_EQ(trainer.variables().count(tensor), 1u) << tensor;
        ExpectNear(trainer.variables().at(tensor), values, step == 0 ? 1e-6 : 1e-5,
                   absl::StrCat(tensor, " from ", dtype, " after step ", step + 1));
      }
    }
  }
}

class OptimizerReferences : public ::testing::TestWithParam<std::string> {};

TEST_P(OptimizerReferences, OnTheCpu) {
  ExpectEqualsReferences(ThroughTable<&DiscoverCpusWithReference>("cpu"), GetParam());
}
TEST_P(OptimizerReferences, OnTheReferenceDevice) {
  ExpectEqualsReferences(ThroughTable<&DiscoverReference>("reference"), GetParam());
}

std::vector<std::string> CaseNames() {
  std::vector<std::string> names;
  for (const auto& [name, optimizer] : Cases()) names.push_back(name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Optimizers, OptimizerReferences, ::testing::ValuesIn(CaseNames()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST(References, EveryCaseIsRun) { EXPECT_EQ(References()["optimizers"].size(), Cases().size()); }

TEST(References, SchedulesArePyTorchs) {
  const ScheduleConfig linear = {.name = "linear", .final_ratio = 0.2};
  const ScheduleConfig cosine = {.name = "cosine", .final_ratio = 0.2};
  const ScheduleConfig polynomial = {.name = "polynomial", .power = 2.5};
  const ScheduleConfig step = {.name = "step", .step_size = 7, .gamma = 0.3};
  std::map<std::string, ScheduleConfig> schedules = {
      {"linear", linear},
      {"cosine", cosine},
      {"polynomial", polynomial},
      {"step", step},
      {"milestones", {.name = "step", .milestones = {{4, 10, 11}}, .gamma = 0.3}}};
  for (const auto& [name, schedule] : std::map(schedules)) {
    ScheduleConfig warmed = schedule;
    warmed.warmup_steps = 5;
    if (warmed.milestones) warmed.milestones = {{3, 10, 11}};
    schedules[name + " warmed"] = warmed;
  }
  const json& references = References()["schedules"];
  EXPECT_EQ(references.size(), schedules.size());
  for (const auto& [name, schedule] : schedules) {
    const std::vector<double> expected = references[name];
    ASSERT_EQ(CheckSchedule(schedule), OkStatus());
    const auto steps = static_cast<int64_t>(expected.size());
    for (int64_t i = 0; i < steps; ++i) {
      EXPECT_NEAR(LearningRate(schedule, 0.5, i, steps), expected[i], 1e-12)
          << name << " step " << i;
    }
  }
}

}  // namespace
}  // namespace oc

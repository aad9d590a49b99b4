// Update graphs against plain loops in double precision, on the reference device.
#include "openclaw/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "openclaw/core/rng.h"
#include "openclaw/devices/export.h"
#include "openclaw/devices/reference/reference.h"
#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/builder.h"
#include "openclaw/optim/learning_rate.h"

#include "../graph/interpreter.h"

namespace oc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Vector = std::vector<double>;
using Vectors = std::map<std::string, Vector>;

constexpr int64_t kRows = 4, kIn = 3, kOut = 2;

// y = x w^T + b, loss the mean of (y - target)^2 over the rows. The bias does not decay.
Graph LinearRegression() {
  GraphBuilder b("regression");
  const Val x = b.Data("x", {DType::kF32, {kRows, kIn}});
  const Val target = b.Data("target", {DType::kF32, {kRows, kOut}});
  const Val w = b.Parameter("w", {DType::kF32, {kOut, kIn}}, Initializer::Normal(0, 0.5));
  const Val bias =
      b.Parameter("b", {DType::kF32, {kOut}}, Initializer::Uniform(-1, 1), /*decay=*/false);
  const Val d = b.Sub(b.Linear(x, w, bias), target);
  b.Loss(b.ReduceSum(b.Mul(d, d), {}),
         b.ReduceSum(b.Scale(b.Slice(x, 1, 0, 1), 0.0, 1.0), {}));  // the number of rows
  auto forward = b.Finish();
  OC_CHECK(forward.ok(), forward.status().ToString());
  auto joint = Differentiate(*forward);
  OC_CHECK(joint.ok(), joint.status().ToString());
  return *std::move(joint);
}

Tensor F32(const Shape& shape, const Vector& values) {
  return Tensor::Of<float>(shape, {values.begin(), values.end()});
}

Vector Doubles(const Tensor& t) {
  Vector values;
  for (int64_t i = 0; i < t.num_elements(); ++i) values.push_back(t.at(i));
  return values;
}

double Norm(const Vector& values) {
  double sum = 0;
  for (double v : values) sum += v * v;
  return std::sqrt(sum);
}

// |a - b| / |b|.
double Difference(const Vector& a, const Vector& b) {
  if (a.size() != b.size()) return INFINITY;
  Vector d(a);
  for (size_t i = 0; i < d.size(); ++i) d[i] -= b[i];
  return Norm(d) / Norm(b);
}

// Gradients of a step, the same to the last bit as floats and as doubles.
Vector Gradient(const std::string& name, int step, size_t size, double scale) {
  const Philox rng(static_cast<uint64_t>(step));
  const uint64_t stream = StreamOf(name.data(), name.size());
  Vector g;
  for (size_t i = 0; i < size; ++i) {
    g.push_back(static_cast<float>(scale * Normal(rng, stream, i)));
  }
  return g;
}

// What the runtime does with an update graph: reduces the norm, runs it, keeps what it updates.
class Updater {
 public:
  Updater(const HybridOptimizer& optimizer, const Graph& joint) : optimizer_(optimizer) {
    auto update = optimizer.BuildUpdate(joint);
    OC_CHECK(update.ok(), update.status().ToString());
    update_ = *std::move(update);
    auto slice = test::FirstSlice(ThroughTable<&DiscoverReference>("reference"));
    OC_CHECK(slice.ok(), slice.status().ToString());
    slice_ = *std::move(slice);
    variables = test::InitialValues(update_, /*seed=*/7);
  }

  // Step `step` from 0 of `total_steps`; `reduced` holds the sums over the step's micro-batches.
  void Step(int step, int total_steps, const std::map<std::string, Tensor>& reduced,
            int micro_batches = 1) {
    std::map<std::string, Tensor> inputs = variables;
    for (const auto& [name, value] : reduced) inputs[name] = value;
    const double lr =
        LearningRate(optimizer_.options().schedule, optimizer_.lr(), step, total_steps);
    inputs["lr"] = F32({}, {lr});
    inputs["step"] = F32({}, {step + 1.0});
    inputs["inv_micro_batches"] = F32({}, {1.0 / micro_batches});
    inputs["grad_norm_sq"] = F32({}, {0});
    const std::vector<Tensor> before = Run(inputs);
    double sum = 0;
    for (const Accumulator& a : update_.accumulators) {
      ASSERT_EQ(a.name, "grad_norm_sq");
      for (int v : a.contributions) sum += before[v].at(0);
    }
    grad_norm = std::sqrt(sum);
    inputs["grad_norm_sq"] = F32({}, {sum});
    const std::vector<Tensor> values = Run(inputs);
    for (const auto* list : {&update_.parameters, &update_.states}) {
      for (const Variable& v : *list) {
        ASSERT_NE(v.updated, kNone) << update_.value(v.value).name;
        variables[update_.value(v.value).name] = values[v.updated];
      }
    }
  }

  Vector Get(const std::string& name) const { return Doubles(variables.at(name)); }
  const Graph& update() const { return update_; }

  std::map<std::string, Tensor> variables;
  double grad_norm = 0;  // of the last step

 private:
  std::vector<Tensor> Run(const std::map<std::string, Tensor>& inputs) {
    auto values = test::Interpret(update_, inputs, *slice_.slice);
    OC_CHECK(values.ok(), values.status().ToString());
    return *std::move(values);
  }

  HybridOptimizer optimizer_;
  Graph update_;
  test::OwnedSlice slice_;
};

// One parameter's update in double precision: clipped gradient, rate, step from 1, whether it
// decays.
struct PlainLoop {
  virtual ~PlainLoop() = default;
  virtual void Update(const std::string& name, Vector& p, const Vector& g, double lr, int t,
                      bool decays) = 0;
};

struct PlainSgd : PlainLoop {
  explicit PlainSgd(const Sgd& options) : o(options) {}
  void Update(const std::string& name, Vector& p, const Vector& g, double lr, int t,
              bool decays) override {
    Vector& v = velocity[name];
    for (size_t i = 0; i < p.size(); ++i) {
      const double full = g[i] + (decays ? o.weight_decay * p[i] : 0.0);
      if (t == 1) {
        v.push_back(full);
      } else {
        v[i] = o.momentum * v[i] + full;
      }
      p[i] -= lr * (o.nesterov ? full + o.momentum * v[i] : v[i]);
    }
  }
  Sgd o;
  Vectors velocity;
};

struct PlainAdamW : PlainLoop {
  explicit PlainAdamW(const AdamW& options) : o(options) {}
  void Update(const std::string& name, Vector& p, const Vector& g, double lr, int t,
              bool decays) override {
    Vector &m = first[name], &v = second[name];
    m.resize(p.size());
    v.resize(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      if (decays) p[i] -= lr * o.weight_decay * p[i];
      m[i] += (1 - o.beta1) * (g[i] - m[i]);
      v[i] += (1 - o.beta2) * (g[i] * g[i] - v[i]);
      const double mean = m[i] / (1 - std::pow(o.beta1, t));
      const double deviation = std::sqrt(v[i] / (1 - std::pow(o.beta2, t)));
      p[i] -= lr * mean / (deviation + o.eps);
    }
  }
  AdamW o;
  Vectors first, second;
};

constexpr int kSteps = 100;

// Runs both over the same gradients and compares every variable: parameters and moments.
void ExpectEqualsPlainLoop(const HybridOptimizer& optimizer, PlainLoop& plain,
                           const std::function<Vectors()>& moments, double gradient_scale = 0.3) {
  SCOPED_TRACE(optimizer.ToString());
  Updater updater(optimizer, LinearRegression());
  Vectors p = {{"w", updater.Get("w")}, {"b", updater.Get("b")}};
  const double clip_norm = optimizer.options().clip_norm;
  int clipped = 0;
  for (int step = 0; step < kSteps; ++step) {
    Vectors g;
    std::map<std::string, Tensor> reduced;
    double squares = 0;
    for (auto& [name, value] : p) {
      g[name] = Gradient(name, step, value.size(), gradient_scale);
      reduced["grad." + name] = F32(updater.variables[name].shape(), g[name]);
      squares += Norm(g[name]) * Norm(g[name]);
    }
    updater.Step(step, kSteps, reduced);
    EXPECT_NEAR(updater.grad_norm, std::sqrt(squares), 1e-6 * std::sqrt(squares));
    const double lr = LearningRate(optimizer.options().schedule, optimizer.lr(), step, kSteps);
    for (auto& [name, value] : p) {
      if (clip_norm > 0 && std::sqrt(squares) > clip_norm) {
        for (double& x : g[name]) x *= clip_norm / std::sqrt(squares);
        ++clipped;
      }
      plain.Update(name, value, g[name], lr, step + 1, /*decays=*/name == "w");
    }
    if (step > 0 && step < kSteps - 1) continue;
    Vectors all = moments();
    EXPECT_EQ(all.size() + 2, updater.variables.size());
    all.insert(p.begin(), p.end());
    for (const auto& [name, value] : all) {
      EXPECT_LE(Difference(updater.Get(name), value), step == 0 ? 1e-6 : 1e-5)
          << name << " after step " << step + 1;
    }
  }
  // Both sides of the norm were met, where it was to be clipped.
  if (clip_norm > 0) {
    EXPECT_GT(clipped, 0);
    EXPECT_LT(clipped, 2 * kSteps);
  }
}

void CheckSgd(const Sgd& sgd, const OptimizerOptions& options = {}) {
  PlainSgd plain(sgd);
  ExpectEqualsPlainLoop({sgd, options}, plain, [&] {
    Vectors moments;
    for (const auto& [name, v] : plain.velocity) {
      if (sgd.momentum != 0) moments["sgd.momentum." + name] = v;
    }
    return moments;
  });
}

void CheckAdamW(const AdamW& adamw, const OptimizerOptions& options = {}) {
  PlainAdamW plain(adamw);
  ExpectEqualsPlainLoop({adamw, options}, plain, [&] {
    Vectors moments;
    for (const auto& [name, m] : plain.first) moments["adamw.m." + name] = m;
    for (const auto& [name, v] : plain.second) moments["adamw.v." + name] = v;
    return moments;
  });
}

TEST(SgdUpdate, EqualsAPlainLoop) {
  CheckSgd({.lr = 0.05});
  CheckSgd({.lr = 0.05, .weight_decay = 0.2});
  CheckSgd({.lr = 0.02, .momentum = 0.9});
  CheckSgd({.lr = 0.02, .momentum = 0.9, .weight_decay = 0.1});
  CheckSgd({.lr = 0.02, .momentum = 0.9, .nesterov = true});
  CheckSgd({.lr = 0.02, .momentum = 0.8, .nesterov = true, .weight_decay = 0.1});
}

TEST(AdamWUpdate, EqualsAPlainLoop) {
  CheckAdamW({.lr = 0.01});
  CheckAdamW({.lr = 0.01, .weight_decay = 0.3});
  CheckAdamW({.lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.1});
  CheckAdamW({.lr = 0.02, .beta1 = 0, .beta2 = 0});
}

// Gradients of two parameters, of 8 normal numbers in all with deviation 0.3: norms around 0.85.
TEST(Clipping, EqualsAPlainLoopOverAGlobalNorm) {
  CheckSgd({.lr = 0.02, .momentum = 0.9, .weight_decay = 0.1}, {.clip_norm = 0.8});
  CheckAdamW({.lr = 0.01, .weight_decay = 0.1}, {.clip_norm = 0.8});
}

TEST(Schedule, TheRateOfEachStepIsUsed) {
  const OptimizerOptions options = {
      .schedule = {.name = "cosine", .warmup_steps = 10, .final_ratio = 0.1}};
  CheckSgd({.lr = 0.05, .momentum = 0.9}, options);
  CheckAdamW({.lr = 0.02, .weight_decay = 0.1}, options);
}

// One step on w and b from the given gradients; what is left of the step is returned, b after w.
Vector Moved(const HybridOptimizer& optimizer, const Vector& grad_w, const Vector& grad_b) {
  Updater updater(optimizer, LinearRegression());
  Vector before = updater.Get("w");
  for (double v : updater.Get("b")) before.push_back(v);
  updater.Step(0, 1, {{"grad.w", F32({kOut, kIn}, grad_w)}, {"grad.b", F32({kOut}, grad_b)}});
  Vector after = updater.Get("w");
  for (double v : updater.Get("b")) after.push_back(v);
  for (size_t i = 0; i < after.size(); ++i) after[i] -= before[i];
  return after;
}

TEST(Clipping, AGradientBelowTheNormStaysToTheLastBit) {
  const Vector w = {3, 0, 0, 0, 0, 0}, b = {0, 4};  // norm 5
  EXPECT_EQ(Moved({Sgd{.lr = 1}, {.clip_norm = 5.01}}, w, b), Moved(Sgd{.lr = 1}, w, b));
}

TEST(Clipping, AGradientAboveTheNormIsScaledAsAWhole) {
  const Vector w = {3, 0, 0, 0, 0, 0}, b = {0, 4};
  const Vector clipped = Moved({Sgd{.lr = 1}, {.clip_norm = 0.5}}, w, b);
  EXPECT_NEAR(Norm(clipped), 0.5, 1e-6);
  EXPECT_LE(Difference(clipped, {-0.3, 0, 0, 0, 0, 0, 0, -0.4}), 1e-6);
}

TEST(Clipping, IsOffUnlessAskedFor) {
  const Vector w = {3e8, 0, 0, 0, 0, 0}, b = {0, 4e8};
  EXPECT_LE(Difference(Moved(Sgd{.lr = 1}, w, b), {-3e8, 0, 0, 0, 0, 0, 0, -4e8}), 1e-6);
}

// Decay comes after clipping: it has no part in the norm.
TEST(Clipping, LeavesWeightDecayAlone) {
  const Vector none(6), b = {0, 0};
  const HybridOptimizer decaying(Sgd{.lr = 1, .weight_decay = 0.5});
  const HybridOptimizer clipped({Sgd{.lr = 1, .weight_decay = 0.5}, {.clip_norm = 1e-3}});
  EXPECT_EQ(Moved(clipped, none, b), Moved(decaying, none, b));
}

TEST(WeightDecay, LeavesOutParametersThatDoNotDecay) {
  for (const HybridOptimizer& optimizer :
       {HybridOptimizer(Sgd{.lr = 0.1, .weight_decay = 0.5}),
        HybridOptimizer(AdamW{.lr = 0.1, .weight_decay = 0.5})}) {
    Updater updater(optimizer, LinearRegression());
    const Vector w = updater.Get("w"), b = updater.Get("b");
    updater.Step(0, 1, {{"grad.w", F32({kOut, kIn}, Vector(6))}, {"grad.b", F32({kOut}, {0, 0})}});
    EXPECT_EQ(updater.Get("b"), b) << optimizer.name();
    Vector decayed = w;
    for (double& v : decayed) v *= 1 - 0.1 * 0.5;
    EXPECT_LE(Difference(updater.Get("w"), decayed), 1e-6) << optimizer.name();
  }
}

// The whole of a step: gradients from the joint graph, of four micro-batches, whose sum is that of
// the mean over all their rows.
TEST(TrainingLoop, MicroBatchesEqualAPlainLoopOverTheGlobalBatch) {
  constexpr int kMicroBatches = 4;
  const Graph joint = LinearRegression();
  const Sgd sgd = {.lr = 0.05, .momentum = 0.5};
  Updater updater(sgd, joint);
  PlainSgd plain(sgd);
  auto slice = test::FirstSlice(ThroughTable<&DiscoverReference>("reference"));
  ASSERT_TRUE(slice.ok()) << slice.status();
  Vectors p = {{"w", updater.Get("w")}, {"b", updater.Get("b")}};
  const double rows = kMicroBatches * kRows;
  for (int step = 0; step < kSteps; ++step) {
    Vectors sums = {{"grad.w", Vector(kOut * kIn)}, {"grad.b", Vector(kOut)}};
    Vectors g = {{"w", Vector(kOut * kIn)}, {"b", Vector(kOut)}};
    for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
      const int place = step * kMicroBatches + micro_batch;
      const Vector x = Gradient("x", place, kRows * kIn, 1.0);
      const Vector target = Gradient("target", place, kRows * kOut, 1.0);
      std::map<std::string, Tensor> inputs = updater.variables;
      inputs["x"] = F32({kRows, kIn}, x);
      inputs["target"] = F32({kRows, kOut}, target);
      inputs["global_count"] = F32({}, {rows});
      auto values = test::Interpret(joint, inputs, *slice->slice);
      ASSERT_TRUE(values.ok()) << values.status();
      for (const Accumulator& a : joint.accumulators) {
        if (a.kind != Accumulator::Kind::kGradient) continue;
        Vector& sum = sums.at(a.name);
        for (int v : a.contributions) {
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += (*values)[v].at(i);
        }
      }
      for (int64_t r = 0; r < kRows; ++r) {
        for (int64_t o = 0; o < kOut; ++o) {
          double y = p["b"][o];
          for (int64_t i = 0; i < kIn; ++i) y += x[r * kIn + i] * p["w"][o * kIn + i];
          const double d = 2 * (y - target[r * kOut + o]) / rows;
          g["b"][o] += d;
          for (int64_t i = 0; i < kIn; ++i) g["w"][o * kIn + i] += d * x[r * kIn + i];
        }
      }
    }
    updater.Step(
        step, kSteps,
        {{"grad.w", F32({kOut, kIn}, sums["grad.w"])}, {"grad.b", F32({kOut}, sums["grad.b"])}},
        kMicroBatches);
    for (auto& [name, value] : p) plain.Update(name, value, g[name], sgd.lr, step + 1, false);
    for (const auto& [name, value] : p) {
      ASSERT_LE(Difference(updater.Get(name), value), step == 0 ? 1e-6 : 1e-5)
          << name << " after step " << step + 1;
    }
  }
}

// A running statistic takes up the mean of the micro-batches' means, and no optimizer touches it.
TEST(RunningState, TakesUpTheMeanOverMicroBatches) {
  GraphBuilder b("statistic");
  const Val x = b.Data("x", {DType::kF32, {kRows, kIn}});
  const Val w = b.Parameter("w", {DType::kF32, {kIn}}, Initializer::Constant(1));
  const Val mean = b.State("mean", {DType::kF32, {kIn}}, Initializer::Constant(2));
  b.MeanIntoState(mean, b.Op("reduce_mean", {x}, {{"axes", std::vector<int64_t>{0}}}), 0.1);
  b.Loss(b.ReduceSum(b.Mul(x, w), {}), b.ReduceSum(b.Scale(x, 0.0, 1.0), {}));
  auto forward = b.Finish();
  ASSERT_TRUE(forward.ok()) << forward.status();
  auto joint = Differentiate(*forward);
  ASSERT_TRUE(joint.ok()) << joint.status();
  Updater updater(AdamW{.lr = 0.1, .weight_decay = 0.5}, *joint);
  Vector expected(kIn, 2.0);
  for (int step = 0; step < kSteps; ++step) {
    constexpr int kMicroBatches = 3;
    const Vector sum = Gradient("mean", step, kIn, 1.0);
    updater.Step(step, kSteps,
                 {{"grad.w", F32({kIn}, Vector(kIn))}, {"mean.mean", F32({kIn}, sum)}},
                 kMicroBatches);
    for (int64_t i = 0; i < kIn; ++i) {
      expected[i] += 0.1 * (sum[i] / kMicroBatches - expected[i]);
    }
    ASSERT_LE(Difference(updater.Get("mean"), expected), step == 0 ? 1e-6 : 1e-5)
        << "after step " << step + 1;
  }
  EXPECT_EQ(updater.variables.count("adamw.m.mean"), 0u);
}

TEST(BuildUpdate, ATiedWeightCountsOnceInTheNorm) {
  GraphBuilder b("tied");
  const TensorType square = {DType::kF32, {kIn, kIn}};
  const Val x = b.Data("x", {DType::kF32, {kRows, kIn}});
  const Val w = b.Parameter("w", square, Initializer::Normal(0, 1));
  const Val y =
      b.Linear(b.Relu(b.Linear(x, w)), b.Parameter("w", square, Initializer::Normal(0, 1)));
  b.Loss(b.ReduceSum(y, {}), b.ReduceSum(b.Scale(x, 0.0, 1.0), {}));
  auto forward = b.Finish();
  ASSERT_TRUE(forward.ok()) << forward.status();
  auto joint = Differentiate(*forward);
  ASSERT_TRUE(joint.ok()) << joint.status();
  ASSERT_EQ(joint->accumulators.size(), 4u);
  Updater updater(Sgd{.lr = 1}, *joint);
  Vector g(kIn * kIn);
  g[0] = 3, g[5] = 4;
  updater.Step(0, 1, {{"grad.w", F32({kIn, kIn}, g)}});
  EXPECT_DOUBLE_EQ(updater.grad_norm, 5);
  EXPECT_EQ(updater.update().parameters.size(), 1u);
}

TEST(FromConfig, TakesWhatTheConfigurationSays) {
  auto sgd = HybridOptimizer::FromConfig({.name = "sgd",
                                          .lr = 0.25,
                                          .momentum = 0.5,
                                          .nesterov = true,
                                          .weight_decay = 0.125,
                                          .clip_norm = 2.0,
                                          .schedule = {.name = "linear", .warmup_steps = 3}});
  ASSERT_TRUE(sgd.ok()) << sgd.status();
  EXPECT_EQ(std::string(sgd->name()), "sgd");
  EXPECT_EQ(sgd->lr(), 0.25);
  EXPECT_EQ(sgd->options().clip_norm, 2.0);
  EXPECT_EQ(sgd->options().schedule.warmup_steps, 3);
  EXPECT_EQ(sgd->ToString(),
            "sgd lr 0.25 momentum 0.5 nesterov weight_decay 0.125 clip_norm 2 schedule linear");
  auto adamw = HybridOptimizer::FromConfig(
      {.lr = 0.5, .betas = {0.75, 0.875}, .eps = 0.25, .momentum = 0.5, .weight_decay = 0.125});
  ASSERT_TRUE(adamw.ok()) << adamw.status();
  EXPECT_EQ(std::string(adamw->name()), "adamw");
  EXPECT_EQ(adamw->ToString(),
            "adamw lr 0.5 betas 0.75 0.875 eps 0.25 weight_decay 0.125 clip_norm 0 schedule "
            "constant");
}

void ExpectRefused(const OptimizerConfig& config, absl::StatusCode code,
                   const std::string& message) {
  const auto optimizer = HybridOptimizer::FromConfig(config);
  EXPECT_EQ(optimizer.status().code(), code) << optimizer.status();
  EXPECT_THAT(std::string(optimizer.status().message()), HasSubstr(message));
}

TEST(FromConfig, NamesTheKeyAndTheValueThatItRefuses) {
  ExpectRefused({.name = "adamm"}, absl::StatusCode::kUnimplemented,
                "optimizer.name 'adamm'; there are sgd, adam, adamw, lamb, adafactor, lion, muon");
  ExpectRefused({.betas = {0.9}}, absl::StatusCode::kInvalidArgument,
                "optimizer.betas has 1 values, adamw takes 2");
  ExpectRefused({.betas = {0.9, 0.99, 0.999}}, absl::StatusCode::kInvalidArgument,
                "optimizer.betas has 3 values");
  ExpectRefused({.schedule = {.name = "exponential"}}, absl::StatusCode::kUnimplemented,
                "optimizer.schedule.name 'exponential'");
  ExpectRefused({.name = "sgd", .schedule = {.final_ratio = 2}}, absl::StatusCode::kInvalidArgument,
                "optimizer.schedule.final_ratio 2");
}

TEST(Check, NamesTheSettingThatIsOutOfRange) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const std::pair<HybridOptimizer, const char*> refused[] = {
      {Sgd{.lr = -1}, "lr is -1"},
      {Sgd{.lr = kNaN}, "lr is nan"},
      {Sgd{.momentum = 1}, "momentum is 1"},
      {Sgd{.nesterov = true}, "nesterov wants a momentum"},
      {Sgd{.weight_decay = -0.1}, "weight_decay is -0.1"},
      {AdamW{.beta1 = 1}, "beta1 is 1"},
      {AdamW{.beta2 = -0.5}, "beta2 is -0.5"},
      {AdamW{.eps = 0}, "eps is 0"},
      {HybridOptimizer(Sgd{}, {.clip_norm = -1}), "clip_norm is -1"},
  };
  for (const auto& [optimizer, message] : refused) {
    const Status status = optimizer.Check();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_EQ(optimizer.BuildUpdate(LinearRegression()).status(), status);
  }
}

TEST(FromConfig, BetasAreAdamWsOwn) {
  EXPECT_TRUE(HybridOptimizer::FromConfig({.name = "sgd", .betas = {}}).ok());
}

}  // namespace
}  // namespace oc

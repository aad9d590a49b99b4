#include "openclaw/optim/learning_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace oc {
namespace {

using ::testing::HasSubstr;

constexpr double kLr = 0.5;

ScheduleConfig Make(const std::string& name, int64_t warmup_steps = 0, double final_ratio = 0) {
  return {.name = name, .warmup_steps = warmup_steps, .final_ratio = final_ratio};
}

std::vector<double> Rates(const ScheduleConfig& schedule, int64_t total_steps) {
  EXPECT_EQ(CheckSchedule(schedule), OkStatus());
  std::vector<double> rates;
  for (int64_t step = 0; step < total_steps; ++step) {
    rates.push_back(LearningRate(schedule, kLr, step, total_steps));
  }
  return rates;
}

void ExpectRates(const ScheduleConfig& schedule, const std::vector<double>& expected) {
  const std::vector<double> rates = Rates(schedule, static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(rates[i], expected[i], 1e-15) << schedule.name << ", step " << i;
  }
}

TEST(LearningRate, ConstantStays) {
  ExpectRates(Make("constant"), {kLr, kLr, kLr, kLr});
  // It has no end, so nothing comes of a final ratio.
  ExpectRates(Make("constant", 0, 0.1), {kLr, kLr, kLr, kLr});
}

TEST(LearningRate, LinearFallsStraightToTheFinalRatio) {
  ExpectRates(Make("linear"), {0.5, 0.375, 0.25, 0.125, 0});
  ExpectRates(Make("linear", 0, 0.2), {0.5, 0.4, 0.3, 0.2, 0.1});
  ExpectRates(Make("linear", 0, 1), {0.5, 0.5, 0.5});
}

TEST(LearningRate, CosineFallsByHalfACosine) {
  const double root = std::sqrt(0.5);
  ExpectRates(Make("cosine"), {0.5, 0.25 * (1 + root), 0.25, 0.25 * (1 - root), 0});
  // From 0.5 to 0.1, half of the way at half of the time.
  ExpectRates(Make("cosine", 0, 0.2), {0.5, 0.3 + 0.2 * root, 0.3, 0.3 - 0.2 * root, 0.1});
  ExpectRates(Make("cosine", 0, 1), {0.5, 0.5, 0.5});
}

// No PyTorch schedule is like it: by hand.
TEST(LearningRate, WsdStaysThenFalls) {
  ScheduleConfig wsd = {.name = "wsd", .warmup_steps = 2, .decay_steps = 4};
  ExpectRates(wsd, {0.25, 0.5, 0.5, 0.5, 0.5, 0.375, 0.25, 0.125, 0});
  wsd.final_ratio = 0.2;
  ExpectRates(wsd, {0.25, 0.5, 0.5, 0.5, 0.5, 0.4, 0.3, 0.2, 0.1});
  wsd.decay_shape = "sqrt";
  ExpectRates(wsd, {0.25, 0.5, 0.5, 0.5, 0.5, 0.5 - 0.4 * 0.5, 0.5 - 0.4 * std::sqrt(0.5),
                    0.5 - 0.4 * std::sqrt(0.75), 0.1});
  wsd.decay_shape = "cosine";
  const double root = std::sqrt(0.5);
  ExpectRates(wsd, {0.25, 0.5, 0.5, 0.5, 0.5, 0.3 + 0.2 * root, 0.3, 0.3 - 0.2 * root, 0.1});
  // A share of the run, here a fifth of ten steps.
  ExpectRates({.name = "wsd", .decay_ratio = 0.2},
              {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25, 0});
  // A decay that is longer than what the warm-up leaves.
  ExpectRates({.name = "wsd", .warmup_steps = 2, .decay_steps = 100}, {0.25, 0.5, 0.5, 0.25, 0});
  ExpectRates({.name = "wsd", .decay_steps = 0}, {0.5, 0.5, 0.5});
}

TEST(LearningRate, StepsCountFromTheRunsFirst) {
  ExpectRates({.name = "step", .warmup_steps = 4, .step_size = 2, .gamma = 0.5},
              {0.125, 0.25, 0.1875, 0.25, 0.125, 0.125, 0.0625});
}

TEST(LearningRate, WarmUpRisesToTheFullRate) {
  // The full rate is that of the last step of the warm-up and of the first one after it.
  ExpectRates(Make("constant", 4), {0.125, 0.25, 0.375, 0.5, 0.5, 0.5});
  ExpectRates(Make("linear", 2), {0.25, 0.5, 0.5, 0.25, 0});
  ExpectRates(Make("cosine", 2, 0.2), {0.25, 0.5, 0.5, 0.3, 0.1});
  ExpectRates(Make("cosine", 1), {0.5, 0.5, 0.25, 0});
}

TEST(LearningRate, AWarmUpAsLongAsTheRunOnlyRises) {
  for (const char* name : {"constant", "linear", "cosine"}) {
    ExpectRates(Make(name, 4, 0.2), {0.125, 0.25, 0.375, 0.5});
    ExpectRates(Make(name, 10, 0.2), {0.05, 0.1, 0.15, 0.2});
  }
}

TEST(LearningRate, OneStepIsNotWasted) {
  for (const char* name : {"constant", "linear", "cosine"}) {
    ExpectRates(Make(name), {kLr});
    ExpectRates(Make(name, 3), {kLr / 3, 2 * kLr / 3, kLr, kLr});  // one after the warm-up
  }
}

// A run that is continued beyond the steps that were said.
TEST(LearningRate, StaysFinalAfterTheLastStep) {
  for (int64_t step : {10, 11, 1000}) {
    EXPECT_DOUBLE_EQ(LearningRate(Make("constant"), kLr, step, 10), kLr);
    EXPECT_NEAR(LearningRate(Make("linear", 2, 0.2), kLr, step, 10), 0.1, 1e-15);
    EXPECT_NEAR(LearningRate(Make("cosine", 2, 0.2), kLr, step, 10), 0.1, 1e-15);
  }
}

TEST(LearningRate, NeverRisesAfterTheWarmUp) {
  for (const char* name : {"constant", "linear", "cosine"}) {
    const std::vector<double> rates = Rates(Make(name, 7, 0.1), 1000);
    for (size_t i = 1; i < rates.size(); ++i) {
      if (i < 7) {
        EXPECT_GT(rates[i], rates[i - 1]) << name << ", step " << i;
      } else {
        EXPECT_LE(rates[i], rates[i - 1]) << name << ", step " << i;
      }
    }
  }
}

void ExpectRefused(const ScheduleConfig& schedule, absl::StatusCode code,
                   const std::string& message) {
  const Status status = CheckSchedule(schedule);
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

TEST(CheckSchedule, NamesTheKeyAndTheValue) {
  ExpectRefused(Make("one_cycle"), absl::StatusCode::kUnimplemented,
                "optimizer.schedule.name 'one_cycle'; there are constant, linear, cosine, "
                "polynomial, wsd, step");
  ExpectRefused(Make(""), absl::StatusCode::kUnimplemented, "optimizer.schedule.name ''");
  ExpectRefused(Make("cosine", -1), absl::StatusCode::kInvalidArgument,
                "optimizer.schedule.warmup_steps -1");
  for (double ratio : {-0.1, 1.5, std::numeric_limits<double>::quiet_NaN(),
                       std::numeric_limits<double>::infinity()}) {
    ExpectRefused(Make("linear", 0, ratio), absl::StatusCode::kInvalidArgument,
                  absl::StrCat("optimizer.schedule.final_ratio ", ratio));
  }
}

TEST(CheckSchedule, ChecksEachSchedulesOwn) {
  const auto bad = absl::StatusCode::kInvalidArgument;
  ExpectRefused({.name = "polynomial", .power = 0}, bad, "optimizer.schedule.power 0");
  ExpectRefused({.name = "wsd", .decay_steps = -1}, bad, "decay_steps -1");
  ExpectRefused({.name = "wsd", .decay_ratio = 1.5}, bad, "decay_ratio 1.5");
  ExpectRefused({.name = "wsd", .decay_shape = "cubic"}, bad, "decay_shape 'cubic'");
  ExpectRefused({.name = "step"}, bad, "none was given");
  ExpectRefused({.name = "step", .step_size = 2, .milestones = {{3}}}, bad, "both were given");
  ExpectRefused({.name = "step", .step_size = 0}, bad, "step_size 0");
  ExpectRefused({.name = "step", .milestones = {{3, 2}}}, bad, "milestones [3, 2]");
  ExpectRefused({.name = "step", .step_size = 2, .gamma = 0}, bad, "gamma 0");
}

TEST(CheckSchedule, TakesTheEndsOfTheRanges) {
  for (const char* name : {"constant", "linear", "cosine"}) {
    for (double ratio : {0.0, 1.0}) {
      EXPECT_EQ(CheckSchedule(Make(name, 0, ratio)), OkStatus());
      EXPECT_EQ(CheckSchedule(Make(name, std::numeric_limits<int64_t>::max(), ratio)), OkStatus());
    }
  }
}

}  // namespace
}  // namespace oc

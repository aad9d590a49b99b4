#include "openclaw/optim/loss_scaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Mode = LossScaleConfig::Mode;

LossScaler Make(const LossScaleConfig& config) {
  auto scaler = LossScaler::Create(config);
  OC_CHECK(scaler.ok(), scaler.status().ToString());
  return *scaler;
}

TEST(LossScaler, HalvesAtOnceAndDoublesAfterTheInterval) {
  LossScaler scaler = Make({.mode = Mode::kDynamic, .value = 1024, .growth_interval = 3});
  EXPECT_EQ(scaler.scale(), 1024);
  ASSERT_TRUE(scaler.Update(false).ok());
  EXPECT_EQ(scaler.scale(), 512);
  EXPECT_EQ(scaler.state().skipped, 1);
  ASSERT_TRUE(scaler.Update(true).ok());
  ASSERT_TRUE(scaler.Update(true).ok());
  EXPECT_EQ(scaler.scale(), 512);
  ASSERT_TRUE(scaler.Update(true).ok());
  EXPECT_EQ(scaler.scale(), 1024);
  // An overflow in between starts the count anew.
  ASSERT_TRUE(scaler.Update(true).ok());
  ASSERT_TRUE(scaler.Update(true).ok());
  ASSERT_TRUE(scaler.Update(false).ok());
  ASSERT_TRUE(scaler.Update(true).ok());
  ASSERT_TRUE(scaler.Update(true).ok());
  EXPECT_EQ(scaler.scale(), 512);
}

TEST(LossScaler, StopsWithAdviceAfterManyHalvingsInARow) {
  LossScaler scaler = Make({.mode = Mode::kDynamic});
  Status status;
  int64_t steps = 0;
  while (status.ok() && steps < 1000) {
    status = scaler.Update(false);
    ++steps;
  }
  EXPECT_EQ(steps, LossScaler::kMostHalvings);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("in a row"), HasSubstr("bf16"), HasSubstr("learning rate")));
  // One good step in between, and it is no row.
  scaler = Make({.mode = Mode::kDynamic, .value = 0x1p60});
  for (int64_t i = 1; i < LossScaler::kMostHalvings; ++i) ASSERT_TRUE(scaler.Update(false).ok());
  ASSERT_TRUE(scaler.Update(true).ok());
  for (int64_t i = 1; i < LossScaler::kMostHalvings; ++i) EXPECT_TRUE(scaler.Update(false).ok());
}

TEST(LossScaler, AFixedScaleStays) {
  LossScaler scaler = Make({.mode = Mode::kFixed, .value = 8, .growth_interval = 1});
  ASSERT_TRUE(scaler.Update(true).ok());
  ASSERT_TRUE(scaler.Update(false).ok());
  EXPECT_EQ(scaler.scale(), 8);
  EXPECT_EQ(scaler.state().skipped, 1);
}

TEST(LossScaler, GoesOnFromItsState) {
  LossScaler scaler = Make({.mode = Mode::kDynamic, .value = 256, .growth_interval = 4});
  for (bool good : {true, false, true, true}) ASSERT_TRUE(scaler.Update(good).ok());
  LossScaler other = Make({.mode = Mode::kDynamic, .value = 65536, .growth_interval = 4});
  ASSERT_TRUE(other.Restore(scaler.state()).ok());
  for (bool good : {true, true, true, false}) {
    ASSERT_TRUE(scaler.Update(good).ok());
    ASSERT_TRUE(other.Update(good).ok());
    EXPECT_EQ(scaler.state(), other.state());
  }
  EXPECT_FALSE(other.Restore({.scale = std::numeric_limits<double>::quiet_NaN()}).ok());
}

TEST(LossScaler, RefusesWhatIsNoScale) {
  for (double scale : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                       std::numeric_limits<double>::quiet_NaN()}) {
    const Status status = LossScaler::Create({.mode = Mode::kFixed, .value = scale}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << scale;
    EXPECT_THAT(std::string(status.message()), HasSubstr("precision.loss_scale"));
  }
  EXPECT_THAT(std::string(LossScaler::Create({.growth_interval = 0}).status().message()),
              HasSubstr("precision.growth_interval"));
}

}  // namespace
}  // namespace oc

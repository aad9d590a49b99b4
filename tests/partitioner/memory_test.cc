// What memory is used for: arenas, plans and what the plan file says of them.
#include "openclaw/partitioner/program/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixture.h"
#include "openclaw/partitioner/picture.h"

namespace oc {
namespace {

using Use = MemoryUse;

TEST(Memory, TheBreakdownIsThatOfTheFullestTick) {
  std::vector<ArenaItem> items = {
      {.bytes = 100, .first = 0, .last = 9, .use = Use::kGradients},    // 128
      {.bytes = 64, .first = 1, .last = 3, .use = Use::kActivations},   // 64
      {.bytes = 640, .first = 4, .last = 4, .use = Use::kTransient},    // the peak
      {.bytes = 65, .first = 5, .last = 6, .use = Use::kActivations},   // 128
      {.bytes = 64, .first = 6, .last = 8, .use = Use::kActivations}};  // 64
  MemoryBreakdown peak = BreakdownAtPeak(items, 1000);
  EXPECT_EQ(peak[Use::kGradients], 128);
  EXPECT_EQ(peak[Use::kTransient], 640);
  EXPECT_EQ(peak[Use::kActivations], 0);
  EXPECT_EQ(peak[Use::kGaps], 1000 - 768);
  EXPECT_EQ(peak.total(), 1000);
  EXPECT_EQ(PeakOf(items, Use::kActivations), 192);
  EXPECT_EQ(PeakOf(items, Use::kWorkspace), 0);
}

TEST(Memory, UsesAddUpToTheArenasOnEveryVcu) {
  const AmpOptions half = {AmpLevel::kO2, DType::kBF16};
  for (const Planned& p :
       {PlanModel(SmallGpt(), 1, 1, 2), PlanModel(SmallGpt(), 2, 2, 8),
        PlanModel(SmallGpt(), 2, 1, 4, "gpipe", false, half),
        PlanModel(models::ResNet({.input = {8, 8, 2}, .classes = 3, .stem = "small", .width = 2}),
                  2, 1, 4)}) {
    for (size_t i = 0; i < p.planned.program.vcus.size(); ++i) {
      const VcuProgram& v = p.planned.program.vcus[i];
      EXPECT_EQ(v.memory.total(), v.state_bytes + v.step_bytes);
      EXPECT_EQ(p.planned.plan.vcus[i].memory, v.memory);
      int64_t parameters = 0, gradients = 0;
      for (const StateEntry& e : v.state) {
        if (e.is_parameter) parameters += AlignForArena(e.range.bytes);
      }
      for (const StateEntry& g : v.gradients) gradients += AlignForArena(g.range.bytes);
      EXPECT_EQ(v.memory[Use::kParameters], parameters);
      EXPECT_GE(v.memory[Use::kOptimizer], 2 * parameters);  // two moments
      EXPECT_GE(v.memory[Use::kGradients], gradients);       // and sums of statistics
      EXPECT_GT(v.activation_bytes, 0);
      EXPECT_GE(v.activation_bytes, v.memory[Use::kActivations]);
    }
  }
}

TEST(Memory, ThePlanFileAndTheTableHaveIt) {
  const Planned p = PlanModel(SmallGpt(), 2, 1, 4);
  const auto again = Plan::FromJson(p.planned.plan.ToJson());
  ASSERT_TRUE(again.ok()) << again.status();
  for (size_t i = 0; i < again->vcus.size(); ++i) {
    EXPECT_EQ(again->vcus[i].memory, p.planned.plan.vcus[i].memory);
    EXPECT_EQ(again->vcus[i].activation_bytes, p.planned.plan.vcus[i].activation_bytes);
  }
  const std::string table = MemoryText(p.planned.plan);
  for (const char* column : {"parameters", "gradients", "optimizer", "activations", "sim:1"}) {
    EXPECT_THAT(table, ::testing::HasSubstr(column));
  }
  EXPECT_THAT(table, ::testing::Not(::testing::HasSubstr("statistics")));  // it has none
}

}  // namespace
}  // namespace oc

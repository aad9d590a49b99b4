// Training with activations computed again in backward: bit by bit what it is without, in the
// memory that was planned.
#include <gmock/gmock.h>

#include "training_run.h"

namespace oc {
namespace {

using absl::StatusCode;
using testing::ExpectError;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::TrainingRun;

struct Case {
  bool images;
  AmpLevel level;
};

TrainingRun RunOf(const Case& c) {
  TrainingRun run;
  run.images = c.images;
  run.options.micro_batch = 4;
  run.options.global_batch = 8;
  run.options.amp_level = c.level;
  run.options.recompute = "none";
  return run;
}

// Losses, parameters, optimizer and, of the ResNet, running statistics.
void ExpectSame(const TrainingRun& plain, const TrainingRun& run) {
  EXPECT_EQ(run.losses, plain.losses);
  EXPECT_TRUE(run.tensors() == plain.tensors());
}

class Recompute : public ::testing::TestWithParam<Case> {};

TEST_P(Recompute, ChangesNoBitAndKeepsToTheBudget) {
  testing::TempDir folder;
  TrainingRun plain = RunOf(GetParam());
  ASSERT_OK(plain.Run(folder, "plain"));
  EXPECT_THAT(plain.plan.recomputed, IsEmpty());
  EXPECT_LT(plain.losses.back(), plain.losses.front());

  TrainingRun full = RunOf(GetParam());
  full.options.recompute = "full";
  ASSERT_OK(full.Run(folder, "full"));
  EXPECT_THAT(full.plan.recomputed, Not(IsEmpty()));
  EXPECT_LT(full.peaks[0], plain.peaks[0]);
  ExpectSame(plain, full);

  TrainingRun marked = RunOf(GetParam());
  marked.options.recompute = "marked";
  ASSERT_OK(marked.Run(folder, "marked"));
  EXPECT_LT(marked.peaks[0], plain.peaks[0]);
  ExpectSame(plain, marked);

  // A budget between the two; the plan that meets it runs again.
  TrainingRun budget = RunOf(GetParam());
  budget.options.recompute = "auto";
  budget.entries[0].memory_bytes = (plain.peaks[0] + full.peaks[0]) / 2;
  ASSERT_OK(budget.Run(folder, "budget"));
  EXPECT_THAT(budget.plan.recomputed, Not(IsEmpty()));
  EXPECT_LE(budget.peaks[0], budget.entries[0].memory_bytes);
  ExpectSame(plain, budget);
  TrainingRun again = RunOf(GetParam());
  again.options.plan_json = budget.plan.ToJson();
  ASSERT_OK(again.Run(folder, "again"));
  EXPECT_EQ(again.plan.recomputed, budget.plan.recomputed);
  EXPECT_EQ(again.peaks, budget.peaks);
  ExpectSame(plain, again);

  TrainingRun share = RunOf(GetParam());
  share.options.recompute = "auto";
  share.options.activation_budget.percent = 75;
  ASSERT_OK(share.Run(folder, "share"));
  EXPECT_LE(share.plan.vcus[0].activation_bytes, 0.75 * plain.plan.vcus[0].activation_bytes);
  ExpectSame(plain, share);
}

INSTANTIATE_TEST_SUITE_P(Models, Recompute,
                         ::testing::Values(Case{false, AmpLevel::kO0}, Case{false, AmpLevel::kO2},
                                           Case{true, AmpLevel::kO0}, Case{true, AmpLevel::kO2}),
                         [](const auto& info) {
                           return absl::StrCat(info.param.images ? "ResNet" : "Gpt",
                                               Name(info.param.level));
                         });

// Two stages with several micro-batches in flight: each chooses for itself.
TEST(RecomputePipeline, ChangesNoBit) {
  testing::TempDir folder;
  TrainingRun plain;
  plain.entries = {{.device = "cpu", .cores = 1}, {.device = "cpu", .cores = 1}};
  plain.options.global_batch = 8;
  plain.options.pipeline_depth = 2;
  plain.options.schedule = "1f1b";  // another one adds the micro-batches in another order
  plain.options.stages = {"transformer.h.0"};
  plain.options.recompute = "none";
  TrainingRun short_of_memory = plain;
  ASSERT_OK(plain.Run(folder, "plain"));
  short_of_memory.options.recompute = "auto";
  short_of_memory.options.activation_budget.percent = 80;
  ASSERT_OK(short_of_memory.Run(folder, "short"));
  EXPECT_THAT(short_of_memory.plan.recomputed, Not(IsEmpty()));
  for (int v = 0; v < 2; ++v) EXPECT_LT(short_of_memory.peaks[v], plain.peaks[v]);
  ExpectSame(plain, short_of_memory);
}

TEST(RecomputePipeline, AnUnknownModuleIsAnError) {
  testing::TempDir folder;
  TrainingRun run;
  run.options.recompute_modules = {"transformer.h.0.mpl"};
  ExpectError(run.Run(folder, "run"), StatusCode::kInvalidArgument,
              "nearest: 'transformer.h.0.mlp'");
}

}  // namespace
}  // namespace oc

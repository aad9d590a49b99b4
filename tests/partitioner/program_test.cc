// Lowering and simulation.
#include <gmock/gmock.h>

#include "openclaw/partitioner/picture.h"
#include "openclaw/partitioner/program/arena.h"

#include "openclaw/core/rng.h"

#include "fixture.h"

namespace oc {
namespace {

TEST(PlanArena, LivesThatMeetDoNotOverlap) {
  const Philox rng(5);
  std::vector<ArenaItem> items;
  for (uint64_t i = 0; i < 300; ++i) {
    const auto w = rng.Block(1, i);
    items.push_back({.bytes = static_cast<int64_t>(w[0] % 5000), .first = w[1] % 100});
    items.back().last = items.back().first + w[2] % 20;
  }
  const int64_t size = PlanArena(items);
  int64_t needed = 0;  // the most that lives at one tick is a lower bound
  for (int tick = 0; tick < 120; ++tick) {
    int64_t live = 0;
    for (const ArenaItem& a : items) live += a.first <= tick && tick <= a.last ? a.bytes : 0;
    needed = std::max(needed, live);
  }
  EXPECT_GE(size, needed);
  EXPECT_LE(static_cast<double>(size), 1.25 * static_cast<double>(needed));
  for (size_t i = 0; i < items.size(); ++i) {
    EXPECT_LE(items[i].offset + items[i].bytes, size);
    EXPECT_EQ(items[i].offset % kArenaAlignment, 0);
    for (size_t j = 0; j < i; ++j) {
      const ArenaItem &a = items[i], &b = items[j];
      if (a.last < b.first || b.last < a.first || a.bytes == 0 || b.bytes == 0) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset)
          << i << " " << j;
    }
  }
}

TEST(Lower, SamePlanSameProgram) {
  const Planned a = PlanModel(SmallGpt(), 2, 1, 4), b = PlanModel(SmallGpt(), 2, 1, 4);
  EXPECT_EQ(ToText(a.planned.program), ToText(b.planned.program));
  EXPECT_EQ(Fingerprint(a.planned.program), Fingerprint(b.planned.program));
}

TEST(Lower, PlanSurvivesItsFile) {
  const Planned p = PlanModel(SmallGpt(), 2, 2, 4);
  auto read = Plan::FromJson(p.planned.plan.ToJson());
  ASSERT_TRUE(read.ok()) << read.status();
  auto realized = DynamicGraphPartitioner(p.joint, &p.update, p.cluster, p.costs)
                      .Realize(*read, {.micro_batch = 4});
  ASSERT_TRUE(realized.ok()) << realized.status();
  EXPECT_EQ(Fingerprint(realized->program), Fingerprint(p.planned.program));
  EXPECT_FALSE(Plan::FromJson("{").ok());
  EXPECT_FALSE(Plan::FromJson(R"({"format": "openclaw-plan", "stages": 3})").ok());
}

TEST(Lower, TiedWeightIsHeldTwiceAndReducedOnce) {
  const Planned p = PlanModel(SmallGpt(), 2, 1, 4);
  int holders = 0, owners = 0;
  for (const VcuProgram& v : p.planned.program.vcus) {
    for (const StateEntry& e : v.state) {
      if (e.name != "transformer.wte.weight") continue;
      ++holders;
      owners += e.owner ? 1 : 0;
    }
  }
  EXPECT_EQ(holders, 2);
  EXPECT_EQ(owners, 1);
  EXPECT_EQ(p.planned.program.groups.size(), 2u);  // metrics, and the two holders
}

TEST(Lower, RecomputationSavesMemory) {
  const auto model = [] {
    return models::Gpt2({.layers = 6, .width = 16, .heads = 2, .context = 16, .vocabulary = 11});
  };
  const Planned kept = PlanModel(model(), 1, 1, 2);
  const Planned again = PlanModel(model(), 1, 1, 2, "1f1b", /*recompute=*/true);
  EXPECT_LT(again.planned.program.vcus[0].step_bytes, kept.planned.program.vcus[0].step_bytes);
  EXPECT_GT(again.planned.simulation.step_seconds, kept.planned.simulation.step_seconds);
}

TEST(Lower, GPipeKeepsMoreThan1F1B) {
  const Planned one = PlanModel(SmallGpt(), 2, 1, 8, "1f1b");
  const Planned all = PlanModel(SmallGpt(), 2, 1, 8, "gpipe");
  EXPECT_LT(one.planned.program.vcus[1].step_bytes, all.planned.program.vcus[1].step_bytes);
}

TEST(Lower, BudgetTooSmallSaysByHowMuch) {
  Planned p = PlanModel(SmallGpt(), 1, 1, 2);
  p.cluster.vcus[0].memory_bytes = 100000;
  auto planned = DynamicGraphPartitioner(p.joint, &p.update, p.cluster, p.costs)
                     .Partition({.micro_batch = 4, .global_batch = 8});
  EXPECT_EQ(planned.status().code(), absl::StatusCode::kResourceExhausted) << planned.status();
}

TEST(Partition, AdvisesWhereVcusAreIdle) {
  Planned p = PlanModel(SmallGpt(), 2, 1, 2);
  EXPECT_TRUE(p.planned.plan.advice.empty());
  p.cluster = MakeCluster(3);
  auto planned = DynamicGraphPartitioner(p.joint, &p.update, p.cluster, p.costs)
                     .Partition({.micro_batch = 4, .global_batch = 8, .pipeline_depth = 2});
  ASSERT_TRUE(planned.ok()) << planned.status();
  ASSERT_EQ(planned->plan.advice.size(), 1u);
  EXPECT_EQ(planned->plan.advice[0].substr(0, 23), "sim:2 has no part in it");
}

TEST(Simulate, PipelineBubbleIsTheTextbooks) {
  // Equal stages and free links: 1F1B's bubble is (p - 1) / (m + p - 1).
  std::vector<int64_t> hidden(15, 256);
  Planned p = PlanModel(models::Mlp({.input = {256}, .hidden = hidden, .classes = 256}), 4, 1, 16);
  for (LinkCurve& link : p.cluster.links) link = LinkCurve::Of(0, 1e15);
  SimulateOptions free{
      .call_overhead_seconds = 0, .command_overhead_seconds = 0, .host_bytes_per_second = 1e15};
  auto s = Simulate(p.planned.program, p.cluster, p.costs, free);
  ASSERT_TRUE(s.ok()) << s.status();
  double compute = 0;
  for (const SimulatedVcu& v : s->vcus) compute += v.compute_seconds;
  const double bubble = 1 - compute / (4 * s->step_seconds);
  EXPECT_NEAR(bubble, 3.0 / 19.0, 0.06);
}

TEST(Picture, DrawsEveryLane) {
  const Planned p = PlanModel(SmallGpt(), 2, 1, 4);
  const std::string svg = TimelineSvg(p.planned);
  EXPECT_THAT(svg, ::testing::HasSubstr("send to 1"));
  EXPECT_THAT(svg, ::testing::HasSubstr("F3"));
  EXPECT_THAT(PlanText(p.planned, p.joint, p.cluster), ::testing::HasSubstr("stage 1"));
}

}  // namespace
}  // namespace oc

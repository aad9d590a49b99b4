#include "openclaw/partitioner/stage_split.h"

#include <limits>

#include "fixture.h"

namespace oc {
namespace {

// A model whose cost lies unevenly along its depth.
StatusOr<Graph> Lopsided() {
  return models::Mlp({.hidden = {700, 20, 30, 500, 500, 10, 300, 40}, .classes = 7});
}

struct Search {
  double best = std::numeric_limits<double>::infinity();
  int count = 0;
};

// Every way to cut, one after the other.
void Exhaust(const StageSplitOptions& o, int stage, int begin, double so_far, Search& search) {
  const int stages = static_cast<int>(o.costs.size()), n = o.costs[0][0]->units();
  if (stage + 1 == stages) {
    if (StageBytes(o, stage, begin, n) > o.memory_bytes[stage]) return;
    ++search.count;
    search.best = std::min(search.best, std::max(so_far, StageSeconds(o, stage, begin, n)));
    return;
  }
  for (int end = begin + 1; end < n; ++end) {
    if (!o.costs[0][0]->MayCut(end) || StageBytes(o, stage, begin, end) > o.memory_bytes[stage])
      continue;
    Exhaust(o, stage + 1, end, std::max(so_far, StageSeconds(o, stage, begin, end)), search);
  }
}

TEST(StageSplit, EqualsExhaustiveSearch) {
  const Planned p = PlanModel(Lopsided(), 1, 1, 2);
  auto fast = StageCosts::Create(p.joint, &p.update, "sim/1t", p.costs);
  ASSERT_TRUE(fast.ok()) << fast.status();
  const int64_t all = fast->StateBytes(0, fast->units());
  for (int stages : {1, 2, 3, 4}) {
    for (int64_t memory : {all * 2, all * 6 / 10}) {
      StageSplitOptions o;
      for (int s = 0; s < stages; ++s) {
        o.costs.push_back({&*fast});
        o.memory_bytes.push_back(memory);
        o.in_flight.push_back(stages - s);
        o.latency_seconds.push_back(1e-6 * s);
        o.seconds_per_byte.push_back(1e-9);
      }
      Search search;
      Exhaust(o, 0, 0, 0, search);
      const auto split = SplitStages(o);
      if (search.count == 0) {
        EXPECT_EQ(split.status().code(), absl::StatusCode::kResourceExhausted);
        continue;
      }
      ASSERT_TRUE(split.ok()) << split.status();
      EXPECT_DOUBLE_EQ(split->bottleneck_seconds, search.best) << stages << " stages";
      double achieved = 0;
      for (int s = 0; s < stages; ++s) {
        const int end = s + 1 < stages ? split->begins[s + 1] : fast->units();
        achieved = std::max(achieved, StageSeconds(o, s, split->begins[s], end));
      }
      EXPECT_DOUBLE_EQ(achieved, search.best);
    }
  }
}

TEST(StageSplit, SaysHowMuchIsMissing) {
  const Planned p = PlanModel(Lopsided(), 1, 1, 2);
  auto costs = StageCosts::Create(p.joint, &p.update, "sim/1t", p.costs);
  ASSERT_TRUE(costs.ok());
  StageSplitOptions o{.costs = {{&*costs}}, .memory_bytes = {1000}, .in_flight = {1}};
  const auto split = SplitStages(o);
  EXPECT_EQ(split.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(split.status().message().find("exceeds"), absl::string_view::npos) << split.status();
}

TEST(BatchShapes, NumbersThatDoNotDivide) {
  const auto shapes = BatchShapes(
      {.micro_batch = 8, .global_batch = 20, .pipeline_depth = 1, .data_parallel = 2}, 2);
  EXPECT_EQ(shapes.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(shapes.status().message().find("20"), absl::string_view::npos) << shapes.status();
}

TEST(BatchShapes, AutoUsesEveryVcu) {
  const auto shapes = BatchShapes({.micro_batch = 8}, 4);
  ASSERT_TRUE(shapes.ok());
  for (const BatchShape& s : *shapes) EXPECT_EQ(s.pipeline_depth * s.data_parallel, 4);
  EXPECT_EQ(shapes->size(), 3u);  // 1x4, 2x2, 4x1
}

}  // namespace
}  // namespace oc

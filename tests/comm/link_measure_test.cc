#include "openclaw/comm/link_measure.h"

#include "world.h"

namespace oc {
namespace {

TEST(LinkMeasure, AllRanksGetTheSameCurves) {
  constexpr int kRanks = 3;
  std::vector<std::vector<LinkCurve>> links(kRanks);
  std::vector<LinkCurve> reduce(kRanks);
  const LinkMeasureOptions options{.sizes = {64, 4096, 1 << 20}, .repetitions = 3};
  World().Run(kRanks, [&](Transport& t) {
    auto measured = MeasureLinks(t, options);
    ASSERT_TRUE(measured.ok()) << measured.status();
    links[t.rank()] = *measured;
    Group group(t, {0, 1, 2}, {.id = 1});
    auto curve = MeasureAllReduce(group, options);
    ASSERT_TRUE(curve.ok()) << curve.status();
    reduce[t.rank()] = *curve;
  });
  for (int from = 0; from < kRanks; ++from) {
    for (int to = 0; to < kRanks; ++to) {
      const LinkCurve& curve = links[0][from * kRanks + to];
      if (from == to) {
        EXPECT_TRUE(curve.points.empty());
        continue;
      }
      ASSERT_EQ(curve.points.size(), 3u);
      for (int rank = 1; rank < kRanks; ++rank) {
        for (int i = 0; i < 3; ++i) {
          EXPECT_EQ(links[rank][from * kRanks + to].points[i].seconds, curve.points[i].seconds);
        }
      }
      EXPECT_GT(curve.points[0].seconds, 0);
      EXPECT_LT(curve.points[0].seconds, 0.1);
      EXPECT_EQ(curve.points[2].bytes, 1 << 20);
    }
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(reduce[0].points[i].seconds, reduce[2].points[i].seconds);
}

TEST(LinkMeasure, BadOptionsAreErrors) {
  World().Run(1, [](Transport& t) {
    EXPECT_EQ(MeasureLinks(t, {.sizes = {}}).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(MeasureLinks(t, {.sizes = {5, 1}}).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(MeasureLink(t, 0, {}).status().code(), absl::StatusCode::kInvalidArgument);
  });
}

}  // namespace
}  // namespace oc

// VCUs of unlike speed: shares, cuts and placements against exhaustive search.
#include "openclaw/partitioner/placement.h"
#include "openclaw/partitioner/shares.h"
#include "openclaw/partitioner/stage_costs.h"

#include <numeric>

#include "openclaw/core/rng.h"

#include "fixture.h"

namespace oc {
namespace {

TEST(Shares, AreTheFastest) {
  const Philox rng(3);
  for (uint64_t i = 0; i < 60; ++i) {
    const auto w = rng.Block(1, i);
    std::vector<double> seconds;
    for (uint32_t r = 0; r < 2 + w[0] % 3; ++r)
      seconds.push_back(0.1 + rng.Block(2 + r, i)[1] % 97);
    const int total = static_cast<int>(1 + w[1] % 12);
    double best = 1e300;
    for (const std::vector<int>& s : AllShares(static_cast<int>(seconds.size()), total)) {
      best = std::min(best, ShareSeconds(seconds, s));
    }
    const std::vector<int> found = FastestShares(seconds, total);
    EXPECT_EQ(std::accumulate(found.begin(), found.end(), 0), total);
    EXPECT_DOUBLE_EQ(ShareSeconds(seconds, found), best);
  }
}

TEST(Shares, FollowSpeeds) {
  EXPECT_EQ(FastestShares({4, 2, 1}, 7), (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(FastestShares({4, 2, 1}, 14), (std::vector<int>{2, 4, 8}));
  EXPECT_EQ(FastestShares({1, 100}, 4), (std::vector<int>{4, 0}));
  EXPECT_EQ(FastestShares({1, 100}, 4, 1), (std::vector<int>{3, 1}));
  EXPECT_EQ(EvenShares(3, 7), (std::vector<int>{3, 2, 2}));
  EXPECT_EQ(MicroBatchesFor({4, 2, 1}, 0.05, 48), 7);
  EXPECT_EQ(AlternatingOwners({5, 6}, {3, 1}, {1, 3}), (std::vector<int>{5, 6, 5, 5}));
}

TEST(Placements, LikeVcusAreOnePlacement) {
  EXPECT_EQ(Placements(MakeCluster(4), 2, 2).size(), 1u);
  ClusterSpec cluster = MakeCluster(4);
  cluster.vcus[3].kind = "sim/fast";
  // The fast one stands first or last in one of the two chains.
  EXPECT_EQ(Placements(cluster, 2, 2).size(), 2u);
  EXPECT_EQ(Placements(cluster, 4, 1).size(), 4u);
  EXPECT_EQ(Placements(cluster, 1, 4).size(), 1u);
  for (const Placement& p : Placements(cluster, 4, 1)) {
    std::set<int> vcus;
    for (const auto& stage : p) vcus.insert(stage.begin(), stage.end());
    EXPECT_EQ(vcus.size(), 4u);
  }
  // Many unlike VCUs: bounded.
  ClusterSpec many = MakeCluster(16);
  for (int i = 0; i < 16; ++i) many.vcus[i].kind = absl::StrCat("kind", i);
  EXPECT_LE(Placements(many, 8, 2).size(), 258u);
}

// A GPT on VCUs of these speeds.
struct Unequal {
  explicit Unequal(const std::vector<double>& speeds) : p(PlanModel(SmallGpt(), 1, 1, 1)) {
    p.cluster = MakeCluster(static_cast<int>(speeds.size()));
    for (size_t i = 0; i < speeds.size(); ++i) {
      VcuSpec& v = p.cluster.vcus[i];
      v.kind = absl::StrCat("sim/", speeds[i]);
      AddCosts(p.joint, &p.update, p.costs, v.kind, speeds[i] / 100);
    }
  }
  DynamicGraphPartitioner partitioner() const {
    return DynamicGraphPartitioner(p.joint, &p.update, p.cluster, p.costs);
  }
  PartitionOptions options(int depth, int replicas, int micro_batches) const {
    return {.micro_batch = 4,
            .global_batch = 4 * micro_batches,
            .pipeline_depth = depth,
            .data_parallel = replicas,
            .schedule = "1f1b",
            .cost_error = 0};
  }
  double Seconds(const Plan& plan, const PartitionOptions& options) const {
    auto planned = partitioner().Realize(plan, options);
    EXPECT_TRUE(planned.ok()) << planned.status();
    return planned.ok() ? planned->plan.predicted_step_seconds : 1e300;
  }
  std::vector<int> SharesOf(const Plan& plan, int stage) const {
    std::vector<int> shares;
    for (int v = 0; v < p.cluster.size(); ++v) {
      const auto& owner = plan.stages[stage].owner;
      shares.push_back(static_cast<int>(std::count(owner.begin(), owner.end(), v)));
    }
    return shares;
  }
  Planned p;
};

TEST(Unequal, ReplicasEqualExhaustiveSearch) {
  const Unequal u({1, 2, 4});
  for (int total : {7, 9, 14}) {
    PartitionOptions options = u.options(1, 3, total);
    auto planned = u.partitioner().Partition(options);
    ASSERT_TRUE(planned.ok()) << planned.status();
    double best = 1e300;
    for (const std::vector<int>& s : AllShares(3, total)) {
      if (std::count(s.begin(), s.end(), 0) != 0) continue;
      Plan plan = planned->plan;
      plan.stages[0].owner = ConsecutiveOwners({0, 1, 2}, s);
      best = std::min(best, u.Seconds(plan, options));
    }
    EXPECT_LE(planned->plan.predicted_step_seconds, 1.005 * best) << total;
    options.balance = Balance::kEven;
    auto even = u.partitioner().Partition(options);
    ASSERT_TRUE(even.ok()) << even.status();
    EXPECT_GT(even->plan.predicted_step_seconds, 1.5 * planned->plan.predicted_step_seconds);
  }
  auto planned = u.partitioner().Partition(u.options(1, 3, 7));
  ASSERT_TRUE(planned.ok());
  EXPECT_EQ(u.SharesOf(planned->plan, 0), (std::vector<int>{1, 2, 4}));
}

TEST(Unequal, CutsAndPlacementsEqualExhaustiveSearch) {
  const Unequal u({1, 3});
  const PartitionOptions options = u.options(2, 1, 8);
  auto planned = u.partitioner().Partition(options);
  ASSERT_TRUE(planned.ok()) << planned.status();
  auto costs = StageCosts::Create(u.p.joint, &u.p.update, "sim/1", u.p.costs);
  ASSERT_TRUE(costs.ok()) << costs.status();
  double best = 1e300;
  int tried = 0;
  for (int first : {0, 1}) {
    for (int at = 1; at < costs->units(); ++at) {
      if (!costs->MayCut(at)) continue;
      Plan plan = planned->plan;
      plan.stages[0].last_origin = costs->origins()[at] - 1;
      plan.stages[1].first_origin = costs->origins()[at];
      for (int s = 0; s < 2; ++s) {
        plan.stages[s].vcus = {s == 0 ? first : 1 - first};
        plan.stages[s].owner.assign(8, plan.stages[s].vcus[0]);
      }
      // A cut that parts a weight from its gradient is no plan.
      auto realized = u.partitioner().Realize(plan, options);
      if (!realized.ok()) continue;
      best = std::min(best, realized->plan.predicted_step_seconds);
      ++tried;
    }
  }
  EXPECT_GT(tried, 20);
  EXPECT_LE(planned->plan.predicted_step_seconds, 1.01 * best);
}

// What a plan takes when one kind of VCU is slower than its costs say.
TEST(Unequal, CostsThatMayBeOffPreferSlack) {
  const Unequal u({1, 3});
  const auto slowest = [&](double cost_error) {
    PartitionOptions options = u.options(2, 1, 8);
    options.cost_error = cost_error;
    auto planned = u.partitioner().Partition(options);
    EXPECT_TRUE(planned.ok()) << planned.status();
    double seconds = 0;
    for (const VcuSpec& v : u.p.cluster.vcus) {
      options.simulate = {.slow_kind = v.kind, .slow_factor = 1.3};
      seconds += u.Seconds(planned->plan, options) / 2;
    }
    return seconds;
  };
  EXPECT_LT(slowest(0.3), slowest(0));
}

TEST(Unequal, MicroBatchesFollowWhereTheyAreOpen) {
  const Unequal u({1, 2, 4});
  auto planned = u.partitioner().Partition(
      {.micro_batch = 4, .pipeline_depth = 1, .data_parallel = 3, .schedule = "1f1b"});
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(planned->plan.micro_batches, 7);
}

TEST(Unequal, WhoWouldHoldTheStepUpIsLeftOut) {
  const Unequal u({1, 50});
  PartitionOptions options = u.options(1, 2, 4);
  options.data_parallel.reset();
  auto planned = u.partitioner().Partition(options);
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(planned->plan.stages[0].vcus, std::vector<int>{1});
  ASSERT_EQ(planned->plan.advice.size(), 1u);
  EXPECT_NE(planned->plan.advice[0].find("sim:0 has no part in it"), std::string::npos)
      << planned->plan.advice[0];
  // Two replicas that were asked for are two.
  options.data_parallel = 2;
  planned = u.partitioner().Partition(options);
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(u.SharesOf(planned->plan, 0), (std::vector<int>{1, 3}));
}

TEST(Unequal, ReplicatedPipelines) {
  const Unequal u({1, 3, 2, 4});
  PartitionOptions options = u.options(2, 2, 8);
  auto planned = u.partitioner().Partition(options);
  ASSERT_TRUE(planned.ok()) << planned.status();
  options.balance = Balance::kEven;
  auto even = u.partitioner().Partition(options);
  ASSERT_TRUE(even.ok()) << even.status();
  EXPECT_LT(1.1 * planned->plan.predicted_step_seconds, even->plan.predicted_step_seconds);
}

}  // namespace
}  // namespace oc

// State divided over replicas: buckets and their pieces, Programs that the verifier passes, damaged
// ones that it does not, memory that falls.
#include <gmock/gmock.h>

#include <numeric>

#include "openclaw/graph/cost_key.h"
#include "openclaw/graph/models/heads.h"
#include "openclaw/graph/modules.h"
#include "openclaw/graph/sum_chunks.h"
#include "openclaw/partitioner/program/buckets.h"

#include "fixture.h"

namespace oc {
namespace {

using ::testing::HasSubstr;

TEST(Buckets, WholeTensorsInPiecesThatFollowTheWeights) {
  std::vector<BucketTensor> tensors;
  for (int i = 0; i < 40; ++i) {
    tensors.push_back({absl::StrCat("p", i), absl::StrCat("grad.p", i), 1000 + 70001 * (i % 3),
                       /*may_cut=*/i % 2 == 0});
  }
  for (const std::vector<double>& weights :
       {std::vector<double>{1, 1}, {5, 2, 1}, {1, 1, 1, 1}, {3, 0.5}}) {
    const std::vector<ProgramBucket> buckets =
        MakeBuckets(tensors, {.bytes = int64_t{1} << 20, .weights = weights});
    EXPECT_GE(buckets.size(), 4u);
    std::vector<double> held(weights.size(), 0);
    size_t next = 0;
    double total = 0;
    for (const ProgramBucket& b : buckets) {
      for (size_t t = 0; t < b.names.size(); ++t, ++next) {
        EXPECT_EQ(b.names[t], tensors[next].name);
        EXPECT_EQ(b.offsets[t] % kBucketAlignment, 0);
        int64_t end = 0;
        for (int m = 0; m < static_cast<int>(weights.size()); ++m) {
          const TensorPart part = PartOf(b, static_cast<int>(t), m);
          if (part.empty()) continue;
          EXPECT_EQ(part.begin, end) << b.names[t];
          end = part.end;
          held[m] += static_cast<double>(part.size());
          total += static_cast<double>(part.size());
          const bool inside = part.begin != 0 || part.end != b.sizes[t];
          if (!inside) continue;
          EXPECT_TRUE(tensors[next].may_cut) << b.names[t];
          EXPECT_EQ(part.begin % kSumChunk, 0);
        }
        EXPECT_EQ(end, b.sizes[t]);
      }
    }
    EXPECT_EQ(next, tensors.size());
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (size_t m = 0; m < weights.size(); ++m) {
      // Within one tensor that is not cut.
      EXPECT_NEAR(held[m], total * weights[m] / sum, 141002) << m;
    }
  }
}

StatusOr<Graph> Gpt() {
  return models::Gpt2(
      {.layers = 2, .width = 64, .heads = 2, .context = 8, .vocabulary = 1100, .dropout = 0.1});
}

Planned PlanGpt(int depth, int replicas, int micro_batches, const AmpOptions& amp = {},
                StatusOr<Graph> model = Gpt()) {
  Planned p = PlanModel(std::move(model), depth, replicas, micro_batches, "1f1b", false, amp);
  for (const CostRequest& r : MissingCosts(p.joint, &p.update, "sim/1t", p.costs, /*parts=*/true)) {
    const OpCost cost = DefaultCost(*r.def, {r.inputs, r.attrs}, r.outputs);
    p.costs.Set(r.key, {.seconds = 1e-6 + cost.flops / 1e10 + cost.bytes / 1e10});
  }
  return p;
}

// The same plan at another stage of division.
StatusOr<PlannedProgram> At(const Planned& p, int shard, std::vector<double> weights = {}) {
  Plan plan = p.planned.plan;
  plan.shard = shard;
  plan.shard_weights = std::move(weights);
  return DynamicGraphPartitioner(p.joint, &p.update, p.cluster, p.costs)
      .Realize(plan, {.micro_batch = 4});
}

TEST(ShardPrograms, PassTheVerifierOnEveryShape) {
  const AmpOptions o2 = {AmpLevel::kO2, DType::kBF16};
  for (const AmpOptions& amp : {AmpOptions{}, o2}) {
    for (const auto& [depth, replicas, micro_batches] :
         {std::tuple(1, 2, 2), std::tuple(1, 2, 6), std::tuple(1, 3, 3), std::tuple(1, 4, 4),
          std::tuple(2, 2, 8), std::tuple(3, 2, 6)}) {
      const Planned p = PlanGpt(depth, replicas, micro_batches, amp);
      for (int shard : {0, 1, 2, 3}) {
        auto planned = At(p, shard);
        EXPECT_TRUE(planned.ok()) << depth << "x" << replicas << " of " << micro_batches
                                  << " shard " << shard << ": " << planned.status();
      }
    }
  }
}

// Replicas that take 5, 2 and 1 micro-batches, with parts of other sizes.
TEST(ShardPrograms, UnequalSharesAndParts) {
  Planned p = PlanGpt(1, 3, 8);
  p.planned.plan.stages[0].owner = {0, 0, 0, 0, 0, 1, 1, 2};
  for (int shard : {0, 1, 2, 3}) {
    auto planned = At(p, shard, {1, 2, 4});
    ASSERT_TRUE(planned.ok()) << shard << ": " << planned.status();
    if (shard == 0) continue;
    std::vector<int64_t> states(3, 0);
    for (int vcu = 0; vcu < 3; ++vcu) {
      for (const StateEntry& e : planned->program.vcus[vcu].state) {
        if (e.name.rfind("adamw.", 0) == 0) states[vcu] += e.range.bytes;
      }
    }
    EXPECT_GT(states[1], 1.3 * states[0]) << shard;
    EXPECT_GT(states[2], 1.3 * states[1]) << shard;
  }
}

// Pipelines whose replicas take unequal shares of the micro-batches, under both schedules.
TEST(ShardPrograms, UnequalSharesInPipelines) {
  Planned p = PlanGpt(2, 2, 8);
  Plan& plan = p.planned.plan;
  for (const char* schedule : {"1f1b", "gpipe"}) {
    plan.schedule = schedule;
    for (int first : {1, 3, 4, 6}) {  // micro-batches of the first replica
      for (StagePlan& stage : plan.stages) {
        for (int g = 0; g < 8; ++g) stage.owner[g] = stage.vcus[g < first ? 0 : 1];
      }
      for (int shard : {0, 1, 2, 3}) {
        auto planned = At(p, shard, {1, 2, 1, 3});
        EXPECT_TRUE(planned.ok()) << schedule << " " << first << " shard " << shard << ": "
                                  << planned.status();
      }
    }
  }
}

class ShardMemory : public ::testing::TestWithParam<bool> {};
TEST_P(ShardMemory, FallsStageByStage) {
  // AdamW: twice the parameters of states, and as much of gradients.
  const auto model = [] {
    return models::Gpt2({.layers = 6, .width = 256, .heads = 4, .context = 32, .vocabulary = 512});
  };
  const bool half = GetParam();
  const Planned p =
      PlanGpt(1, 4, 4, half ? AmpOptions{AmpLevel::kO2, DType::kBF16} : AmpOptions{}, model());
  std::vector<VcuPrediction> most(4);
  for (int shard : {0, 1, 2, 3}) {
    auto planned = At(p, shard);
    ASSERT_TRUE(planned.ok()) << planned.status();
    for (const VcuPrediction& v : planned->plan.vcus) {
      most[shard].state_bytes = std::max(most[shard].state_bytes, v.state_bytes);
      most[shard].step_bytes = std::max(most[shard].step_bytes, v.step_bytes);
    }
  }
  double parameters = 0;
  for (const Variable& v : p.joint.parameters) {
    parameters += static_cast<double>(p.joint.value(v.value).type.bytes());
  }
  EXPECT_GE(static_cast<double>(most[0].state_bytes), 3 * parameters);
  // Masters of half weights are divided from 1 on.
  const double first = (half ? 0.25 : 1) + 2 * 0.25;
  EXPECT_LT(static_cast<double>(most[1].state_bytes), 1.04 * first * parameters);
  EXPECT_LE(most[2].state_bytes, most[1].state_bytes);
  EXPECT_LT(static_cast<double>(most[3].state_bytes), 1.04 * 3 * 0.25 * parameters);
  // A quarter of the gradients is kept, and of an eighth of them up to three are there at a time.
  EXPECT_LT(static_cast<double>(most[2].step_bytes),
            static_cast<double>(most[1].step_bytes) - (1 - 0.25 - 3.0 / 8) * parameters);
  // Half weights: a bucket or two instead of all.
  if (half) {
    EXPECT_LT(static_cast<double>(most[3].step_bytes),
              static_cast<double>(most[2].step_bytes) - 0.5 * (1 - 0.25 - 3.0 / 8) * parameters);
  }
}
INSTANTIATE_TEST_SUITE_P(AtO0AndO2, ShardMemory, ::testing::Bool());

class ShardVerifyTest : public ::testing::Test {
 protected:
  void Make(int shard, int micro_batches = 2) {
    p_ = PlanGpt(1, 2, micro_batches);
    auto planned = At(p_, shard);
    ASSERT_TRUE(planned.ok()) << planned.status();
    program_ = planned->program;
    ASSERT_EQ(Verify(program_, p_.cluster), OkStatus());
  }
  // Of a VCU, the commands of this operation on buckets.
  std::vector<int> Find(int vcu, CollectiveOp op) {
    std::vector<int> found;
    const auto& commands = program_.vcus[vcu].commands;
    for (size_t i = 0; i < commands.size(); ++i) {
      const Command& c = commands[i];
      if (c.kind == CommandKind::kCollective && c.op == op && c.bucket != kNone) {
        found.push_back(static_cast<int>(i));
      }
    }
    return found;
  }
  void Drop(int vcu, int index) {
    auto& commands = program_.vcus[vcu].commands;
    commands.erase(commands.begin() + index);
    for (Command& c : commands) {
      std::erase(c.waits, index);
      for (int& wait : c.waits) wait -= wait > index ? 1 : 0;
    }
  }
  // The same command once more, behind itself.
  void Repeat(int vcu, int index) {
    auto& commands = program_.vcus[vcu].commands;
    Command again = commands[index];
    again.waits.clear();
    for (Command& c : commands) {
      for (int& wait : c.waits) wait += wait > index ? 1 : 0;
      if (std::count(c.waits.begin(), c.waits.end(), index) != 0) c.waits.push_back(index + 1);
    }
    commands.insert(commands.begin() + index + 1, again);
  }
  void ExpectRejected(const std::string& text) {
    const Status status = Verify(program_, p_.cluster);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
  Planned p_;
  Program program_;
};

TEST_F(ShardVerifyTest, AGatherIsMissing) {
  Make(1);
  for (int vcu : {0, 1}) Drop(vcu, Find(vcu, CollectiveOp::kAllGather).back());
  ExpectRejected("keeps old values where others have new ones");
  // Of one member alone it is no Program at all.
  Make(1);
  Drop(0, Find(0, CollectiveOp::kAllGather).back());
  ExpectRejected("collectives");
  // What forward reads is not there.
  Make(3);
  for (int vcu : {0, 1}) Drop(vcu, Find(vcu, CollectiveOp::kAllGather).front());
  EXPECT_FALSE(Verify(program_, p_.cluster).ok());
}

TEST_F(ShardVerifyTest, APieceIsReducedTwice) {
  for (int shard : {1, 2, 3}) {
    Make(shard);
    for (int vcu : {0, 1}) Repeat(vcu, Find(vcu, CollectiveOp::kReduceScatter).front());
    ExpectRejected("reductions");
  }
}

TEST_F(ShardVerifyTest, ARoundIsNotReduced) {
  for (size_t which : {size_t{0}, size_t{1}}) {
    Make(2, /*micro_batches=*/4);
    for (int vcu : {0, 1}) {
      const std::vector<int> found = Find(vcu, CollectiveOp::kReduceScatter);
      // Of the first bucket the first round or the second.
      const int bucket = program_.vcus[vcu].commands[found[0]].bucket;
      std::vector<int> of_bucket;
      for (int i : found) {
        if (program_.vcus[vcu].commands[i].bucket == bucket) of_bucket.push_back(i);
      }
      ASSERT_EQ(of_bucket.size(), 2u);
      Drop(vcu, of_bucket[which]);
    }
    const Status status = Verify(program_, p_.cluster);
    EXPECT_FALSE(status.ok()) << which;
  }
}

TEST_F(ShardVerifyTest, WhatARoundReducedIsNotTakenUp) {
  Make(2);
  auto& commands = program_.vcus[0].commands;
  for (size_t i = 0; i < commands.size(); ++i) {
    if (commands[i].name.rfind("sum ", 0) != 0) continue;
    Drop(0, static_cast<int>(i));
    break;
  }
  const Status status = Verify(program_, p_.cluster);
  EXPECT_FALSE(status.ok());
}

TEST_F(ShardVerifyTest, UnlikePiecesOnTwoMembers) {
  for (int shard : {0, 1, 2, 3}) {
    Make(shard);
    const CollectiveOp op = shard == 0 ? CollectiveOp::kAllReduce : CollectiveOp::kReduceScatter;
    Command& c = program_.vcus[1].commands[Find(1, op)[0]];
    c.pieces[1] = c.pieces[1] == 0 ? 64 : c.pieces[1] - 64;
    ExpectRejected("collectives");
  }
}

TEST_F(ShardVerifyTest, AReductionInPlaceOfAnother) {
  Make(1);
  // All-reduced by one member, scattered by the other.
  program_.vcus[0].commands[Find(0, CollectiveOp::kReduceScatter)[0]].op = CollectiveOp::kAllReduce;
  ExpectRejected("collectives");
}

TEST_F(ShardVerifyTest, ReadsWhatIsOthers) {
  Make(1);
  // An all-reduce made a reduce-scatter: each VCU's update goes on to read what it has no more.
  Make(0);
  for (int vcu : {0, 1}) {
    program_.vcus[vcu].commands[Find(vcu, CollectiveOp::kAllReduce)[0]].op =
        CollectiveOp::kReduceScatter;
  }
  ExpectRejected("reads what a reduction left to others");
}

// The last backward is cut where buckets become final: all but the last are reduced beside it.
TEST(ShardPrograms, ReductionsOverlapTheLastBackward) {
  const Planned p = PlanGpt(1, 2, 6);
  for (int shard : {0, 1}) {
    auto planned = At(p, shard);
    ASSERT_TRUE(planned.ok()) << planned.status();
    const VcuProgram& v = planned->program.vcus[0];
    int last_backward = 0, buckets = 0, before = 0, cuts = 0;
    for (size_t i = 0; i < v.commands.size(); ++i) {
      if (v.commands[i].name.rfind("B", 0) == 0) last_backward = static_cast<int>(i);
    }
    for (size_t i = 0; i < v.commands.size(); ++i) {
      const Command& c = v.commands[i];
      if (c.name.find('.') != std::string::npos && c.name[0] == 'B') ++cuts;
      if (c.kind != CommandKind::kCollective || c.name.rfind("gradients", 0) != 0) continue;
      ++buckets;
      before += static_cast<int>(i) < last_backward ? 1 : 0;
      // The commands that follow do not wait for it.
      for (const Command& later : v.commands) {
        if (later.name[0] == 'B') {
          EXPECT_EQ(std::count(later.waits.begin(), later.waits.end(), i), 0) << later.name;
        }
      }
    }
    EXPECT_GE(buckets, 3);
    EXPECT_EQ(before, buckets - 1);
    EXPECT_GE(cuts, buckets);
  }
}

TEST(ShardPlans, AreInTheFileAndChecked) {
  const Planned p = PlanGpt(1, 2, 2);
  Plan plan = p.planned.plan;
  plan.shard = 2;
  plan.shard_weights = {1, 3};
  auto again = Plan::FromJson(plan.ToJson());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->shard, 2);
  EXPECT_EQ(again->shard_weights, plan.shard_weights);
  plan.shard_weights = {1, 0};
  EXPECT_THAT(std::string(plan.Validate(p.joint, p.cluster).message()),
              HasSubstr("a shard weight is 0"));
  plan.shard_weights = {1};
  EXPECT_THAT(std::string(plan.Validate(p.joint, p.cluster).message()),
              HasSubstr("shard weights of 1 VCUs, there are 2"));
  plan.shard_weights.clear();
  plan.shard = 4;
  EXPECT_THAT(std::string(plan.Validate(p.joint, p.cluster).message()), HasSubstr("shard is 4"));
}

TEST(ShardCosts, APartsCostLiesBetweenThoseMeasured) {
  const Planned p = PlanGpt(1, 1, 1);
  const OpDef* adamw = p.joint.ops().Find("adamw");
  const Attributes attrs;
  CostTable table;
  const auto types = [](int64_t n) {
    const TensorType t = {DType::kF32, {n}}, scalar = {DType::kF32, {}};
    return std::vector<TensorType>{t, t, t, t, scalar, scalar, scalar};
  };
  for (int64_t n : {int64_t{1}, kSumChunk, 4 * kSumChunk}) {
    table.Set(CostKey(*adamw, attrs, types(n), 0, "k"),
              {.seconds = 1e-6 + 1e-9 * static_cast<double>(n), .workspace_bytes = 8 * n});
  }
  for (int64_t n : {kSumChunk / 2, 3 * kSumChunk, 16 * kSumChunk}) {
    const std::vector<TensorType> inputs = types(n);
    const auto cost = CostOf({adamw, attrs, inputs, 0}, "k", table);
    ASSERT_TRUE(cost.ok()) << cost.status();
    EXPECT_NEAR(cost->seconds, 1e-6 + 1e-9 * static_cast<double>(n), 1e-9);
    EXPECT_GE(cost->workspace_bytes, 8 * n);
  }
  // What depends on the whole tensor has no parts.
  const OpDef* lamb = p.joint.ops().Find("lamb_moments");
  const std::vector<TensorType> inputs = types(100);
  EXPECT_FALSE(CostOf({lamb, attrs, inputs, 0}, "k", table).ok());
}

// Between tensors whose sizes are no multiples of the alignment lies what was there before.
TEST(DividedState, BytesBetweenTensorsAreNobodys) {
  GraphBuilder b("uneven");
  Val x = b.Data("x", {DType::kF32, {Dim("B"), 24}});
  for (int64_t width : {72, 9, 33, 5}) {
    x = nn::Linear{absl::StrCat("layers.", width), width}(b, x);
  }
  models::ClassifierHead(b, x);
  const Planned p = PlanModel(b.Finish(), 1, 2, 6);
  for (int shard = 0; shard <= 3; ++shard) {
    Plan plan = p.planned.plan;
    plan.shard = shard;
    CostTable costs = p.costs;
    for (const CostRequest& r : MissingCosts(p.joint, &p.update, "sim/1t", costs, true)) {
      costs.Set(r.key, {.seconds = 1e-6});
    }
    const auto planned =
        DynamicGraphPartitioner(p.joint, &p.update, p.cluster, costs).Realize(std::move(plan), {});
    EXPECT_TRUE(planned.ok()) << shard << ": " << planned.status();
  }
}

// Without overlap no work is behind the first reduction but what the reductions themselves want.
TEST(DividedState, ReductionsMayWaitForAllWork) {
  const Planned p = PlanModel(SmallGpt(), 1, 2, 4);
  for (const bool overlap : {true, false}) {
    PartitionOptions options;
    options.lower.overlap_reductions = overlap;
    options.lower.bucket_bytes = 8 << 10;
    const auto planned = DynamicGraphPartitioner(p.joint, &p.update, p.cluster, p.costs)
                             .Realize(p.planned.plan, options);
    ASSERT_TRUE(planned.ok()) << planned.status();
    const std::vector<Command>& commands = planned->program.vcus[0].commands;
    const auto reduced = std::find_if(commands.begin(), commands.end(), [](const Command& c) {
      return c.kind == CommandKind::kCollective && c.name.rfind("gradients", 0) == 0;
    });
    ASSERT_NE(reduced, commands.end());
    const bool behind = std::none_of(reduced, commands.end(), [](const Command& c) {
      return c.kind == CommandKind::kCompute && c.micro_batch != kNone;
    });
    EXPECT_EQ(behind, !overlap);
  }
}

}  // namespace
}  // namespace oc

// What is computed again: the choices, and plans under a memory budget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixture.h"
#include "openclaw/graph/models/heads.h"
#include "openclaw/graph/modules.h"
#include "openclaw/partitioner/memory_fit.h"
#include "openclaw/partitioner/picture.h"
#include "openclaw/partitioner/recompute.h"
#include "openclaw/partitioner/recompute_choices.h"

namespace oc {
namespace {

struct Bytes {
  int64_t arena = 0;  // of the step
  int64_t alive = 0;  // the most that lives at once in it
  int64_t activations = 0;
  double seconds = 0;
};

// What a set of forward nodes to repeat really takes, lowered and simulated.
Bytes Take(const Planned& p, const PartitionOptions& options, const std::vector<bool>& nodes) {
  MemoryFit fit(p.joint, &p.update, p.cluster, p.costs, options);
  Plan plan = p.planned.plan;
  plan.recomputed = ForwardNodesOf(p.joint, nodes);
  auto planned = fit.Lowered(std::move(plan));
  EXPECT_TRUE(planned.ok()) << planned.status();
  const VcuProgram& v = planned->program.vcus[0];
  return {v.step_bytes, v.step_bytes - v.memory[MemoryUse::kGaps], v.activation_bytes,
          planned->simulation.step_seconds};
}

std::vector<RecomputeChoice> ChoicesOf(const Planned& p, bool activations_alone,
                                       int in_flight = 1) {
  const auto analysis = AnalyzeStages(p.joint, p.planned.plan, {});
  EXPECT_TRUE(analysis.ok()) << analysis.status();
  auto choices =
      RecomputeChoices({p.joint, *analysis, 0, "sim/1t", p.costs, in_flight, activations_alone});
  EXPECT_TRUE(choices.ok()) << choices.status();
  return *std::move(choices);
}

std::vector<bool> NodesIn(const Planned& p, const RecomputeChoice& choice) {
  std::vector<bool> nodes(p.joint.nodes.size(), false);
  for (int id : choice.nodes) nodes[id] = true;
  return nodes;
}

// A chain of products and element-wise ops of unlike widths, whose activations outweigh the rest.
StatusOr<Graph> Chain(const std::vector<int64_t>& widths, nn::Activation activation,
                      double dropout) {
  GraphBuilder b("chain");
  Val x = b.Data("x", {DType::kF32, {Dim("B"), 24}});
  for (size_t i = 0; i < widths.size(); ++i) {
    x = nn::Linear{absl::StrCat("layers.", i), widths[i]}(b, x);
    if (i + 1 < widths.size()) x = nn::Dropout{dropout}(b, nn::Activate(b, x, activation));
  }
  models::ClassifierHead(b, x);
  return b.Finish();
}

std::vector<Planned> Chains() {
  std::vector<Planned> chains;
  chains.push_back(PlanModel(Chain({48, 16, 64, 40, 8}, nn::Activation::kTanh, 0), 1, 1, 1));
  chains.push_back(PlanModel(Chain({32, 80, 6}, nn::Activation::kGelu, 0.2), 1, 1, 1));
  return chains;
}

StatusOr<Graph> WideGpt(int layers = 3) {
  return models::Gpt2({.layers = layers,
                       .width = 16,
                       .heads = 2,
                       .context = 32,
                       .vocabulary = 23,
                       .dropout = 0.1,
                       .checkpoint = true});
}

PartitionOptions Options(int depth, int micro_batches) {
  return {.micro_batch = 4,
          .global_batch = 4 * micro_batches,
          .pipeline_depth = depth,
          .data_parallel = 1,
          .schedule = "1f1b"};
}

StatusOr<PlannedProgram> Partitioned(const Planned& p, const PartitionOptions& options) {
  return DynamicGraphPartitioner(p.joint, &p.update, p.cluster, p.costs).Partition(options);
}

TEST(RecomputeChoices, OnChainsNoOtherSetOfNodesIsBetter) {
  for (const bool alone : {true, false}) {
    for (const Planned& p : Chains()) {
      std::vector<int> ids;
      for (const Node& node : p.joint.nodes) {
        if (node.phase == Phase::kForward && !node.def->is_view) ids.push_back(node.id);
      }
      ASSERT_LE(ids.size(), 14u);
      std::vector<Bytes> chosen;
      const std::vector<RecomputeChoice> choices = ChoicesOf(p, alone);
      for (const RecomputeChoice& c : choices) {
        chosen.push_back(Take(p, {}, NodesIn(p, c)));
        const Bytes& plain = chosen.front();
        // The model of memory is the arena's, but for what choices do not change.
        if (alone) {
          EXPECT_EQ(c.peak_bytes, chosen.back().activations);
        } else {
          EXPECT_EQ(c.peak_bytes - choices.front().peak_bytes, chosen.back().alive - plain.alive);
        }
        EXPECT_NEAR(c.seconds, chosen.back().seconds - plain.seconds, 2e-6 * c.nodes.size());
      }
      ASSERT_GE(chosen.size(), 3u);
      for (uint32_t set = 0; set < 1u << ids.size(); ++set) {
        std::vector<bool> nodes(p.joint.nodes.size(), false);
        for (size_t i = 0; i < ids.size(); ++i) nodes[ids[i]] = (set >> i & 1) != 0;
        const Bytes other = Take(p, {}, nodes);
        const bool matched = std::any_of(chosen.begin(), chosen.end(), [&](const Bytes& c) {
          const bool fits = alone ? c.activations <= other.activations : c.alive <= other.alive;
          return fits && c.seconds <= other.seconds * (1 + 1e-9);
        });
        EXPECT_TRUE(matched) << "set " << set << " takes " << other.activations << ", "
                             << other.alive << " bytes, " << other.seconds << " s";
      }
    }
  }
}

// A budget that does not hold the plain plan is kept to, in what the arenas take.
TEST(MemoryFit, KeepsToTheBudget) {
  Planned p = PlanModel(WideGpt(), 1, 1, 2);
  const VcuPrediction plain = p.planned.plan.vcus[0];
  double before = p.planned.plan.predicted_step_seconds;
  for (double percent : {90.0, 70.0, 50.0, 40.0}) {
    PartitionOptions options = Options(1, 2);
    options.recompute.activations.percent = percent;
    auto planned = Partitioned(p, options);
    ASSERT_TRUE(planned.ok()) << planned.status();
    EXPECT_LE(planned->plan.vcus[0].activation_bytes, percent / 100 * plain.activation_bytes);
    EXPECT_GE(planned->plan.predicted_step_seconds, before);
    EXPECT_FALSE(planned->plan.recomputed.empty());
    before = planned->plan.predicted_step_seconds;
    // The same of the VCU's memory.
    p.cluster.vcus[0].memory_bytes =
        plain.state_bytes + static_cast<int64_t>(percent / 100 * plain.step_bytes);
    planned = Partitioned(p, Options(1, 2));
    ASSERT_TRUE(planned.ok()) << planned.status();
    const VcuProgram& v = planned->program.vcus[0];
    EXPECT_LE(v.state_bytes + v.step_bytes, p.cluster.vcus[0].memory_bytes);
    p.cluster = MakeCluster(1);
  }
}

// A share is one of what the schedule that keeps least keeps, whichever is tried.
TEST(MemoryFit, AShareMeansTheSameUnderEverySchedule) {
  const Planned p = PlanModel(WideGpt(4), 2, 1, 8);
  PartitionOptions options = Options(2, 8);
  options.schedule = "auto";
  options.stages = {"transformer.h.1"};
  options.recompute.activations.percent = 60;
  const auto planned = Partitioned(p, options);
  ASSERT_TRUE(planned.ok()) << planned.status();
  Plan lean = planned->plan;
  lean.schedule = "1f1b";
  lean.recomputed.clear();
  const auto plain =
      DynamicGraphPartitioner(p.joint, &p.update, p.cluster, p.costs).Realize(lean, options);
  ASSERT_TRUE(plain.ok()) << plain.status();
  for (int v = 0; v < 2; ++v) {
    EXPECT_LE(planned->plan.vcus[v].activation_bytes, 0.6 * plain->plan.vcus[v].activation_bytes);
  }
}

TEST(MemoryFit, RecomputesNothingWhereItFits) {
  const Planned p = PlanModel(WideGpt(), 1, 1, 2);
  auto planned = Partitioned(p, Options(1, 2));
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_TRUE(planned->plan.recomputed.empty());
  EXPECT_EQ(planned->plan.predicted_step_seconds, p.planned.plan.predicted_step_seconds);
}

// "... The smallest budget that can, with the tightest recomputation: 1.23MiB (1289748 bytes)."
int64_t SmallestIn(const Status& status) {
  const std::string text = status.ToString();
  const size_t at = text.find("The smallest");
  const size_t open = text.find('(', at);
  return at == std::string::npos ? 0 : std::atoll(text.c_str() + open + 1);
}

TEST(MemoryFit, TheSmallestBudgetWorksAndOneUnitLessDoesNot) {
  for (const char* policy : {"auto", "none", "full", "marked"}) {
    SCOPED_TRACE(policy);
    Planned p = PlanModel(WideGpt(), 1, 1, 2);
    PartitionOptions options = Options(1, 2);
    options.recompute.policy = policy;
    p.cluster.vcus[0].memory_bytes = 100 << 10;
    const auto refused = Partitioned(p, options);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
    EXPECT_THAT(refused.status().ToString(), ::testing::HasSubstr("VCU sim:0 needs"));
    EXPECT_THAT(refused.status().ToString(), ::testing::HasSubstr("its budget is 100.00KiB"));
    const int64_t smallest = SmallestIn(refused.status());
    ASSERT_GT(smallest, 0) << refused.status();
    p.cluster.vcus[0].memory_bytes = smallest;
    EXPECT_TRUE(Partitioned(p, options).ok()) << Partitioned(p, options).status();
    p.cluster.vcus[0].memory_bytes = smallest - kArenaAlignment;
    const auto again = Partitioned(p, options);
    EXPECT_EQ(again.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(SmallestIn(again.status()), smallest) << again.status();
  }
}

TEST(MemoryFit, TheSmallestActivationBudgetWorksToo) {
  const Planned p = PlanModel(WideGpt(), 1, 1, 1);
  PartitionOptions options = Options(1, 1);
  options.recompute.activations.bytes = 1000;
  const auto refused = Partitioned(p, options);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
  const int64_t smallest = SmallestIn(refused.status());
  ASSERT_GT(smallest, 1000) << refused.status();
  options.recompute.activations.bytes = smallest;
  EXPECT_TRUE(Partitioned(p, options).ok()) << Partitioned(p, options).status();
  options.recompute.activations.bytes = smallest - kArenaAlignment;
  EXPECT_EQ(Partitioned(p, options).status().code(), absl::StatusCode::kResourceExhausted);
}

// The first stage of a pipeline has more micro-batches in flight, and computes more again.
TEST(MemoryFit, EachStageHasItsOwnChoice) {
  Planned p = PlanModel(WideGpt(4), 2, 1, 8);
  const auto& plain = p.planned.plan.vcus;
  PartitionOptions options = Options(2, 8);
  options.stages = {"transformer.h.1"};
  for (int v = 0; v < 2; ++v) {
    p.cluster.vcus[v].memory_bytes = plain[1].state_bytes + plain[1].step_bytes;
  }
  const auto planned = Partitioned(p, options);
  ASSERT_TRUE(planned.ok()) << planned.status();
  const auto nodes = NodesOf(p.joint, planned->plan.recomputed);
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  int repeated[2] = {};
  for (const Node& node : p.joint.nodes) {
    if ((*nodes)[node.id]) ++repeated[StageOf(planned->plan, node)];
  }
  EXPECT_GT(repeated[0], repeated[1]);
}

TEST(MemoryFit, AnUnknownModuleIsNamedWithTheNearest) {
  const Planned p = PlanModel(WideGpt(), 1, 1, 1);
  PartitionOptions options = Options(1, 1);
  options.recompute = {.policy = "modules", .modules = {"transformer.h.*.mlp", "transformer.h.9"}};
  const auto planned = Partitioned(p, options);
  EXPECT_EQ(planned.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(planned.status().ToString(), ::testing::HasSubstr("no module 'transformer.h.9'"));
  options.recompute.modules.pop_back();
  EXPECT_TRUE(Partitioned(p, options).ok());
}

TEST(Alternatives, TellWhatOptionsBuy) {
  const Planned p = PlanModel(WideGpt(), 1, 1, 2);
  PartitionOptions options = Options(1, 2);
  options.recompute.activations.percent = 70;
  const DynamicGraphPartitioner partitioner(p.joint, &p.update, p.cluster, p.costs);
  const auto planned = partitioner.Partition(options);
  ASSERT_TRUE(planned.ok()) << planned.status();
  const auto alternatives = partitioner.Alternatives(planned->plan, options);
  ASSERT_TRUE(alternatives.ok()) << alternatives.status();
  ASSERT_EQ(alternatives->size(), 3u);
  const auto& [none, own, full] =
      std::tie((*alternatives)[0], (*alternatives)[1], (*alternatives)[2]);
  EXPECT_EQ(none.name, "recompute none");
  EXPECT_EQ(own.name, "recompute auto");
  EXPECT_EQ(full.name, "recompute full");
  EXPECT_TRUE(own.chosen && !none.chosen && !full.chosen);
  EXPECT_EQ(none.step_seconds, p.planned.plan.predicted_step_seconds);
  EXPECT_EQ(own.step_seconds, planned->plan.predicted_step_seconds);
  EXPECT_LT(none.step_seconds, own.step_seconds);
  EXPECT_LT(own.step_seconds, full.step_seconds);
  EXPECT_GT(none.arena_bytes, own.arena_bytes);
  EXPECT_GT(own.arena_bytes, full.arena_bytes);
  EXPECT_THAT(AlternativesText(*alternatives), ::testing::HasSubstr("this plan"));
  // A plan that computes nothing again is the first.
  const auto plain = partitioner.Alternatives(p.planned.plan, options);
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_EQ(plain->size(), 2u);
  EXPECT_TRUE((*plain)[0].chosen);

  // Replicas may divide their state.
  Planned two = PlanModel(WideGpt(), 1, 2, 4);
  for (const CostRequest& r : MissingCosts(two.joint, &two.update, "sim/1t", two.costs, true)) {
    two.costs.Set(r.key, {.seconds = 1e-6});
  }
  const auto shards = DynamicGraphPartitioner(two.joint, &two.update, two.cluster, two.costs)
                          .Alternatives(two.planned.plan, Options(1, 4));
  ASSERT_TRUE(shards.ok()) << shards.status();
  ASSERT_EQ(shards->size(), 6u);
  for (int s = 0; s <= 3; ++s) {
    EXPECT_EQ((*shards)[2 + s].name, absl::StrCat("shard ", s));
    EXPECT_EQ((*shards)[2 + s].chosen, s == 0);
  }
  EXPECT_LT((*shards)[3].arena_bytes, (*shards)[2].arena_bytes);
}

TEST(Plan, TheChoiceIsInTheFile) {
  const Planned p = PlanModel(WideGpt(), 1, 1, 2);
  PartitionOptions options = Options(1, 2);
  options.recompute.activations.percent = 40;
  const auto planned = Partitioned(p, options);
  ASSERT_TRUE(planned.ok()) << planned.status();
  auto plan = Plan::FromJson(planned->plan.ToJson());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->recomputed, planned->plan.recomputed);
  EXPECT_EQ(plan->recompute, "auto");
  const auto again =
      DynamicGraphPartitioner(p.joint, &p.update, p.cluster, p.costs).Realize(*plan, options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Fingerprint(again->program), Fingerprint(planned->program));
  plan->recomputed.push_back({0, 77});
  const auto unknown =
      DynamicGraphPartitioner(p.joint, &p.update, p.cluster, p.costs).Realize(*plan, options);
  EXPECT_THAT(unknown.status().ToString(), ::testing::HasSubstr("forward node 0.77"));
}

}  // namespace
}  // namespace oc

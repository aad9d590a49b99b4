// What is computed again: the choices, and plans under a memory budget.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixture.h"
#include "openclaw/graph/models/heads.h"
#include "openclaw/graph/modules.h"
#include "openclaw/partitioner/memory_fit.h"
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
  chains.push_back(PlanModel(Chain({32, 80, 24, 6}, nn::Activation::kGelu, 0.2), 1, 1, 1));
  return chains;
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
      ASSERT_GE(chosen.size(), 4u);
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

}  // namespace
}  // namespace oc

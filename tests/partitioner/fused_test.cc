// Lowering takes fused ops for the VCUs whose devices have them, and for no others.
#include <gtest/gtest.h>

#include <map>

#include "openclaw/partitioner/program/simulate.h"

#include "fixture.h"

namespace oc {
namespace {

std::map<std::string, int> CountCalls(const VcuProgram& vcu) {
  std::map<std::string, int> counts;
  for (const Command& c : vcu.commands) {
    if (c.kind != CommandKind::kCompute) continue;
    for (const Call& call : vcu.segments[c.segment].calls) ++counts[call.def->name];
  }
  return counts;
}

PlannedProgram PlanAgain(const Planned& p, int depth, int micro_batches) {
  const PartitionOptions options{.micro_batch = 4,
                                 .global_batch = 4 * micro_batches,
                                 .pipeline_depth = depth,
                                 .data_parallel = 1,
                                 .schedule = "1f1b",
                                 .recompute = {.policy = "none"}};
  auto planned = DynamicGraphPartitioner(p.joint, &p.update, p.cluster, p.costs).Partition(options);
  EXPECT_TRUE(planned.ok()) << planned.status();
  return planned.ok() ? *std::move(planned) : PlannedProgram{};
}

// Fused ops on VCUs of `kind`, at no cost.
void AddFusedCosts(Planned& p, const std::string& kind) {
  CostTable none;
  for (const CostRequest& r : MissingCosts(p.joint, &p.update, kind, none)) {
    if (IsFused(r.def->name)) p.costs.Set(r.key, {.seconds = 1e-9});
  }
}

StatusOr<Graph> PlainGpt() {
  return models::Gpt2({.layers = 3, .width = 16, .heads = 2, .context = 8, .vocabulary = 23});
}

TEST(FusedOps, AreTakenWhereTheDeviceHasThem) {
  Planned p = PlanModel(PlainGpt(), 1, 1, 2);
  const auto before = CountCalls(p.planned.program.vcus[0]);
  EXPECT_EQ(before.count("layer_norm_grad"), 0u);
  EXPECT_EQ(before.at("layer_norm_grad_input"), 2 * 7);
  AddFusedCosts(p, "sim/1t");
  const PlannedProgram fused = PlanAgain(p, 1, 2);
  ASSERT_EQ(fused.program.vcus.size(), 1u);
  const auto after = CountCalls(fused.program.vcus[0]);
  EXPECT_EQ(after.at("layer_norm_grad"), 2 * 7);
  EXPECT_EQ(after.at("add_layer_norm"), 2 * 6);
  EXPECT_EQ(after.at("linear_gelu"), 2 * 3);
  EXPECT_EQ(after.at("linear_grad_input_gelu"), 2 * 3);
  EXPECT_EQ(after.count("layer_norm_grad_input") + after.count("layer_norm_grad_weight"), 0u);
  EXPECT_EQ(after.count("gelu_grad"), 0u);
  // The second micro-batch adds to the first one's sums of gradients in the same call.
  int adding = 0;
  for (const Segment& s : fused.program.vcus[0].segments) {
    for (const Call& call : s.calls) {
      adding += call.def->name == "layer_norm_grad" && call.accumulate == 0b110 ? 1 : 0;
    }
  }
  EXPECT_EQ(adding, 7);
  EXPECT_EQ(Verify(fused.program, p.cluster), OkStatus());
  EXPECT_LT(fused.plan.predicted_step_seconds, p.planned.plan.predicted_step_seconds);
  EXPECT_LE(fused.program.vcus[0].step_bytes, p.planned.program.vcus[0].step_bytes);
}

TEST(FusedOps, AreAMatterOfEachVcusDevice) {
  Planned p = PlanModel(PlainGpt(), 2, 1, 2);
  p.cluster.vcus[1].kind = "other/1t";
  AddCosts(p.joint, &p.update, p.costs, "other/1t");
  AddFusedCosts(p, "other/1t");
  const PlannedProgram planned = PlanAgain(p, 2, 2);
  ASSERT_EQ(planned.program.vcus.size(), 2u);
  EXPECT_EQ(CountCalls(planned.program.vcus[0]).count("layer_norm_grad"), 0u);
  EXPECT_GT(CountCalls(planned.program.vcus[1]).at("layer_norm_grad"), 0);
  EXPECT_EQ(Verify(planned.program, p.cluster), OkStatus());
}

}  // namespace
}  // namespace oc

// Mixed precision in Programs: what is done once a step, and VCUs that compute in another type.
#include <gmock/gmock.h>

#include <algorithm>

#include "fixture.h"

namespace oc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const AmpOptions kO2 = {AmpLevel::kO2, DType::kBF16};

std::vector<const Command*> Named(const VcuProgram& v, const std::string& name) {
  std::vector<const Command*> found;
  for (const Command& c : v.commands) {
    if (c.name == name) found.push_back(&c);
  }
  return found;
}

// Weights are cast once a step, on each VCU that reads them, before all micro-batches.
TEST(Prologue, RunsOnceAStepWhateverTheMicroBatches) {
  for (int micro_batches : {2, 6}) {
    const Planned p = PlanModel(SmallGpt(), 2, 1, micro_batches, "1f1b", false, kO2);
    ASSERT_EQ(Verify(p.planned.program, p.cluster), OkStatus());
    for (const VcuProgram& v : p.planned.program.vcus) {
      const auto prologue = Named(v, "prologue");
      ASSERT_EQ(prologue.size(), 1u) << v.name;
      const Segment& segment = v.segments[prologue[0]->segment];
      int tied = 0;
      for (const Call& call : segment.calls) {
        EXPECT_EQ(call.def->name, "cast");
        EXPECT_EQ(call.output_types[0].dtype, DType::kBF16);
        tied += segment.slots[call.inputs[0]].name == "transformer.wte.weight" ? 1 : 0;
      }
      EXPECT_EQ(tied, 1) << v.name << " has its own cast of the weight that both stages read";
      for (const Command& c : v.commands) {
        if (c.kind == CommandKind::kCompute) {
          EXPECT_EQ(c.name, "prologue") << "what computes first";
          break;
        }
      }
      for (const StateEntry& e : v.state) EXPECT_EQ(e.type.dtype, DType::kF32) << e.name;
      for (const StateEntry& e : v.gradients) EXPECT_EQ(e.type.dtype, DType::kF32) << e.name;
    }
  }
  // A graph without casts has no prologue.
  const Planned p = PlanModel(SmallGpt(), 2, 1, 2);
  for (const VcuProgram& v : p.planned.program.vcus) EXPECT_TRUE(Named(v, "prologue").empty());
}

TEST(Prologue, IsNoWorkOfAMicroBatch) {
  const Planned half = PlanModel(SmallGpt(), 1, 1, 2, "1f1b", false, kO2);
  for (const Segment& s : half.planned.program.vcus[0].segments) {
    if (s.name == "prologue") continue;
    for (const Call& call : s.calls) {
      if (call.def->name != "cast" || s.name == "update") continue;
      for (int slot : call.inputs) {
        EXPECT_THAT(s.slots[slot].name, ::testing::Not(HasSubstr("weight"))) << s.name;
      }
    }
  }
}

// A VCU without the half type computes in f32; what it exchanges travels in the graph's type.
TEST(ComputeTypes, MessagesKeepTheGraphsType) {
  for (int depth : {2, 1}) {
    const Planned p = PlanModel(SmallGpt(), depth, 2 / depth, 4, "1f1b", false, kO2,
                                {DType::kF32, DType::kI32, DType::kI64, DType::kBool});
    ASSERT_EQ(Verify(p.planned.program, p.cluster), OkStatus());
    EXPECT_THAT(p.planned.plan.compute_types, ElementsAre(DType::kBF16, DType::kF32));
    const VcuProgram& full = p.planned.program.vcus[1];
    for (const Segment& s : full.segments) {
      for (const Call& call : s.calls) {
        for (const auto* types : {&call.input_types, &call.output_types}) {
          for (const TensorType& t : *types) EXPECT_NE(t.dtype, DType::kBF16) << call.cost_key;
        }
      }
    }
    int messages = 0;
    for (const Command& c : full.commands) {
      if (c.kind != CommandKind::kRecv && c.kind != CommandKind::kSend) continue;
      ++messages;
      const Range& r = c.kind == CommandKind::kRecv ? c.writes[0] : c.reads[0];
      if (c.wire != DType::kBF16) continue;
      EXPECT_EQ(c.dtype, DType::kF32);
      EXPECT_EQ(WireBytes(c, r), r.bytes / 2) << c.name;
    }
    EXPECT_EQ(messages > 0, depth == 2);
    const std::string text = ToText(p.planned.program);
    EXPECT_EQ(text.find("as f32 over bf16") != std::string::npos, depth == 2);
    // The plan's file says so, and its advice why.
    EXPECT_THAT(p.planned.plan.ToJson(), HasSubstr("compute_types"));
    EXPECT_THAT(p.planned.plan.advice,
                ElementsAre("sim:1 computes in f32: its device has no bf16"));
  }
}

TEST(ComputeTypes, APlanThatAsksForWhatADeviceLacksIsRefused) {
  const Planned p = PlanModel(SmallGpt(), 2, 1, 2, "1f1b", false, kO2, {DType::kF32, DType::kI32});
  Plan plan = p.planned.plan;
  plan.compute_types[1] = DType::kBF16;
  EXPECT_THAT(std::string(plan.Validate(p.joint, p.cluster).message()),
              HasSubstr("sim:1 is to compute in bf16"));
}

TEST(ComputeTypes, TheBestThatAVcuHas) {
  const Graph model = *SmallGpt()->Bind({{"B", 2}});
  const Graph bf16 = *Differentiate(*ApplyAmp(model, kO2));
  const Graph scaled = *Differentiate(*ApplyAmp(model, kO2), {.loss_scale = true});
  const Graph f16 = *Differentiate(*ApplyAmp(model, {AmpLevel::kO2, DType::kF16}));
  const auto best = [](const Graph& graph, std::vector<DType> has) {
    return *ComputeTypeFor(graph, VcuSpec{.name = "v", .dtypes = std::move(has)});
  };
  EXPECT_EQ(best(bf16, {}), DType::kBF16);
  EXPECT_EQ(best(bf16, {DType::kF32, DType::kF16}), DType::kF32);  // f16 wants a loss scale
  EXPECT_EQ(best(scaled, {DType::kF32, DType::kF16}), DType::kF16);
  EXPECT_EQ(best(f16, {DType::kF32, DType::kBF16}), DType::kBF16);
  EXPECT_EQ(best(f16, {DType::kF32}), DType::kF32);
  EXPECT_THAT(
      std::string(
          ComputeTypeFor(bf16, VcuSpec{.name = "v", .dtypes = {DType::kI32}}).status().message()),
      HasSubstr("VCU v has neither bf16"));
}

}  // namespace
}  // namespace oc

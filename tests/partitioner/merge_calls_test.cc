// Multi-tensor updates: which calls become one, and what one costs.
#include "openclaw/partitioner/program/merge_calls.h"

#include <gmock/gmock.h>

#include "openclaw/graph/cost_key.h"

#include "fixture.h"

namespace oc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const TensorType kVector = {DType::kF32, {768}};
const TensorType kScalarType = {DType::kF32, {}};

// Slots below 10 are scalars: lr 0, step 1, clip 2.
SizedCall AdamWCall(int p, int g, int m, int v, double decay = 0.1, int64_t workspace = 0) {
  Call call{.def = BuiltinOps()->Find("adamw"), .attrs = {{"weight_decay", decay}}};
  call.inputs = {p, g, m, v, 0, 1, 2};
  call.input_types = {kVector, kVector, kVector, kVector, kScalarType, kScalarType, kScalarType};
  call.outputs = {p, m, v};
  call.output_types = {kVector, kVector, kVector};
  return {std::move(call), workspace};
}

SizedCall EmaCall(int average, int p) {
  Call call{.def = BuiltinOps()->Find("ema"), .attrs = {{"decay", 0.9}}};
  call.inputs = {average, p, 1};
  call.input_types = {kVector, kVector, kScalarType};
  call.outputs = {average};
  call.output_types = {kVector};
  return {std::move(call), 0};
}

SizedCall SumCall(int partials, int sum, uint32_t accumulate) {
  Call call{.def = BuiltinOps()->Find("sum_partials"), .accumulate = accumulate};
  call.inputs = {partials};
  call.input_types = {{DType::kF32, {3}}};
  call.outputs = {sum};
  call.output_types = {kScalarType};
  return {std::move(call), 0};
}

bool Always(const Call&) { return true; }

std::vector<std::vector<int>> Inputs(const std::vector<SizedCall>& calls) {
  std::vector<std::vector<int>> inputs;
  for (const SizedCall& c : calls) inputs.push_back(c.call.inputs);
  return inputs;
}

TEST(MergeCalls, CallsThatDifferInTensorsAloneAreOne) {
  const auto merged =
      MergeCalls({AdamWCall(10, 11, 12, 13, 0.1, 10), AdamWCall(20, 21, 22, 23, 0.1, 7)}, Always);
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_THAT(merged[0].call.inputs, ElementsAre(10, 11, 12, 13, 20, 21, 22, 23, 0, 1, 2));
  EXPECT_THAT(merged[0].call.outputs, ElementsAre(10, 12, 13, 20, 22, 23));
  EXPECT_EQ(merged[0].call.input_types.size(), 11u);
  EXPECT_EQ(merged[0].call.output_types.size(), 6u);
  EXPECT_EQ(merged[0].workspace_bytes, 64 + 7);
  const Call& call = merged[0].call;
  EXPECT_EQ(UpdatedInput(*call.def, call.attrs, call.inputs.size(), call.outputs.size(), 4), 6);
}

TEST(MergeCalls, OtherAttributesOrScalarsAreAnotherCall) {
  SizedCall other_lr = AdamWCall(30, 31, 32, 33);
  other_lr.call.inputs[4] = 5;
  const auto merged = MergeCalls({AdamWCall(10, 11, 12, 13), AdamWCall(20, 21, 22, 23, 0.0),
                                  std::move(other_lr), AdamWCall(40, 41, 42, 43)},
                                 Always);
  EXPECT_THAT(Inputs(merged), ElementsAre(ElementsAre(10, 11, 12, 13, 40, 41, 42, 43, 0, 1, 2),
                                          ElementsAre(20, 21, 22, 23, 0, 1, 2),
                                          ElementsAre(30, 31, 32, 33, 5, 1, 2)));
}

TEST(MergeCalls, WhatFollowsAnUpdateStaysBehindIt) {
  const auto merged = MergeCalls(
      {AdamWCall(10, 11, 12, 13), EmaCall(14, 10), AdamWCall(20, 21, 22, 23), EmaCall(24, 20)},
      Always);
  EXPECT_THAT(Inputs(merged), ElementsAre(ElementsAre(10, 11, 12, 13, 20, 21, 22, 23, 0, 1, 2),
                                          ElementsAre(14, 10, 24, 20, 1)));
}

// The second reads what the first writes; the third writes what the ema before it reads.
TEST(MergeCalls, NoCallPassesWhatItDependsOn) {
  const auto chain = MergeCalls({EmaCall(10, 11), EmaCall(12, 10)}, Always);
  EXPECT_EQ(chain.size(), 2u);
  const auto after =
      MergeCalls({AdamWCall(10, 11, 12, 13), EmaCall(14, 20), AdamWCall(20, 21, 22, 23)}, Always);
  EXPECT_EQ(after.size(), 3u);
  const auto twice = MergeCalls({EmaCall(10, 11), EmaCall(10, 12)}, Always);
  EXPECT_EQ(twice.size(), 2u);
}

TEST(MergeCalls, SumsThatGoOnAreOneSum) {
  const auto merged = MergeCalls(
      {SumCall(10, 3, 1), SumCall(11, 3, 1), SumCall(12, 4, 1), SumCall(13, 3, 1)}, Always);
  EXPECT_THAT(Inputs(merged), ElementsAre(ElementsAre(10, 11, 13), ElementsAre(12)));
  EXPECT_THAT(merged[0].call.outputs, ElementsAre(3));
  // One that begins anew is its own.
  EXPECT_EQ(MergeCalls({SumCall(10, 3, 0), SumCall(11, 3, 0)}, Always).size(), 2u);
}

TEST(MergeCalls, DevicesWithoutListsKeepACallATensor) {
  const auto merged = MergeCalls({AdamWCall(10, 11, 12, 13), AdamWCall(20, 21, 22, 23)},
                                 [](const Call&) { return false; });
  EXPECT_EQ(merged.size(), 2u);
}

std::map<std::string, int> CallsOf(const Program& program, const std::string& segment) {
  std::map<std::string, int> calls;
  for (const Segment& s : program.vcus[0].segments) {
    if (s.name != segment) continue;
    for (const Call& c : s.calls) ++calls[c.def->name];
  }
  return calls;
}

TEST(MergedUpdate, IsOneCallForWhatDecaysAndOneForTheRest) {
  const Planned p = PlanModel(SmallGpt(), 1, 1, 2);
  const std::map<std::string, int> update = {{"adamw", 1}, {"clip_factor", 1}};
  EXPECT_EQ(CallsOf(p.planned.program, "update"), update);  // AdamW{} decays nothing
  const std::map<std::string, int> norm = {{"sum_partials", 1}, {"sum_squares", 1}};
  EXPECT_EQ(CallsOf(p.planned.program, "gradient norm"), norm);
  EXPECT_EQ(Verify(p.planned.program, p.cluster), OkStatus());
}

// Costs of a kind that has no lists: a call a tensor.
TEST(MergedUpdate, NeedsAKernelThatTakesLists) {
  Planned p = PlanModel(SmallGpt(), 1, 1, 2);
  CostTable costs;
  for (const auto& [key, entry] : p.costs.entries()) {
    CostEntry changed = entry;
    if (key.find("2*{") != std::string::npos) changed.supported = false;
    costs.Set(key, changed);
  }
  auto planned = DynamicGraphPartitioner(p.joint, &p.update, p.cluster, costs)
                     .Realize(p.planned.plan, {.micro_batch = 4});
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_EQ(CallsOf(planned->program, "update")["adamw"],
            static_cast<int>(p.update.parameters.size()));
}

TEST(CostOf, AListIsItsTensorsLessTheCallsThatItSaves) {
  const OpDef* def = BuiltinOps()->Find("adamw");
  const Attributes attrs;
  const auto types = [](const std::vector<Shape>& shapes) {
    std::vector<TensorType> all;
    for (const Shape& s : shapes) all.insert(all.end(), 4, {DType::kF32, s});
    all.insert(all.end(), 3, kScalarType);
    return all;
  };
  CostTable table;
  const auto set = [&](const std::vector<Shape>& shapes, double seconds, int64_t workspace) {
    table.Set(CostKey(*def, attrs, types(shapes), 0, "sim"),
              {.seconds = seconds, .workspace_bytes = workspace});
  };
  set({{1}}, 3e-6, 0);
  set({{1}, {1}}, 4e-6, 0);  // a call takes 2 us, a tensor 1
  set({{1000}}, 5e-6, 8);
  set({{70000}}, 50e-6, 8);
  const std::vector<TensorType> list = types({{1000}, {70000}, {1000}});
  auto cost = CostOf({def, attrs, list, 0}, "sim", table);
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_NEAR(cost->seconds, 2e-6 + 3e-6 + 48e-6 + 3e-6, 1e-12);
  EXPECT_GE(cost->workspace_bytes, 24);
  EXPECT_TRUE(cost->supported);
  EXPECT_TRUE(TakesLists({def, attrs, list, 0}, "sim", table));
  const std::vector<TensorType> unknown = types({{1000}, {5}});
  EXPECT_THAT(std::string(CostOf({def, attrs, unknown, 0}, "sim", table).status().message()),
              HasSubstr("no measured cost for adamw@1(f32[5]"));
}

}  // namespace
}  // namespace oc

// Passes: graph in, graph out.
#include "openclaw/graph/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/graph/text/parser.h"
#include "openclaw/graph/text/printer.h"

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string After(const std::function<Status(Graph&)>& pass, const std::string& text) {
  auto graph = ParseGraph(text);
  if (!graph.ok()) return graph.status().ToString();
  Status status = pass(*graph);
  if (status.ok()) status = Verify(*graph);
  return status.ok() ? Print(*graph) : status.ToString();
}

TEST(RemoveDeadNodes, KeepsWhatReachesAnything) {
  EXPECT_EQ(After(RemoveDeadNodes, R"(graph g {
  data %x: f32[B, 4]
  data %unread: f32[B]
  parameter %w: f32[4, 4] = constant(1.0)
  state %s: f32[4] = constant(0.0)
  scalar %lr: f32[] per step
  scalar %idle: f32[] per step
  reduced %gone: f32[]
  %7 = relu(%x) : f32[B, 4]
  %8 = tanh(%7) : f32[B, 4]
  %9 = scale(%gone) {factor: 2.0} : f32[]
  %10 = linear(%7, %w) : f32[B, 4]
  %11 = reduce_mean(%10) {axes: (0)} : f32[4]
  %12 = copy(%11) : f32[4]
  sum metric lr = %lr
  sum state mean.s of %s = %11
  update %s = %12
}
)"),
            R"(graph g {
  data %x: f32[B, 4]
  data %unread: f32[B]
  parameter %w: f32[4, 4] = constant(1.0)
  state %s: f32[4] = constant(0.0)
  scalar %lr: f32[] per step
  %5 = relu(%x) : f32[B, 4]
  %6 = linear(%5, %w) : f32[B, 4] origin 3
  %7 = reduce_mean(%6) {axes: (0)} : f32[4] origin 4
  %8 = copy(%7) : f32[4] origin 5
  sum metric lr = %lr
  sum state mean.s of %s = %7
  update %s = %8
}
)");
}

TEST(RemoveDeadNodes, RemovesIdleInputsAlsoWhereEveryNodeLives) {
  EXPECT_THAT(After(RemoveDeadNodes, R"(graph g {
  data %x: f32[B, 4]
  scalar %idle: f32[]
  %2 = relu(%x) : f32[B, 4]
  output y = %2
}
)"),
              AllOf(Not(HasSubstr("idle")), HasSubstr("output y = %1")));
}

TEST(RemoveDeadNodes, ABackwardNodeWithoutItsForwardNodeGoesToTheNearest) {
  EXPECT_EQ(After(RemoveDeadNodes, R"(graph g {
  data %x: f32[B, 4]
  %1 = tanh(%x) : f32[B, 4]
  %2 = relu(%x) : f32[B, 4]
  %3 = exp(%x) : f32[B, 4]
  %4 = scale(%x) {factor: 2.0} : f32[B, 4] phase input_grad of %3
  %5 = scale(%x) {factor: 3.0} : f32[B, 4] phase input_grad of %1
  output y = %2
  output dy = %4
  output dz = %5
}
)"),
            R"(graph g {
  data %x: f32[B, 4]
  %1 = relu(%x) : f32[B, 4] origin 1
  %2 = scale(%x) {factor: 2.0} : f32[B, 4] phase input_grad of %1 origin 3
  %3 = scale(%x) {factor: 3.0} : f32[B, 4] phase input_grad of %1 origin 4
  output y = %1
  output dy = %2
  output dz = %3
}
)");
}

TEST(MergeCommonSubexpressions, MergesChainsButNothingThatDiffers) {
  EXPECT_EQ(After(MergeCommonSubexpressions, R"(graph g {
  data %x: f32[B, 4]
  scalar %rng: i64[4]
  state %s: f32[4] = constant(0.0)
  data %m: f32[4]
  %4 = relu(%x) : f32[B, 4] in a
  %5 = tanh(%4) : f32[B, 4] in a
  %6 = relu(%x) : f32[B, 4] in b
  %7 = tanh(%6) : f32[B, 4] in b
  %8 = scale(%x) {factor: 2.0} : f32[B, 4]
  %9 = scale(%x) {factor: 3.0} : f32[B, 4]
  %10 = relu(%x) : f32[B, 4] phase input_grad
  %10b = relu(%x) : f32[B, 4] phase input_grad of %5
  %11 = relu(%x) : f32[B, 4] checkpoint 0
  %12 = relu(%x) : f32[B, 4] checkpoint 1
  %13 = dropout(%x, %rng) {p: 0.5, stream: 1} : f32[B, 4]
  %14 = dropout(%x, %rng) {p: 0.5, stream: 1} : f32[B, 4]
  %15 = lerp(%s, %m) {rate: 0.1} : f32[4]
  %16 = lerp(%s, %m) {rate: 0.1} : f32[4]
  sum metric several = %5 + %7 + %8 + %9 + %10 + %10b + %11 + %12 + %13 + %14 + %15 + %16
}
)"),
            R"(graph g {
  data %x: f32[B, 4]
  scalar %rng: i64[4]
  state %s: f32[4] = constant(0.0)
  data %m: f32[4]
  %4 = relu(%x) : f32[B, 4] in a
  %5 = tanh(%4) : f32[B, 4] in a
  %6 = scale(%x) {factor: 2.0} : f32[B, 4] origin 4
  %7 = scale(%x) {factor: 3.0} : f32[B, 4] origin 5
  %8 = relu(%x) : f32[B, 4] phase input_grad origin 6
  %9 = relu(%x) : f32[B, 4] phase input_grad of %5 origin 7
  %10 = relu(%x) : f32[B, 4] origin 8 checkpoint 0
  %11 = relu(%x) : f32[B, 4] origin 9 checkpoint 1
  %12 = dropout(%x, %rng) {p: 0.5, stream: 1} : f32[B, 4] origin 10
  %13 = dropout(%x, %rng) {p: 0.5, stream: 1} : f32[B, 4] origin 11
  %14 = lerp(%s, %m) {rate: 0.1} : f32[4] origin 12
  %15 = lerp(%s, %m) {rate: 0.1} : f32[4] origin 13
  sum metric several = %5 + %5 + %6 + %7 + %8 + %9 + %10 + %11 + %12 + %13 + %14 + %15
}
)");
}

TEST(RemoveIdentities, SkipsDropoutThatIsOffAndViewsOfTheSameShape) {
  EXPECT_EQ(After(RemoveIdentities, R"(graph g {
  data %x: f32[B, 4]
  scalar %rng: i64[4]
  %2 = dropout(%x, %rng) {p: 0.5, stream: 1, training: false} : f32[B, 4]
  %3 = reshape(%2) {shape: [B, 4]} : f32[B, 4]
  %4 = dropout(%3, %rng) {p: 0.0, stream: 2} : f32[B, 4]
  %5 = reshape(%4) {shape: [B, 2, 2]} : f32[B, 2, 2]
  output same = %4
  output y = %5
}
)"),
            R"(graph g {
  data %x: f32[B, 4]
  %1 = reshape(%x) {shape: [B, 2, 2]} : f32[B, 2, 2] origin 3
  output same = %x
  output y = %1
}
)");
}

constexpr char kMarked[] = R"(graph g {
  data %x: f32[B, 4]
  data %labels: i32[B]
  parameter %w1: f32[4, 4] = constant(0.0)
  parameter %w2: f32[4, 4] = constant(0.0)
  scalar %rng: i64[4]
  %5 = linear(%x, %w1) : f32[B, 4]
  %6 = dropout(%5, %rng) {p: 0.5, stream: 9} : f32[B, 4] checkpoint 0
  %7 = tanh(%6) : f32[B, 4] checkpoint 0
  %8 = linear(%7, %w2) : f32[B, 4] checkpoint 0
  %9, %10 = cross_entropy(%8, %labels) : f32[], f32[B]
  %11 = count_valid(%labels) : f32[]
  loss %9 / %11
}
)";

TEST(RecomputeMarked, RunsTheRegionAgainWhereItsBackwardNeedsIt) {
  const auto pass = [](Graph& graph) -> Status {
    OC_ASSIGN_OR_RETURN(graph, Differentiate(graph));
    return RecomputeMarked(graph);
  };
  EXPECT_EQ(After(pass, kMarked), R"(graph g {
  data %x: f32[B, 4]
  data %labels: i32[B]
  parameter %w1: f32[4, 4] = constant(0.0)
  parameter %w2: f32[4, 4] = constant(0.0)
  scalar %rng: i64[4]
  reduced %global_count: f32[]
  %6 = linear(%x, %w1) : f32[B, 4]
  %7 = dropout(%6, %rng) {p: 0.5, stream: 9} : f32[B, 4] checkpoint 0
  %8 = tanh(%7) : f32[B, 4] checkpoint 0
  %9 = linear(%8, %w2) : f32[B, 4] checkpoint 0
  %10, %11 = cross_entropy(%9, %labels) : f32[], f32[B]
  %12 = count_valid(%labels) : f32[]
  %13 = count_valid(%labels) : f32[] phase count of %12 origin 5
  %14 = reciprocal(%global_count) : f32[] phase input_grad of %10 origin 4
  %15 = cross_entropy_grad(%14, %9, %labels, %11) {ignore_index: -1} : f32[B, 4] phase input_grad of %10 origin 4
  %16 = linear_grad_input(%15, %w2) : f32[B, 4] phase input_grad of %9 origin 3
  %17 = dropout(%6, %rng) {p: 0.5, stream: 9} : f32[B, 4] phase recompute of %7 origin 1
  %18 = tanh(%17) : f32[B, 4] phase recompute of %8 origin 2
  %19 = linear_grad_weight(%15, %18) : f32[4, 4] phase weight_grad of %9 origin 3
  %20 = tanh_grad(%16, %18) : f32[B, 4] phase input_grad of %8 origin 2
  %21 = dropout(%20, %rng) {p: 0.5, stream: 9} : f32[B, 4] phase input_grad of %7 origin 1
  %22 = linear_grad_weight(%21, %x) : f32[4, 4] phase weight_grad of %6 origin 0
  sum count global_count = %13
  sum metric loss_count = %13
  sum metric loss_sum = %10
  sum gradient grad.w1 of %w1 = %22
  sum gradient grad.w2 of %w2 = %19
  loss %10 / %12
}
)");
}

int CountPhase(const Graph& graph, Phase phase) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [&](const Node& n) { return n.phase == phase; }));
}

// What a region's forward nodes give inside it is read by backward no more; dropout's copy
// has the stream of the first, so the masks agree; a second run finds nothing to do.
TEST(RecomputeMarked, FreesTheActivationsOfEveryRegion) {
  for (const auto& model :
       {models::Gpt2(
            {.layers = 2, .width = 12, .heads = 3, .context = 6, .vocabulary = 11, .dropout = 0.1}),
        models::ResNet({.input = {8, 8, 2}, .classes = 3, .stem = "small", .width = 2})}) {
    ASSERT_TRUE(model.ok()) << model.status();
    Graph graph = *Differentiate(*model);
    const int before = CountPhase(graph, Phase::kForward);
    ASSERT_TRUE(RecomputeMarked(graph).ok());
    ASSERT_TRUE(Verify(graph).ok()) << Verify(graph);
    EXPECT_EQ(CountPhase(graph, Phase::kForward), before);
    // By themselves: a region's nodes that only its own forward nodes read.
    std::vector<bool> inside(graph.nodes.size(), false);
    for (const Node& node : graph.nodes) inside[node.id] = node.checkpoint != kNone;
    for (const Node& node : graph.nodes) {
      if (node.phase != Phase::kForward) continue;
      for (int v : node.inputs) {
        const int producer = graph.value(v).producer;
        if (producer == kNone) continue;
        if (graph.node(producer).checkpoint != node.checkpoint) inside[producer] = false;
      }
    }
    EXPECT_GT(CountPhase(graph, Phase::kRecompute), 0);
    for (const Node& node : graph.nodes) {
      if (node.phase == Phase::kRecompute) {
        const Node& forward = graph.node(node.forward);
        EXPECT_EQ(node.def, forward.def);
        EXPECT_EQ(node.attrs, forward.attrs);
        EXPECT_EQ(node.origin, forward.origin);
        EXPECT_TRUE(node.def->updates.empty());
        continue;
      }
      if (node.phase != Phase::kInputGrad && node.phase != Phase::kWeightGrad) continue;
      for (int v : node.inputs) {
        const int producer = graph.value(v).producer;
        if (producer == kNone || graph.node(producer).phase != Phase::kForward) continue;
        EXPECT_FALSE(inside[producer]) << Print(graph, node);
      }
    }
    const std::string once = Print(graph);
    ASSERT_TRUE(RecomputeMarked(graph).ok());
    EXPECT_EQ(Print(graph), once);
  }
}

// Modules by name and by pattern; what leaves one is kept; readers of another stage keep what they
// were sent.
TEST(Recompute, TakesModulesByNameAndLeavesOtherStagesAlone) {
  const auto model =
      models::Gpt2({.layers = 3, .width = 12, .heads = 3, .context = 6, .vocabulary = 11});
  ASSERT_TRUE(model.ok()) << model.status();
  const Graph joint = *Differentiate(*model);
  const auto scopes = [&](const std::vector<std::string>& patterns) {
    std::set<std::string> found;
    const auto nodes = NodesOfModules(joint, patterns);
    EXPECT_TRUE(nodes.ok()) << nodes.status();
    for (const Node& node : joint.nodes) {
      if (nodes.ok() && (*nodes)[node.id]) found.insert(node.scope);
    }
    return found;
  };
  EXPECT_THAT(scopes({"transformer.h.1.mlp"}),
              ElementsAre("transformer.h.1.mlp", "transformer.h.1.mlp.c_fc"));
  const std::set<std::string> all = scopes({"transformer.h.*"});
  EXPECT_EQ(all, scopes({"transformer.h.0", "transformer.h.1", "transformer.h.2"}));
  EXPECT_TRUE(all.contains("transformer.h.2.attn.c_attn"));
  EXPECT_FALSE(all.contains("transformer.ln_f"));
  const auto unknown = NodesOfModules(joint, {"transformer.h.1.mpl"});
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(unknown.status().ToString(), HasSubstr("nearest: 'transformer.h.1.mlp'"));

  // A stage that ends inside a module: the other one reads what it was sent.
  int cut = kNone;
  for (const Node& node : joint.nodes) {
    if (node.scope == "transformer.h.1.mlp.c_fc" && node.phase == Phase::kForward)
      cut = node.origin;
  }
  const auto stage = [&](const Node& node) { return node.origin <= cut ? 0 : 1; };
  Graph graph = joint;
  ASSERT_TRUE(Recompute(graph, *NodesOfModules(joint, {"transformer.h.1"}), stage).ok());
  ASSERT_TRUE(Verify(graph).ok()) << Verify(graph);
  EXPECT_GT(CountPhase(graph, Phase::kRecompute), 0);
  for (const Node& node : graph.nodes) {
    for (int v : node.inputs) {
      const int producer = graph.value(v).producer;
      if (producer == kNone || graph.node(producer).phase != Phase::kRecompute) continue;
      EXPECT_EQ(stage(graph.node(producer)), stage(node)) << Print(graph, node);
    }
  }
}

TEST(RecomputeMarked, DoesNothingWithoutABackward) {
  EXPECT_EQ(After(RecomputeMarked, kMarked), kMarked);
}

TEST(Reorder, SaysWhereAKeptNodeNeedsADroppedOne) {
  Graph graph = *ParseGraph(kMarked);
  EXPECT_EQ(Reorder(graph, {0, 2}).code(), absl::StatusCode::kInternal);
}

TEST(RunPasses, NamesTimesDisablesAndVerifies) {
  Graph graph = *Differentiate(*ParseGraph(kMarked));
  std::vector<std::string> seen;
  PassOptions options;
  options.disabled = {"fuse_elementwise"};
  options.observer = [&](const std::string& name, double seconds, const Graph& g) {
    EXPECT_GE(seconds, 0);
    EXPECT_FALSE(g.nodes.empty());
    seen.push_back(name);
  };
  ASSERT_TRUE(RunPasses(graph, DefaultPasses(), options).ok());
  EXPECT_THAT(seen,
              ElementsAre("identities", "dead_code", "common_subexpressions", "fuse_sum_types"));

  options.disabled = {"no_such_pass"};
  EXPECT_THAT(RunPasses(graph, DefaultPasses(), options).ToString(),
              AllOf(HasSubstr("no_such_pass"), HasSubstr("dead_code")));

  const std::vector<Pass> failing = {
      {"fine", [](Graph&) { return OkStatus(); }},
      {"fails", [](Graph&) { return InvalidArgument("some reason"); }}};
  EXPECT_THAT(RunPasses(graph, failing, {}).ToString(), HasSubstr("pass fails: some reason"));
  const std::vector<Pass> breaking = {{"breaks", [](Graph& g) {
                                         g.nodes[0].inputs[0] = 12345;
                                         return OkStatus();
                                       }}};
  EXPECT_THAT(RunPasses(graph, breaking, {}).ToString(),
              AllOf(HasSubstr("after pass breaks"), HasSubstr("12345")));
}

// The passes in their order leave every model sound, and running them again changes nothing.
TEST(RunPasses, AreIdempotentOnTheModels) {
  for (const auto& model :
       {models::Mlp({.input = {5, 4, 1}, .hidden = {9, 7}, .classes = 3, .dropout = 0.1}),
        models::LeNet({.input = {12, 12, 1}, .classes = 3}),
        models::ResNet({.input = {8, 8, 2}, .classes = 3, .stem = "small", .width = 2}),
        models::Gpt2({.layers = 2, .width = 12, .heads = 3, .context = 6, .vocabulary = 11}),
        models::Llama(
            {.layers = 2, .width = 16, .heads = 4, .ffn = 10, .context = 6, .vocabulary = 11})}) {
    ASSERT_TRUE(model.ok()) << model.status();
    Graph graph = *Differentiate(*model);
    ASSERT_TRUE(RunPasses(graph, DefaultPasses(), {}).ok());
    const std::string once = Print(graph);
    ASSERT_TRUE(RunPasses(graph, DefaultPasses(), {}).ok());
    EXPECT_EQ(Print(graph), once);
  }
}

}  // namespace
}  // namespace oc

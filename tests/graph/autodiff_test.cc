// Differentiation: structure of the joint graph. Its numbers are checked where devices are.
#include "openclaw/graph/autodiff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "openclaw/graph/models/models.h"
#include "openclaw/graph/passes.h"
#include "openclaw/graph/text/parser.h"
#include "openclaw/graph/text/printer.h"

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Accumulator* FindSum(const Graph& graph, const std::string& name) {
  for (const Accumulator& a : graph.accumulators) {
    if (a.name == name) return &a;
  }
  return nullptr;
}

int CountPhase(const Graph& graph, Phase phase) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [&](const Node& n) { return n.phase == phase; }));
}

std::string Joint(const std::string& forward) {
  const auto graph = ParseGraph(forward);
  if (!graph.ok()) return graph.status().ToString();
  const auto joint = Differentiate(*graph);
  return joint.ok() ? Print(*joint) : joint.status().ToString();
}

TEST(Differentiate, ATwoLayerNetwork) {
  EXPECT_EQ(Joint(R"(graph mlp {
  data %x: f32[B, 6]
  data %labels: i32[B]
  parameter %w1: f32[5, 6] = constant(0.0)
  parameter %b1: f32[5] = constant(0.0) no_decay
  parameter %w2: f32[3, 5] = constant(0.0)
  %5 = linear(%x, %w1, %b1) : f32[B, 5] in fc1
  %6 = relu(%5) : f32[B, 5] in fc1
  %7 = linear(%6, %w2) : f32[B, 3] in fc2
  %8, %9 = cross_entropy(%7, %labels) : f32[], f32[B]
  %10 = count_valid(%labels) : f32[]
  loss %8 / %10
}
)"),
            R"(graph mlp {
  data %x: f32[B, 6]
  data %labels: i32[B]
  parameter %w1: f32[5, 6] = constant(0.0)
  parameter %b1: f32[5] = constant(0.0) no_decay
  parameter %w2: f32[3, 5] = constant(0.0)
  %5 = linear(%x, %w1, %b1) : f32[B, 5] in fc1
  %6 = relu(%5) : f32[B, 5] in fc1
  %7 = linear(%6, %w2) : f32[B, 3] in fc2
  %8, %9 = cross_entropy(%7, %labels) : f32[], f32[B]
  %10 = count_valid(%labels) : f32[]
  %11 = count_valid(%labels) : f32[] phase count of %10 origin 4
  reduced %global_count: f32[]
  %13 = reciprocal(%global_count) : f32[] phase input_grad of %8 origin 3
  %14 = cross_entropy_grad(%13, %7, %labels, %9) {ignore_index: -1} : f32[B, 3] phase input_grad of %8 origin 3
  %15 = linear_grad_input(%14, %w2) : f32[B, 5] in fc2 phase input_grad of %7 origin 2
  %16 = linear_grad_weight(%14, %6) : f32[3, 5] in fc2 phase weight_grad of %7 origin 2
  %17 = relu_grad(%15, %6) : f32[B, 5] in fc1 phase input_grad of %6 origin 1
  %18 = linear_grad_weight(%17, %x) : f32[5, 6] in fc1 phase weight_grad of %5 origin 0
  %19 = reduce_sum(%17) {axes: (0), keep_dims: false} : f32[5] in fc1 phase weight_grad of %5 origin 0
  sum count global_count = %11
  sum metric loss_count = %11
  sum metric loss_sum = %8
  sum gradient grad.w1 of %w1 = %18
  sum gradient grad.b1 of %b1 = %19
  sum gradient grad.w2 of %w2 = %16
  loss %8 / %10
}
)");
}

// With every node taken away that may be delayed, all gradients of activations are still there.
TEST(Differentiate, WeightGradientsMayBeDelayed) {
  const StatusOr<Graph> models[] = {
      models::Mlp({.input = {5, 4, 1}, .hidden = {9, 7}, .classes = 3, .dropout = 0.1}),
      models::LeNet({.input = {12, 12, 1}, .classes = 3}),
      models::ResNet({.input = {8, 8, 2}, .classes = 3, .stem = "small", .width = 2}),
      models::Gpt2({.layers = 2, .width = 12, .heads = 3, .context = 6, .vocabulary = 11}),
      models::Llama(
          {.layers = 2, .width = 16, .heads = 4, .ffn = 10, .context = 6, .vocabulary = 11})};
  for (const auto& model : models) {
    ASSERT_TRUE(model.ok()) << model.status();
    const Graph joint = *Differentiate(*model);
    EXPECT_GT(CountPhase(joint, Phase::kWeightGrad), 0);
    Graph rest = joint;
    std::vector<int> order;
    for (const Node& node : rest.nodes) {
      if (node.phase != Phase::kWeightGrad) order.push_back(node.id);
    }
    std::erase_if(rest.accumulators,
                  [](const Accumulator& a) { return a.kind == Accumulator::Kind::kGradient; });
    const Status status = Reorder(rest, order);
    ASSERT_TRUE(status.ok()) << status << Print(joint);
    EXPECT_TRUE(Verify(rest).ok());
    EXPECT_EQ(CountPhase(rest, Phase::kInputGrad), CountPhase(joint, Phase::kInputGrad));
  }
}

// Every linear layer but the first hands a gradient on, and has one of its weight that can wait.
TEST(Differentiate, EachLinearLayerIsSeparated) {
  const Graph joint =
      *Differentiate(*models::Mlp({.input = {5, 4, 1}, .hidden = {9, 7}, .classes = 3}));
  int input_grads = 0, weight_grads = 0;
  for (const Node& node : joint.nodes) {
    if (node.def->name == "linear_grad_input") {
      ++input_grads;
      EXPECT_EQ(node.phase, Phase::kInputGrad);
    }
    if (node.def->name == "linear_grad_weight") {
      ++weight_grads;
      EXPECT_EQ(node.phase, Phase::kWeightGrad);
    }
    if (node.phase == Phase::kInputGrad || node.phase == Phase::kWeightGrad) {
      ASSERT_NE(node.forward, kNone);
      EXPECT_EQ(joint.node(node.forward).phase, Phase::kForward);
      EXPECT_EQ(node.scope, joint.node(node.forward).scope);
      EXPECT_EQ(node.origin, joint.node(node.forward).origin);
    }
  }
  EXPECT_EQ(input_grads, 2);
  EXPECT_EQ(weight_grads, 3);
}

TEST(Differentiate, GradientsOfWhatFollowsFromWeightsAloneMayWaitToo) {
  const std::string joint = Joint(R"(graph g {
  data %x: f32[B, 6]
  data %labels: i32[B]
  parameter %w: f32[6, 3] = constant(0.0)
  parameter %v: f32[6, 6] = constant(0.0)
  %4 = linear(%x, %v) : f32[B, 6]
  %5 = transpose(%w) {permutation: (1, 0)} : f32[3, 6]
  %6 = scale(%5) {factor: 2.0, offset: 0.0} : f32[3, 6]
  %7 = linear(%4, %6) : f32[B, 3]
  %8, %9 = cross_entropy(%7, %labels) : f32[], f32[B]
  %10 = count_valid(%labels) : f32[]
  loss %8 / %10
}
)");
  const Graph g = *ParseGraph(joint);
  for (const Node& node : g.nodes) {
    if (node.phase == Phase::kForward || node.phase == Phase::kCount) continue;
    const std::string& name = node.def->name;
    const bool activation =
        name == "reciprocal" || name == "cross_entropy_grad" || name == "linear_grad_input";
    EXPECT_EQ(node.phase, activation ? Phase::kInputGrad : Phase::kWeightGrad) << Print(g, node);
  }
}

TEST(Differentiate, ATiedWeightHasOneContributionAUse) {
  const Graph joint = *Differentiate(
      *models::Gpt2({.layers = 1, .width = 12, .heads = 3, .context = 6, .vocabulary = 11}));
  const Accumulator* tied = FindSum(joint, "grad.transformer.wte.weight");
  ASSERT_NE(tied, nullptr);
  ASSERT_EQ(tied->contributions.size(), 2u);
  std::vector<std::string> ops;
  for (int id : tied->contributions) ops.push_back(joint.node(joint.value(id).producer).def->name);
  EXPECT_THAT(ops, ::testing::UnorderedElementsAre("linear_grad_weight", "embedding_grad"));
  EXPECT_EQ(FindSum(joint, "grad.transformer.ln_f.weight")->contributions.size(), 1u);
}

TEST(Differentiate, AValueUsedTwiceGetsTheSum) {
  GraphBuilder b("twice");
  const Val x = b.Data("x", {DType::kF32, {Dim("B"), 4}});
  const Val labels = b.Data("labels", {DType::kI32, {Dim("B")}});
  const Val w = b.Parameter("w", {DType::kF32, {4, 4}}, Initializer::Constant(1));
  const Val h = b.Linear(x, w);
  const Val y = b.Add(b.Relu(h), b.Op("tanh", {h}));
  b.Loss(b.Op("cross_entropy", {y, labels}), b.Op("count_valid", {labels}));
  const Graph joint = *Differentiate(*b.Finish());
  const Accumulator* grad = FindSum(joint, "grad.w");
  ASSERT_EQ(grad->contributions.size(), 1u);
  const Node& weight_grad = joint.node(joint.value(grad->contributions[0]).producer);
  const Node& sum = joint.node(joint.value(weight_grad.inputs[0]).producer);
  EXPECT_EQ(sum.def->name, "add");
  EXPECT_EQ(sum.phase, Phase::kInputGrad);
  std::vector<std::string> ops;
  for (int id : sum.inputs) ops.push_back(joint.node(joint.value(id).producer).def->name);
  EXPECT_THAT(ops, ::testing::UnorderedElementsAre("relu_grad", "tanh_grad"));
}

TEST(Differentiate, AValueUsedTwiceByOneNode) {
  GraphBuilder b("square");
  const Val labels = b.Data("labels", {DType::kI32, {Dim("B")}});
  const Val w = b.Parameter("w", {DType::kF32, {4}}, Initializer::Constant(1));
  b.Loss(b.ReduceSum(b.Mul(w, w), {0}), b.Op("count_valid", {labels}));
  const Graph joint = *Differentiate(*b.Finish());
  EXPECT_EQ(FindSum(joint, "grad.w")->contributions.size(), 2u);
}

// What passes through a sum unchanged lies on a later stage: the parameter's share is a node of its
// own.
TEST(Differentiate, AContributionIsComputedByItsOwnNode) {
  GraphBuilder b("sum");
  const Val x = b.Data("x", {DType::kF32, {4, 4}});
  const Val labels = b.Data("labels", {DType::kI32, {4}});
  const Val w = b.Parameter("w", {DType::kF32, {4, 4}}, Initializer::Constant(1));
  const Val p = b.Parameter("p", {DType::kF32, {4, 4}}, Initializer::Constant(1));
  const Val y = b.Add(b.Linear(x, w), p);
  b.Loss(b.Op("cross_entropy", {y, labels}), b.Op("count_valid", {labels}));
  const Graph joint = *Differentiate(*b.Finish());
  const Accumulator* grad = FindSum(joint, "grad.p");
  ASSERT_EQ(grad->contributions.size(), 1u);
  const Node& node = joint.node(joint.value(grad->contributions[0]).producer);
  EXPECT_EQ(node.def->name, "copy");
  EXPECT_EQ(node.phase, Phase::kWeightGrad);
  EXPECT_EQ(joint.node(node.forward).def->name, "add");
}

TEST(Differentiate, TheCountIsKnownBeforeTheBackward) {
  const Graph joint = *Differentiate(
      *models::Gpt2({.layers = 1, .width = 4, .heads = 2, .context = 3, .vocabulary = 5}));
  const auto count =
      std::find_if(joint.accumulators.begin(), joint.accumulators.end(),
                   [](const Accumulator& a) { return a.kind == Accumulator::Kind::kCount; });
  ASSERT_NE(count, joint.accumulators.end());
  ASSERT_EQ(count->contributions.size(), 1u);
  const Node& node = joint.node(joint.value(count->contributions[0]).producer);
  EXPECT_EQ(node.phase, Phase::kCount);
  for (const Node& n : joint.nodes) {
    if (n.phase != Phase::kCount) continue;
    for (int v : n.inputs) {
      const int producer = joint.value(v).producer;
      EXPECT_TRUE(producer == kNone || joint.node(producer).phase == Phase::kCount);
    }
  }
  // Its sum comes back as an input of that name.
  const int reduced = joint.FindValue(count->name);
  ASSERT_NE(reduced, kNone);
  EXPECT_EQ(joint.value(reduced).kind, ValueKind::kReduced);
}

TEST(Differentiate, StatisticsAndMetricsStay) {
  const Graph joint = *Differentiate(
      *models::ResNet({.input = {8, 8, 2}, .classes = 3, .stem = "small", .width = 2}));
  EXPECT_NE(FindSum(joint, "correct"), nullptr);
  EXPECT_NE(FindSum(joint, "loss_sum"), nullptr);
  EXPECT_EQ(std::count_if(joint.accumulators.begin(), joint.accumulators.end(),
                          [](const Accumulator& a) { return a.kind == Accumulator::Kind::kState; }),
            static_cast<std::ptrdiff_t>(joint.states.size()));
}

// A forward graph in the text form, with its loss missing or odd.
std::string Error(const std::string& lines) {
  return Joint(absl::StrCat(R"(graph g {
  data %x: f32[B, 6]
  data %labels: i32[B]
  parameter %w: f32[3, 6] = constant(0.0)
  %4 = linear(%x, %w) : f32[B, 3] in head
)",
                            lines, "}\n"));
}

TEST(Differentiate, Errors) {
  EXPECT_THAT(Error(""), HasSubstr("differentiate g: the graph has no loss"));
  EXPECT_THAT(Error(R"(
  %5, %6 = cross_entropy(%x, %labels) : f32[], f32[B]
  %7 = count_valid(%labels) : f32[]
  loss %5 / %7
)"),
              HasSubstr("the loss depends on no parameter"));
  EXPECT_THAT(Error(R"(
  %5 = reduce_max(%4) {axes: (0, 1), keep_dims: false} : f32[] in head.top
  %7 = count_valid(%labels) : f32[]
  loss %5 / %7
)"),
              HasSubstr("op reduce_max in head.top has no gradient"));
  EXPECT_THAT(Error(R"(
  %5, %6 = cross_entropy(%4, %labels) : f32[], f32[B]
  %7 = reduce_sum(%4) {axes: (0, 1), keep_dims: false} : f32[]
  loss %5 / %7
)"),
              HasSubstr("the loss count depends on parameter %w"));
  EXPECT_THAT(Error(R"(
  %5, %6 = cross_entropy(%4, %labels) : f32[], f32[B]
  loss %5 / %n
)"),
              HasSubstr("value %n is not known"));
}

TEST(Differentiate, IntegersGetNoGradient) {
  const std::string joint = Joint(R"(graph g {
  data %ids: i32[B, T]
  data %labels: i32[B, T]
  parameter %table: f32[7, 4] = constant(0.0)
  %3 = embedding(%ids, %table) : f32[B, T, 4]
  %4, %5 = cross_entropy(%3, %labels) : f32[], f32[B, T]
  %6 = count_valid(%labels) : f32[]
  loss %4 / %6
}
)");
  EXPECT_THAT(joint, HasSubstr("sum gradient grad.table of %table = %"));
  const Graph g = *ParseGraph(joint);
  EXPECT_EQ(FindSum(g, "grad.table")->contributions.size(), 1u);
}

TEST(Differentiate, AParameterThatTheLossDoesNotSeeIsAWarning) {
  ::testing::internal::CaptureStderr();
  const std::string joint = Error(R"(
  parameter %idle: f32[3] = constant(0.0)
  %6, %7 = cross_entropy(%4, %labels) : f32[], f32[B]
  %8 = count_valid(%labels) : f32[]
  loss %6 / %8
)");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("parameter idle"));
  EXPECT_THAT(joint, AllOf(HasSubstr("grad.w of %w"), Not(HasSubstr("grad.idle")),
                           HasSubstr("parameter %idle")));
}

TEST(ForInference, TurnsTrainingOffAndKeepsWhatIsReported) {
  GraphBuilder b("g");
  const Val x = b.Data("x", {DType::kF32, {Dim("B"), 4}});
  const Val labels = b.Data("labels", {DType::kI32, {Dim("B")}});
  const Val w = b.Parameter("w", {DType::kF32, {4, 4}}, Initializer::Constant(1));
  // The attribute is left out: its default is to train.
  const Val h =
      b.Op("dropout", {b.Linear(x, w), b.Rng()}, {{"p", 0.5}, {"stream", b.NextStream()}});
  const Val mean = b.State("mean", {DType::kF32, {4}}, Initializer::Constant(0));
  b.MeanIntoState(mean, b.Op("reduce_mean", {h}, {{"axes", std::vector<int64_t>{0}}}), 0.1);
  b.Metric("correct", b.Op("count_correct", {h, labels}));
  b.Output("logits", h);
  b.Loss(b.Op("cross_entropy", {h, labels}), b.Op("count_valid", {labels}));
  auto inference = ForInference(*b.Finish());
  ASSERT_TRUE(inference.ok()) << inference.status();
  EXPECT_FALSE(inference->node(1).attrs.Bool("training", true));
  EXPECT_EQ(FindSum(*inference, "mean.mean"), nullptr);
  EXPECT_NE(FindSum(*inference, "correct"), nullptr);
  EXPECT_NE(FindSum(*inference, "loss_sum"), nullptr);
  EXPECT_NE(FindSum(*inference, "loss_count"), nullptr);
  ASSERT_TRUE(RunPasses(*inference, DefaultPasses(), {}).ok());
  EXPECT_THAT(Print(*inference), AllOf(Not(HasSubstr("dropout")), Not(HasSubstr("rng"))));
}

}  // namespace
}  // namespace oc

// Shape rules: what they give, also with dimensions that have no size yet, and what they refuse.
// Values are the business of tests/conformance/ops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/passes.h"

namespace oc {
namespace {

using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;

// "f32[B, 3] f32[3]" -> types.
std::vector<TensorType> Types(const std::vector<std::string>& texts) {
  std::vector<TensorType> types;
  for (const std::string& text : texts) types.push_back(*TensorType::Parse(text));
  return types;
}

// The first output's type as text, or the error.
std::string Infer(const std::string& op, const std::vector<std::string>& inputs,
                  Attributes attrs = {}) {
  GraphBuilder b("test");
  std::vector<Val> vals;
  for (const TensorType& type : Types(inputs)) {
    vals.push_back(b.Data(absl::StrCat("input", vals.size()), type));
  }
  const Val y = b.Op(op, vals, std::move(attrs));
  return b.status().ok() ? b.type(y).ToString() : std::string(b.status().message());
}

TEST(ShapeRules, KeepNamedDimensions) {
  EXPECT_EQ(Infer("add", {"f32[B, T, 4]", "f32[T, 4]"}), "f32[B, T, 4]");
  EXPECT_EQ(Infer("less", {"i32[B]", "i32[]"}), "bool[B]");
  EXPECT_EQ(Infer("cast", {"f32[B]"}, {{"dtype", DType::kBF16}}), "bf16[B]");
  EXPECT_EQ(Infer("matmul", {"f32[B, T, 4]", "f32[4, 5]"}), "f32[B, T, 5]");
  EXPECT_EQ(Infer("matmul", {"f32[B, 3, T]", "f32[B, 4, T]"}, {{"transpose_b", true}}),
            "f32[B, 3, 4]");
  EXPECT_EQ(Infer("linear", {"bf16[B, T, 4]", "bf16[5, 4]", "bf16[5]"}), "bf16[B, T, 5]");
  EXPECT_EQ(Infer("linear_grad_weight", {"f32[B, T, 5]", "f32[B, T, 4]"}), "f32[5, 4]");
  EXPECT_EQ(Infer("softmax", {"f32[B, T]"}), "f32[B, T]");
  EXPECT_EQ(Infer("transpose", {"f32[B, T, 4]"}, {{"permutation", Ints{2, 0, 1}}}), "f32[4, B, T]");
  EXPECT_EQ(Infer("reshape", {"f32[B, T, 4]"}, {{"shape", *Shape::Parse("[B*T, 4]")}}),
            "f32[B*T, 4]");
  EXPECT_EQ(Infer("broadcast_to", {"f32[1, 4]"}, {{"shape", *Shape::Parse("[B, 3, 4]")}}),
            "f32[B, 3, 4]");
  EXPECT_EQ(Infer("slice", {"f32[B, 7]"},
                  {{"axis", int64_t{-1}}, {"begin", int64_t{2}}, {"end", int64_t{6}}}),
            "f32[B, 4]");
  EXPECT_EQ(Infer("concat", {"f32[B, 7]", "f32[B, 2]"}, {{"axis", int64_t{1}}}), "f32[B, 9]");
  EXPECT_EQ(Infer("reduce_sum", {"f32[B, T, 4]"}, {{"axes", Ints{0, -1}}}), "f32[T]");
  EXPECT_EQ(Infer("reduce_max", {"f32[B, T]"}, {{"axes", Ints{1}}, {"keep_dims", true}}),
            "f32[B, 1]");
  EXPECT_EQ(Infer("reduce_mean", {"f32[B, T]"}), "f32[]");
  EXPECT_EQ(Infer("sum_squares", {"f32[256, 257]", "bf16[3]"}), "f32[2]");
  EXPECT_EQ(Infer("sum_partials", {"f32[2]", "f32[1]"}), "f32[]");
}

TEST(ShapeRules, SayWhatDoesNotFit) {
  const auto at = [](int64_t axis, int64_t begin, int64_t end) {
    return Attributes{{"axis", axis}, {"begin", begin}, {"end", end}};
  };
  EXPECT_THAT(Infer("add", {"f32[3, 4]", "f32[3]"}), HasSubstr("last dimensions of a, f32[3, 4]"));
  EXPECT_THAT(Infer("add", {"f32[B]", "f32[T]"}), HasSubstr("b is f32[T]"));
  EXPECT_THAT(Infer("add", {"f32[3]", "f16[3]"}), HasSubstr("op add: b is f16[3]"));
  EXPECT_THAT(Infer("add", {"bool[3]", "bool[3]"}), HasSubstr("wants numbers"));
  EXPECT_THAT(Infer("div", {"i32[3]", "i32[3]"}), HasSubstr("wants a float dtype"));
  EXPECT_THAT(Infer("relu", {"i32[3]"}), HasSubstr("x is i32[3], wants a float dtype"));
  EXPECT_THAT(Infer("where", {"f32[3]", "f32[3]", "f32[3]"}), HasSubstr("bool[3]"));
  EXPECT_THAT(Infer("gelu", {"f32[3]"}, {{"approximate", std::string("erf")}}),
              HasSubstr("wants \"none\" or \"tanh\""));
  EXPECT_THAT(Infer("matmul", {"f32[3, 4]", "f32[5, 4]"}), HasSubstr("inner dimensions differ"));
  EXPECT_THAT(Infer("matmul", {"f32[2, 3, 4]", "f32[3, 4, 4]"}),
              HasSubstr("leading dimensions differ"));
  EXPECT_THAT(Infer("matmul", {"f32[4]", "f32[4, 4]"}), HasSubstr("at least 2 dimensions"));
  EXPECT_THAT(Infer("linear", {"f32[3, 4]", "f32[5, 3]"}), HasSubstr("w's dimension 1"));
  EXPECT_THAT(Infer("linear", {"f32[3, 4]", "f32[5, 4]", "f32[4]"}),
              HasSubstr("f32[4] and f32[5]"));
  EXPECT_THAT(Infer("linear", {"f32[3, 4]", "f32[5, 4]"}, {{"activation", std::string("gelu")}}),
              HasSubstr("wants \"none\" or \"relu\""));
  EXPECT_THAT(Infer("softmax", {"f32[]"}), HasSubstr("last axis"));
  EXPECT_THAT(Infer("transpose", {"f32[3, 4]"}, {{"permutation", Ints{0, 0}}}),
              HasSubstr("each dimension once"));
  EXPECT_THAT(Infer("reshape", {"f32[3, 4]"}, {{"shape", Shape{5}}}), HasSubstr("12 elements"));
  EXPECT_THAT(Infer("broadcast_to", {"f32[3]"}, {{"shape", Shape{4}}}), HasSubstr("[4]"));
  EXPECT_THAT(Infer("slice", {"f32[7]"}, at(0, 3, 8)), HasSubstr("no part 3 to 8"));
  EXPECT_THAT(Infer("slice", {"f32[B]"}, at(0, 0, 1)), HasSubstr("bind it first"));
  EXPECT_THAT(Infer("slice", {"f32[7]"}, at(1, 0, 1)), HasSubstr("axis 1 of 1 dimensions"));
  EXPECT_THAT(Infer("slice", {"f32[7]"}), HasSubstr("attribute axis is missing"));
  EXPECT_THAT(Infer("pad", {"f32[7]"}, {{"axis", int64_t{0}}, {"before", int64_t{-1}}}),
              HasSubstr("no negative number"));
  EXPECT_THAT(Infer("concat", {"f32[2, 3]", "f32[3, 3]"}, {{"axis", int64_t{1}}}),
              HasSubstr("differ"));
  EXPECT_THAT(Infer("reduce_sum", {"f32[3]"}, {{"axes", Ints{0, -1}}}), HasSubstr("named twice"));
  EXPECT_THAT(Infer("dropout", {"f32[3]", "i64[4]"}, {{"p", 1.0}, {"stream", int64_t{0}}}),
              HasSubstr("0 <= p < 1"));
  EXPECT_THAT(Infer("sgd", {"f32[3]", "f32[3]", "f32[]", "f32[]"}, {{"momentum", 0.9}}),
              HasSubstr("sgd takes 3 of each tensor and 2 that all share"));
  EXPECT_THAT(Infer("clip_factor", {"f32[]"}, {{"max_norm", 0.0}}), HasSubstr("positive"));
  EXPECT_THAT(Infer("reluu", {"f32[3]"}), HasSubstr("did you mean 'relu'"));
  EXPECT_THAT(Infer("relu", {"f32[3]"}, {{"slope", 0.1}}), HasSubstr("unknown attribute slope"));
}

// x -> linear -> relu -> linear -> sum, and its joint graph.
struct Mlp {
  explicit Mlp(const char* op, bool second_use = false) : b("mlp") {
    const Val x = b.Data("x", {DType::kF32, {Dim("B"), 4}});
    Val h;
    if (std::string(op) == "linear") {
      h = b.Linear(x, b.Parameter("w1", {DType::kF32, {5, 4}}, {}),
                   b.Parameter("b1", {DType::kF32, {5}}, {}));
    } else {
      const Val w = b.Parameter("w1", {DType::kF32, {5, 4}}, {});
      const auto channel = [&](const char* name) {
        return b.Parameter(name, {DType::kF32, {5}}, Initializer::Constant(1));
      };
      h = b.Op("batch_norm", {b.Linear(x, w), channel("gamma"), channel("beta"),
                              b.State("mean", {DType::kF32, {5}}, {}),
                              b.State("var", {DType::kF32, {5}}, Initializer::Constant(1))});
    }
    Val y = b.Relu(h);
    if (second_use) y = b.Add(y, h);
    const Val out = b.Linear(y, b.Parameter("w2", {DType::kF32, {3, 5}}, {}));
    b.Loss(b.ReduceSum(out, {}), b.ReduceSum(b.Scale(x, 0.0, 1.0), {}));
  }
  Graph Joint() {
    auto forward = b.Finish();
    EXPECT_TRUE(forward.ok()) << forward.status();
    auto joint = Differentiate(*forward);
    EXPECT_TRUE(joint.ok()) << joint.status();
    return *std::move(joint);
  }
  GraphBuilder b;
};

int Count(const Graph& graph, const std::string& op) {
  int count = 0;
  for (const Node& node : graph.nodes) count += node.def->name == op ? 1 : 0;
  return count;
}

const Node* First(const Graph& graph, const std::string& op) {
  for (const Node& node : graph.nodes) {
    if (node.def->name == op) return &node;
  }
  return nullptr;
}

TEST(FuseElementwise, ReluJoinsLinear) {
  Graph graph = Mlp("linear").Joint();
  ASSERT_EQ(Count(graph, "relu"), 1);
  ASSERT_TRUE(FuseElementwise(graph).ok());
  ASSERT_TRUE(Verify(graph).ok()) << Verify(graph);
  EXPECT_EQ(Count(graph, "relu"), 0);
  const Node* linear = First(graph, "linear");
  EXPECT_EQ(linear->attrs.String("activation"), "relu");
  const Node* gate = First(graph, "relu_grad");
  ASSERT_NE(gate, nullptr);
  EXPECT_EQ(gate->inputs[1], linear->outputs[0]);
  EXPECT_EQ(gate->forward, linear->id);  // stages are cut by forward nodes
}

TEST(FuseElementwise, ReluJoinsBatchNormForwardAndBackward) {
  Graph graph = Mlp("batch_norm").Joint();
  ASSERT_TRUE(FuseElementwise(graph).ok());
  ASSERT_TRUE(Verify(graph).ok()) << Verify(graph);
  EXPECT_EQ(Count(graph, "relu"), 0);
  EXPECT_EQ(Count(graph, "relu_grad"), 0);
  EXPECT_EQ(First(graph, "batch_norm")->attrs.String("activation"), "relu");
  const Node* gradient = First(graph, "batch_norm_grad");
  EXPECT_EQ(gradient->attrs.String("activation"), "relu");
  EXPECT_EQ(graph.nodes[graph.value(gradient->inputs[0]).producer].def->name, "linear_grad_input");
}

TEST(FuseElementwise, LeavesWhatIsReadBeforeTheRelu) {
  for (const char* op : {"linear", "batch_norm"}) {
    Graph graph = Mlp(op, /*second_use=*/true).Joint();
    ASSERT_TRUE(FuseElementwise(graph).ok());
    EXPECT_EQ(Count(graph, "relu"), 1) << op;
  }
}

// What a random op drops depends on its stream, so a merged or fused graph must not change it.
TEST(Gradients, DropoutIsItsOwn) {
  GraphBuilder b("dropout");
  const Val x = b.Data("x", {DType::kF32, {Dim("B"), 4}});
  const Val h = b.Linear(x, b.Parameter("w", {DType::kF32, {5, 4}}, {}));
  const Val y = b.Op("dropout", {h, b.Rng()}, {{"p", 0.5}, {"stream", b.NextStream()}});
  b.Loss(b.ReduceSum(y, {}), b.ReduceSum(b.Scale(x, 0.0, 1.0), {}));
  auto forward = b.Finish();
  ASSERT_TRUE(forward.ok()) << forward.status();
  auto joint = Differentiate(*forward);
  ASSERT_TRUE(joint.ok()) << joint.status();
  std::vector<Attributes> attrs;
  for (const Node& node : joint->nodes) {
    if (node.def->name == "dropout") attrs.push_back(node.attrs);
  }
  ASSERT_EQ(attrs.size(), 2u);
  EXPECT_EQ(attrs[0], attrs[1]);
}

TEST(Gradients, MeanOverAnUnboundDimensionSaysSo) {
  GraphBuilder b("mean");
  const Val x = b.Data("x", {DType::kF32, {Dim("B"), 4}});
  const Val y = b.Mul(x, b.Parameter("w", {DType::kF32, {4}}, {}));
  b.Loss(b.Op("reduce_mean", {y}), b.ReduceSum(b.Scale(x, 0.0, 1.0), {}));
  auto forward = b.Finish();
  ASSERT_TRUE(forward.ok()) << forward.status();
  const Status status = Differentiate(*forward).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("gradient of reduce_mean"));
}

}  // namespace
}  // namespace oc

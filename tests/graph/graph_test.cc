// The graph's structure: builder, verification, binding; cost keys and initial values.
#include "openclaw/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "openclaw/core/rng.h"
#include "openclaw/graph/builder.h"
#include "openclaw/graph/cost_key.h"
#include "openclaw/graph/initialize.h"

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const TensorType kScalarType = {DType::kF32, {}};

// images -> linear -> relu -> linear -> cross entropy.
Graph Mlp() {
  GraphBuilder b("mlp");
  const Val x = b.Data("images", {DType::kF32, {Dim("B"), 6}});
  const Val labels = b.Data("labels", {DType::kI32, {Dim("B")}});
  b.PushScope("fc1");
  const Val w1 = b.Parameter("weight", {DType::kF32, {5, 6}}, Initializer::Normal(0, 0.02));
  const Val b1 = b.Parameter("bias", {DType::kF32, {5}}, Initializer::Constant(0), false);
  const Val h = b.Relu(b.Linear(x, w1, b1));
  b.PopScope();
  b.PushScope("fc2");
  const Val w2 = b.Parameter("weight", {DType::kF32, {3, 5}}, Initializer::Uniform(-1, 1));
  const Val logits = b.Linear(h, w2);
  b.PopScope();
  b.Output("logits", logits);
  b.Loss(b.Op("cross_entropy", {logits, labels}), b.Op("count_valid", {labels}));
  auto graph = b.Finish();
  OC_CHECK(graph.ok(), graph.status().ToString());
  return *std::move(graph);
}

TEST(GraphBuilder, NamesScopesAndVariables) {
  const Graph g = Mlp();
  ASSERT_EQ(g.parameters.size(), 3u);
  EXPECT_EQ(g.value(g.parameters[1].value).name, "fc1.bias");
  EXPECT_FALSE(g.parameters[1].decay);
  EXPECT_TRUE(g.parameters[2].decay);
  EXPECT_EQ(g.parameters[2].init, Initializer::Uniform(-1, 1));
  EXPECT_EQ(g.node(0).scope, "fc1");
  EXPECT_EQ(g.node(2).scope, "fc2");
  EXPECT_EQ(g.node(3).scope, "");
  EXPECT_EQ(g.node(2).origin, 2);
  EXPECT_EQ(g.value(g.loss_sum).type, kScalarType);
  EXPECT_EQ(g.FindValue("nothing"), kNone);
  EXPECT_THAT(g.UnboundDims(), ElementsAre("B"));
  // images are read by the first node alone, its result by the second.
  EXPECT_THAT(g.Users()[g.FindValue("images")], ElementsAre(0));
  EXPECT_THAT(g.Users()[g.node(0).outputs[0]], ElementsAre(1));
}

TEST(GraphBuilder, ATiedParameterIsOneValue) {
  GraphBuilder b("tied");
  const TensorType type = {DType::kF32, {4, 4}};
  const Val first = b.Parameter("w", type, Initializer::Constant(1));
  const Val second = b.Parameter("w", type, Initializer::Constant(1));
  EXPECT_EQ(first.id, second.id);
  EXPECT_EQ(b.graph().parameters.size(), 1u);
  b.Parameter("w", {DType::kF32, {4, 5}}, Initializer::Constant(1));
  EXPECT_THAT(b.Finish().status().ToString(), AllOf(HasSubstr("w"), HasSubstr("f32[4, 5]")));
}

TEST(GraphBuilder, TheFirstErrorStaysAndLaterCallsDoNothing) {
  GraphBuilder b("broken");
  const Val x = b.Data("x", {DType::kF32, {Dim("B"), 6}});
  b.PushScope("head");
  const Val bad = b.Op("liner", {x});
  EXPECT_FALSE(bad);
  // A model asks for dimensions and builds on without checking.
  const Dim width = b.shape(bad)[-1] * b.shape(bad)[1];
  const Val w = b.Parameter("w", {DType::kF32, {3, width}}, Initializer::Constant(0));
  const Val y = b.Relu(b.Linear(bad, w));
  b.Output("y", y);
  b.Metric("m", y);
  b.MeanIntoState(y, y, 0.1);
  const auto graph = b.Finish();
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(graph.status().ToString(), AllOf(HasSubstr("liner"), HasSubstr("linear")));
}

TEST(GraphBuilder, ErrorsNameOpAndScope) {
  const auto error = [](auto build) {
    GraphBuilder b("test");
    const Val x = b.Data("x", {DType::kF32, {4, 6}});
    const Val y = b.Data("y", {DType::kF32, {4, 5}});
    b.PushScope("block");
    build(b, x, y);
    return b.Finish().status().ToString();
  };
  EXPECT_THAT(error([](GraphBuilder& b, Val x, Val y) { b.Add(x, y); }),
              AllOf(HasSubstr("op add in block"), HasSubstr("f32[4, 5]")));
  EXPECT_THAT(error([](GraphBuilder& b, Val x, Val y) { b.Op("add", {x}); }),
              HasSubstr("1 inputs, takes 2 to 2"));
  EXPECT_THAT(error([](GraphBuilder& b, Val x, Val y) {
                b.Op("scale", {x}, {{"by", 2.0}});
              }),
              HasSubstr("unknown attribute by"));
  EXPECT_THAT(error([](GraphBuilder& b, Val x, Val y) {
                b.Op("scale", {x}, {{"factor", int64_t{2}}});
              }),
              HasSubstr("attribute factor has the wrong type"));
  EXPECT_THAT(error([](GraphBuilder& b, Val x, Val y) { b.Op("cast", {x}); }),
              HasSubstr("attribute dtype is missing"));
  EXPECT_THAT(error([](GraphBuilder& b, Val x, Val y) {
                b.Op("add", {Val{}, y});
              }),
              HasSubstr("input 0 is missing before input 1"));
  EXPECT_THAT(error([](GraphBuilder& b, Val x, Val y) {
                b.Data("12", {DType::kF32, {1}});
              }),
              HasSubstr("'12'"));
}

TEST(GraphBuilder, StreamsAndRegionsGoOnWhereAGraphEnds) {
  const auto drop = [](GraphBuilder& b, Val x) {
    return b.Op("dropout", {x, b.Rng()}, {{"p", 0.5}, {"stream", b.NextStream()}});
  };
  GraphBuilder first("test");
  const Val x = first.Data("x", {DType::kF32, {Dim("B"), 6}});
  first.BeginCheckpoint();
  const Val y = drop(first, x);
  first.EndCheckpoint();
  first.Output("y", y);
  GraphBuilder second(*first.Finish());
  second.BeginCheckpoint();
  second.Output("z", drop(second, y));
  const auto graph = second.Finish();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_NE(graph->node(0).attrs.Int("stream"), graph->node(1).attrs.Int("stream"));
  EXPECT_EQ(graph->node(0).checkpoint, 0);
  EXPECT_EQ(graph->node(1).checkpoint, 1);
}

TEST(Attributes, TextIsExact) {
  const Attributes attrs = {{"axis", int64_t{-1}},
                            {"eps", 1e-5},
                            {"factor", 2.0},
                            {"fine", 0.1 + 0.2},
                            {"infinite", HUGE_VAL},
                            {"mode", std::string("a\"b\n")},
                            {"on", true},
                            {"pads", std::vector<int64_t>{1, 2}},
                            {"shape", Shape{Dim("B"), 4}},
                            {"to", DType::kBF16}};
  EXPECT_EQ(attrs.ToString(),
            "{axis: -1, eps: 1e-05, factor: 2.0, fine: 0.30000000000000004, infinite: inf, "
            "mode: \"a\\\"b\\n\", on: true, pads: (1, 2), shape: [B, 4], to: bf16}");
  EXPECT_EQ(Attributes().ToString(), "");
  EXPECT_EQ(attrs.Bind({{"B", 3}}).GetShape("shape"), (Shape{3, 4}));
}

TEST(Graph, BindInfersAgain) {
  const Graph g = Mlp();
  const auto bound = g.Bind({{"B", 8}});
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_TRUE(bound->UnboundDims().empty());
  EXPECT_EQ(bound->value(bound->node(0).outputs[0]).type.ToString(), "f32[8, 5]");
  EXPECT_TRUE(Verify(*bound).ok());
  EXPECT_EQ(g.Bind({{"B", -1}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(g.Bind({{"other", 8}})->UnboundDims().size(), 1u);
  EXPECT_THAT(g.Bind({{"B", int64_t{1} << 60}}).status().ToString(), HasSubstr("too large"));
}

TEST(Graph, BindRefusesWhatCannotHold) {
  GraphBuilder b("sum");
  const Val x = b.Data("x", {DType::kF32, {Dim("B"), 6}});
  b.Output("y", b.Reshape(x, {Dim("B"), 2, 3}));
  b.Output("z", b.Slice(x, 1, 0, 4));
  const auto graph = b.Finish();
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->Bind({{"B", 4}})->value(graph->outputs[0].second).type.ToString(),
            "f32[4, 2, 3]");
}

// One change a case, and what the error must say.
void ExpectRejected(const std::string& what, const std::function<void(Graph&)>& damage) {
  Graph g = Mlp();
  damage(g);
  const Status status = Verify(g);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << what;
  EXPECT_THAT(std::string(status.message()), HasSubstr(what));
}

TEST(Verify, RejectsDamagedNodesAndValues) {
  EXPECT_TRUE(Verify(Mlp()).ok());
  ExpectRejected("cycle", [](Graph& g) { g.nodes[0].inputs[0] = g.nodes[1].outputs[0]; });
  ExpectRejected("cycle", [](Graph& g) { g.nodes[0].inputs[0] = g.nodes[0].outputs[0]; });
  ExpectRejected("node 0 is damaged", [](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); });
  ExpectRejected("reads value 99", [](Graph& g) { g.nodes[0].inputs[0] = 99; });
  ExpectRejected("reads value -1", [](Graph& g) { g.nodes[0].inputs[0] = kNone; });
  ExpectRejected("two values named %images", [](Graph& g) { g.values[1].name = "images"; });
  ExpectRejected("carries id", [](Graph& g) { g.values[1].id = 0; });
  ExpectRejected("its op gives f32[B, 5]", [](Graph& g) {
    g.values[g.nodes[0].outputs[0]].type.shape = {Dim("B"), 7};
  });
  ExpectRejected("no value of its own",
                 [](Graph& g) { g.nodes[1].outputs[0] = g.nodes[0].outputs[0]; });
  ExpectRejected("never computed", [](Graph& g) {
    g.values.push_back({.id = static_cast<int>(g.values.size()), .name = "orphan", .producer = 0});
  });
  ExpectRejected("has producer", [](Graph& g) { g.values[0].kind = ValueKind::kResult; });
  ExpectRejected("belongs to node 99", [](Graph& g) { g.nodes[1].forward = 99; });
  ExpectRejected("has 0 outputs", [](Graph& g) {
    g.values[g.nodes.back().outputs[0]].producer = kNone;
    g.values[g.nodes.back().outputs[0]].kind = ValueKind::kScalar;
    g.nodes.back().outputs.clear();
  });
  ExpectRejected("negative dimension", [](Graph& g) {
    g.values[0].type.shape = {Dim("B"), Dim(-6)};
  });
  ExpectRejected("too large", [](Graph& g) {
    g.values[0].type.shape = {Dim(int64_t{1} << 40), Dim(int64_t{1} << 40)};
  });
}

TEST(Verify, RejectsDamagedLists) {
  ExpectRejected("the loss names value 99", [](Graph& g) { g.loss_sum = 99; });
  ExpectRejected("the loss is f32[B, 5]", [](Graph& g) { g.loss_sum = g.nodes[0].outputs[0]; });
  ExpectRejected("output logits names value -7", [](Graph& g) { g.outputs[0].second = -7; });
  ExpectRejected("two outputs named logits", [](Graph& g) { g.outputs.push_back(g.outputs[0]); });
  ExpectRejected("is listed twice", [](Graph& g) { g.parameters.push_back(g.parameters[0]); });
  ExpectRejected("is listed as a state", [](Graph& g) { g.states.push_back({.value = 0}); });
  ExpectRejected("fc2.weight has no initial value", [](Graph& g) { g.parameters.pop_back(); });
  ExpectRejected("a parameter names value -1", [](Graph& g) { g.parameters[0].value = kNone; });
  ExpectRejected("the update of %fc1.weight has another type",
                 [](Graph& g) { g.parameters[0].updated = g.loss_sum; });
  ExpectRejected("sum m names value 99",
                 [](Graph& g) { g.accumulators.push_back({.name = "m", .contributions = {99}}); });
  ExpectRejected("two sums named m", [](Graph& g) {
    for (int i = 0; i < 2; ++i) g.accumulators.push_back({.name = "m"});
  });
  ExpectRejected("sum g names value -1", [](Graph& g) {
    g.accumulators.push_back({.kind = Accumulator::Kind::kGradient, .name = "g"});
  });
  ExpectRejected("is for %images, a data", [](Graph& g) {
    g.accumulators.push_back({.kind = Accumulator::Kind::kGradient, .name = "g", .target = 0});
  });
  ExpectRejected("for %fc1.weight f32[5, 6]", [](Graph& g) {
    g.accumulators.push_back({.kind = Accumulator::Kind::kGradient,
                              .name = "g",
                              .target = g.parameters[0].value,
                              .contributions = {g.loss_sum}});
  });
}

TEST(OpRegistry, UserOpsStandBesideTheBuiltinOnes) {
  std::shared_ptr<OpRegistry> ops = NewRegistryWithBuiltinOps();
  OpDef def;
  def.name = "swap";
  def.version = 3;
  def.min_inputs = def.max_inputs = 2;
  def.infer = [](const InferArgs& args) -> StatusOr<std::vector<TensorType>> {
    return std::vector<TensorType>{args.inputs[1], args.inputs[0]};
  };
  ASSERT_TRUE(ops->Add(def).ok());
  EXPECT_THAT(ops->Add(def).ToString(), HasSubstr("the name is taken"));
  GraphBuilder b("user", ops);
  const Val x = b.Data("x", {DType::kF32, {2}}), y = b.Data("y", {DType::kI32, {3}});
  const std::vector<Val> swapped = b.OpN("swap", {x, y});
  ASSERT_EQ(swapped.size(), 2u);
  EXPECT_EQ(b.type(swapped[0]).ToString(), "i32[3]");
  EXPECT_EQ(BuiltinOps()->Find("swap"), nullptr);
  EXPECT_THAT(BuiltinOps()->Unknown("sofmax").ToString(), HasSubstr("did you mean 'softmax'"));
}

TEST(CostKey, TellsApartWhatCostsDifferently) {
  const OpDef* linear = BuiltinOps()->Find("linear_grad_weight");
  const std::vector<TensorType> types = {{DType::kF32, {8, 10}}, {DType::kF32, {8, 4}}};
  EXPECT_EQ(CostKey(*linear, {}, types, 1, "cpu/avx2/1t"),
            "linear_grad_weight@1(f32[8, 10], f32[8, 4]; ; accumulate=1) on cpu/avx2/1t");
  EXPECT_EQ(CostKey(*linear, {}, types, 0, "cpu/avx2/1t"),
            "linear_grad_weight@1(f32[8, 10], f32[8, 4]; ; ) on cpu/avx2/1t");
  const OpDef* dropout = BuiltinOps()->Find("dropout");
  const std::vector<TensorType> inputs = {{DType::kF32, {8, 10}}, {DType::kI64, {4}}};
  const auto key = [&](int64_t stream, double p) {
    return CostKey(*dropout, {{"p", p}, {"stream", stream}}, inputs, 0, "cpu");
  };
  EXPECT_EQ(key(1, 0.5), key(2, 0.5));
  EXPECT_NE(key(1, 0.5), key(1, 0.1));
}

Tensor Filled(const Initializer& init, const std::string& name, uint64_t seed, DType dtype,
              int64_t size) {
  Tensor t({dtype, {size}});
  const Status status = Initialize(init, name, seed, t.type(), t.bytes());
  EXPECT_TRUE(status.ok()) << status;
  return t;
}

TEST(Initialize, EveryElementIsAFunctionOfSeedNameAndPosition) {
  const std::string name = "h.0.weight";
  const Philox rng(17);
  const uint64_t stream = StreamOf(name.data(), name.size());
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16}) {
    const Tensor normal = Filled(Initializer::Normal(0.5, 2), name, 17, dtype, 1003);
    const Tensor uniform = Filled(Initializer::Uniform(-1, 3), name, 17, dtype, 1003);
    Tensor expected({dtype, {2}});
    for (int64_t i = 0; i < 1003; ++i) {
      expected.set(0, 0.5 + 2 * Normal(rng, stream, i));
      expected.set(1, -1 + 4.0 * UniformFloat(rng.Word(stream, i)));
      ASSERT_EQ(normal.at(i), expected.at(0)) << Name(dtype) << i;
      ASSERT_EQ(uniform.at(i), expected.at(1)) << Name(dtype) << i;
    }
  }
  const Initializer init = Initializer::Normal(0, 1);
  EXPECT_NE(Filled(init, name, 17, DType::kF32, 4).at(0),
            Filled(init, name, 18, DType::kF32, 4).at(0));
  EXPECT_NE(Filled(init, name, 17, DType::kF32, 4).at(0),
            Filled(init, "h.1.weight", 17, DType::kF32, 4).at(0));
}

TEST(Initialize, AShardHasTheWholeTensorsValues) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const Tensor whole = Filled(Initializer::Normal(0, 1), "w", 1, dtype, 101);
    for (int64_t first : {0, 1, 3, 4, 50, 100}) {
      Tensor part({dtype, {101 - first}});
      ASSERT_TRUE(
          Initialize(Initializer::Normal(0, 1), "w", 1, whole.type(), part.bytes(), first).ok());
      for (int64_t i = 0; i < part.num_elements(); ++i) ASSERT_EQ(part.at(i), whole.at(first + i));
    }
  }
}

TEST(Initialize, ConstantsOfEveryDType) {
  for (int i = 1; i <= 8; ++i) {
    const Tensor t = Filled(Initializer::Constant(1), "w", 1, static_cast<DType>(i), 37);
    for (int64_t k = 0; k < 37; ++k) ASSERT_EQ(t.at(k), 1) << i;
  }
}

TEST(Initialize, RefusesWhatHasNoMeaning) {
  const Initializer normal = Initializer::Normal(0, 1);
  Tensor t({DType::kI32, {4}});
  EXPECT_THAT(Initialize(normal, "steps", 1, t.type(), t.bytes()).ToString(),
              AllOf(HasSubstr("steps"), HasSubstr("no float")));
  EXPECT_FALSE(Initialize(normal, "w", 1, {DType::kF32, {Dim("B")}}, t.bytes()).ok());
  EXPECT_FALSE(Initialize(normal, "w", 1, {DType::kF32, {3}}, t.bytes()).ok());
  EXPECT_FALSE(Initialize(normal, "w", 1, {DType::kF32, {4}}, t.bytes(), 1).ok());
  EXPECT_FALSE(Initialize(normal, "w", 1, {DType::kF32, {4}}, t.bytes().first(15)).ok());
  EXPECT_TRUE(Initialize(normal, "w", 1, {DType::kF32, {0}}, {}).ok());
}

}  // namespace
}  // namespace oc

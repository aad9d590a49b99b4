// The text form: golden, exact round trips, errors that say where, and damaged text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "openclaw/core/rng.h"
#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/graph/passes.h"
#include "openclaw/graph/text/parser.h"
#include "openclaw/graph/text/printer.h"

namespace oc {
namespace {

using ::testing::HasSubstr;

// Everything that a graph holds, once.
constexpr char kSample[] = R"(graph sample {
  data %images: f32[B, 6]
  data %labels: i32[B]
  parameter %fc.weight: f32[5, 6] = normal(0.0, 0.02)
  parameter %fc.bias: f32[5] = constant(0.0) no_decay
  state %mean: f32[5] = uniform(-1.0, 1.5)
  scalar %rng: i64[4]
  scalar %lr: f32[] per step
  reduced %global_count: f32[]
  %8 = linear(%images, %fc.weight, %fc.bias) {activation: "relu"} : f32[B, 5] in fc checkpoint 2
  %9 = dropout(%8, %rng) {p: 0.1, stream: 7} : f32[B, 5] in "a b" origin 5
  %loss, %lse = cross_entropy(%9, %labels) : f32[], f32[B]
  %12 = count_valid(%labels) : f32[]
  %13 = reduce_mean(%8) {axes: (0)} : f32[5]
  %14 = reciprocal(%global_count) : f32[] phase input_grad of %loss origin 2
  data %late: f32[]
  %"odd name\n" = cross_entropy_grad(%14, %9, %labels, %lse) : f32[B, 5] phase input_grad of %loss
  %17 = reduce_sum(%"odd name\n") {axes: (0)} : f32[5] phase weight_grad of %8
  sum metric loss_sum = %loss
  sum count global_count = %12
  sum gradient grad.fc.bias of %fc.bias = %17 + %17
  sum state mean.mean of %mean rate 0.1 = %13
  sum metric nothing = _
  loss %loss / %12
  output logits = %9
  output "the mean" = %13
  update %mean = %13
}
)";

std::string RoundTrip(const std::string& text) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status() << "\n" << text;
  return graph.ok() ? Print(*graph) : "";
}

TEST(Text, HoldsEverythingThatAGraphHolds) {
  EXPECT_EQ(RoundTrip(kSample), kSample);
  const Graph g = *ParseGraph(kSample);
  EXPECT_EQ(g.name, "sample");
  EXPECT_EQ(g.nodes.size(), 8u);
  EXPECT_EQ(g.node(0).checkpoint, 2);
  EXPECT_EQ(g.node(0).origin, 0);
  EXPECT_EQ(g.node(1).scope, "a b");
  EXPECT_EQ(g.node(1).origin, 5);
  EXPECT_EQ(g.node(5).forward, 2);
  EXPECT_EQ(g.node(5).phase, Phase::kInputGrad);
  EXPECT_EQ(g.value(g.FindValue("lr")).scope, Scope::kStep);
  EXPECT_EQ(g.value(g.FindValue("rng")).scope, Scope::kMicroBatch);
  EXPECT_EQ(g.states[0].init, Initializer::Uniform(-1, 1.5));
  EXPECT_EQ(g.states[0].updated, g.outputs[1].second);
  EXPECT_EQ(g.accumulators[2].contributions.size(), 2u);
  EXPECT_EQ(g.accumulators[3].rate, 0.1);
}

TEST(Text, PrintsOneNode) {
  const Graph g = *ParseGraph(kSample);
  EXPECT_EQ(Print(g, g.node(3)), "%12 = count_valid(%labels) : f32[]");
}

TEST(Text, ReadsWhatAPersonWrites) {
  const auto graph = ParseGraph(R"(
    # A comment, blank lines, loose spaces; results may have names.
    graph "by hand" {

      data %x :f32[ B,6 ]   # the input
      parameter %w: f32[2,6]=constant( 1 )
      %hidden=linear( %x , %w ){ activation :"none"}:f32[B,2]
      output y=%hidden

    }
    # The end.)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(Print(*graph), R"(graph "by hand" {
  data %x: f32[B, 6]
  parameter %w: f32[2, 6] = constant(1.0)
  %hidden = linear(%x, %w) {activation: "none"} : f32[B, 2]
  output y = %hidden
}
)");
}

// Numbers in a text name results there; the graph numbers them by their place.
TEST(Text, NumbersAreNotKept) {
  const auto graph = ParseGraph(R"(graph g {
  data %x: f32[B, 6]
  %70 = relu(%x) : f32[B, 6]
  %1 = tanh(%70) : f32[B, 6]
  output y = %1
})");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(Print(*graph), R"(graph g {
  data %x: f32[B, 6]
  %1 = relu(%x) : f32[B, 6]
  %2 = tanh(%1) : f32[B, 6]
  output y = %2
}
)");
}

TEST(Text, KeepsTheOrderOfVariables) {
  Graph g = *ParseGraph(kSample);
  std::swap(g.parameters[0], g.parameters[1]);
  const std::string text = Print(g);
  EXPECT_THAT(text, HasSubstr("parameters %fc.bias, %fc.weight\n"));
  EXPECT_EQ(RoundTrip(text), text);
  EXPECT_EQ(ParseGraph(text)->parameters[0].value, g.parameters[0].value);
}

TEST(Text, PrintsADamagedGraph) {
  Graph g = *ParseGraph(kSample);
  g.nodes[0].inputs[0] = 999;
  g.nodes[1].forward = 999;
  g.nodes[2].def = nullptr;
  g.nodes[3].inputs[0] = kNone;
  g.loss_sum = -5;
  EXPECT_THAT(Print(g), HasSubstr("linear(?, "));
}

void ExpectSameStructure(const Graph& a, const Graph& b) {
  ASSERT_EQ(a.values.size(), b.values.size());
  for (size_t i = 0; i < a.values.size(); ++i) {
    EXPECT_EQ(a.values[i].name, b.values[i].name);
    EXPECT_EQ(a.values[i].type, b.values[i].type);
    EXPECT_EQ(a.values[i].kind, b.values[i].kind);
    EXPECT_EQ(a.values[i].scope, b.values[i].scope);
    EXPECT_EQ(a.values[i].producer, b.values[i].producer);
    EXPECT_EQ(a.values[i].opaque, b.values[i].opaque);
  }
  ASSERT_EQ(a.nodes.size(), b.nodes.size());
  for (size_t i = 0; i < a.nodes.size(); ++i) {
    EXPECT_EQ(a.nodes[i].def, b.nodes[i].def);
    EXPECT_EQ(a.nodes[i].inputs, b.nodes[i].inputs);
    EXPECT_EQ(a.nodes[i].outputs, b.nodes[i].outputs);
    EXPECT_EQ(a.nodes[i].attrs, b.nodes[i].attrs);
    EXPECT_EQ(a.nodes[i].phase, b.nodes[i].phase);
    EXPECT_EQ(a.nodes[i].forward, b.nodes[i].forward);
    EXPECT_EQ(a.nodes[i].origin, b.nodes[i].origin);
    EXPECT_EQ(a.nodes[i].scope, b.nodes[i].scope);
    EXPECT_EQ(a.nodes[i].checkpoint, b.nodes[i].checkpoint);
  }
}

TEST(Text, ModelsRoundTripBeforeAndAfterDifferentiationAndPasses) {
  const StatusOr<Graph> models[] = {
      models::Mlp({.input = {5, 4, 1}, .hidden = {9, 7}, .classes = 3, .dropout = 0.1}),
      models::LeNet({.input = {12, 12, 1}, .classes = 3}),
      models::ResNet({.input = {8, 8, 2}, .depth = 18, .classes = 3, .stem = "small", .width = 2}),
      models::Gpt2(
          {.layers = 2, .width = 12, .heads = 3, .context = 6, .vocabulary = 11, .dropout = 0.1}),
      models::Llama({.layers = 2,
                     .width = 16,
                     .heads = 4,
                     .kv_heads = 2,
                     .ffn = 10,
                     .context = 6,
                     .vocabulary = 11})};
  for (const auto& model : models) {
    ASSERT_TRUE(model.ok()) << model.status();
    Graph joint = *Differentiate(*model);
    Graph passed = joint;
    ASSERT_TRUE(RunPasses(passed, DefaultPasses(), {}).ok());
    const Graph bound = *passed.Bind({{"B", 4}});
    for (const Graph& graph : {*model, joint, passed, bound, *ForInference(*model)}) {
      const std::string text = Print(graph);
      const auto parsed = ParseGraph(text);
      ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << text;
      EXPECT_EQ(Print(*parsed), text);
      ExpectSameStructure(graph, *parsed);
    }
  }
}

TEST(Text, AnOpsVersionIsPartOfTheText) {
  const auto ops_of = [](int version) {
    std::shared_ptr<OpRegistry> ops = NewRegistryWithBuiltinOps();
    OpDef def;
    def.name = "twice";
    def.version = version;
    def.infer = [](const InferArgs& args) -> StatusOr<std::vector<TensorType>> {
      return args.inputs;
    };
    OC_CHECK(ops->Add(def).ok());
    return ops;
  };
  const std::string text = "graph g {\n  data %x: f32[2]\n  %1 = twice@2(%x) : f32[2]\n}\n";
  const auto graph = ParseGraph(text, ops_of(2));
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(Print(*graph), text);
  EXPECT_THAT(ParseGraph(text, ops_of(1)).status().ToString(),
              HasSubstr("line 3, column 8: op twice is of version 2, known is version 1"));
}

struct BadText {
  const char* from;
  const char* to;
  const char* error;
};

TEST(Text, ErrorsNameLineAndColumn) {
  const BadText cases[] = {
      {"graph sample {", "grph sample {", "line 1, column 1: expected 'graph', found 'grph'"},
      {"data %labels", "dat %labels", "line 3, column 3: expected a line that begins with %, data"},
      {"f32[5, 6]", "f23[5, 6]", "line 4, column 25: unknown dtype 'f23'; known: f32, bf16"},
      {"f32[5, 6]", "f32[5, -6]", "line 4, column 28: bad dimension '-6'"},
      {"f32[5, 6]", "f32[5, 6", "line 4, column 28: the shape that begins here has no ']'"},
      {"normal(", "nrmal(", "line 4, column 37: expected constant(value), normal(mean"},
      {"normal(0.0, 0.02)", "normal(0.0)", "line 4, column 47: expected ',', found ')'"},
      {"%fc.bias: f32[5] = constant(0.0)", "%fc.bias: f32[5]", "line 5, column 30: expected '='"},
      {"%fc.bias: f32", "%fc.weight: f32",
       "line 5, column 13: value %fc.weight is defined a second"},
      {"linear(%images", "linear(%image", "line 10, column 15: value %image is not known here"},
      {"= linear(", "= liner(", "line 10, column 8: unknown op 'liner'; did you mean 'linear'?"},
      {"= linear(", "= linear@2(", "line 10, column 8: op linear is of version 2"},
      {"{activation: \"relu\"}", "{activation \"relu\"}",
       "line 10, column 58: expected ':', found '\"'"},
      {"{activation: \"relu\"}", "{activation: \"relu}",
       "line 10, column 59: the string that begins"},
      {"{activation: \"relu\"}", "{activation: 1}",
       "line 10, column 8: op linear in fc: attribute"},
      {"{activation: \"relu\"}", "{activation: ?}", "line 10, column 59: expected a value: true"},
      {"{p: 0.1, stream", "{p: 0.1, p", "line 11, column 35: attribute p stands twice"},
      {"f32[], f32[B]", "f32[], f32[7]", "line 12, column 53: output 1 of cross_entropy is f32[B]"},
      {"%loss, %lse =", "%loss =", "line 12, column 11: op cross_entropy gives 2 outputs"},
      {"phase input_grad of %loss origin", "phase input of %loss origin",
       "line 15, column 49: expected forward, count, recompute"},
      {"of %loss origin 2", "of %images origin 2", "line 15, column 63: %images is no node's"},
      {"sum metric loss_sum", "sum metrics loss_sum", "line 19, column 7: expected gradient"},
      {"rate 0.1", "rate fast", "line 22, column 37: expected a number, found 'fast'"},
      {"loss %loss /", "loss %loss", "line 24, column 14: expected '/', found '%'"},
      {"update %mean", "update %lr", "line 27, column 10: %lr is neither parameter nor state"},
      {"= %13\n}", "= %13 }", "expected the end of the line, found '}'"},
      {"\n}\n", "\n", "line 28, column 1: expected '}', found the end of the text"},
      {"\n}\n", "\n}\n}\n", "line 29, column 1: expected the end of the text, found '}'"},
  };
  for (const BadText& c : cases) {
    std::string text = kSample;
    const size_t at = text.find(c.from);
    ASSERT_NE(at, std::string::npos) << c.from;
    text.replace(at, std::string(c.from).size(), c.to);
    const Status status = ParseGraph(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.to;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.error)) << c.from << " -> " << c.to;
  }
}

// Whatever stands there, the parser gives an error or a graph that prints and reads again.
void ExpectHarmless(const std::string& text) {
  const auto graph = ParseGraph(text);
  if (!graph.ok()) {
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument) << text;
    return;
  }
  const std::string printed = Print(*graph);
  const auto again = ParseGraph(printed);
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << printed;
  EXPECT_EQ(Print(*again), printed);
}

std::vector<std::string> Texts() {
  std::vector<std::string> texts = {kSample};
  for (const auto& model :
       {models::LeNet({.input = {12, 12, 1}, .classes = 3}),
        models::Gpt2({.layers = 1, .width = 4, .heads = 2, .context = 3, .vocabulary = 5}),
        models::ResNet({.input = {8, 8, 2}, .classes = 3, .stem = "small", .width = 2})}) {
    texts.push_back(Print(*Differentiate(*model)));
  }
  return texts;
}

TEST(Text, EveryTruncationIsAnError) {
  const std::string text = kSample;
  for (size_t size = 0; size + 1 < text.size(); ++size) {  // the last line end may go
    EXPECT_FALSE(ParseGraph(text.substr(0, size)).ok()) << size;
  }
}

TEST(Text, DamagedTextNeverCrashes) {
  const Philox rng(1);
  const std::string alphabet = "%{}()[]:,=/+@\"#_ \n\t0123456789-.eBf\\x\xff";
  const std::vector<std::string> texts = Texts();
  for (uint64_t round = 0; round < 1500; ++round) {
    std::string text = texts[rng.Word(round, 0) % texts.size()];
    const int changes = 1 + static_cast<int>(rng.Word(round, 1) % 3);
    for (int change = 0; change < changes; ++change) {
      const uint64_t base = 2 + static_cast<uint64_t>(change) * 4;
      const size_t at = rng.Word(round, base) % text.size();
      const size_t length = rng.Word(round, base + 1) % 12;
      switch (rng.Word(round, base + 2) % 4) {
        case 0:
          text[at] = alphabet[rng.Word(round, base + 3) % alphabet.size()];
          break;
        case 1:
          text.erase(at, length + 1);
          break;
        case 2:
          text.insert(at, text.substr(rng.Word(round, base + 3) % text.size(), length));
          break;
        case 3:
          text[at] = static_cast<char>('0' + rng.Word(round, base + 3) % 10);
          break;
      }
      if (text.empty()) text = " ";
    }
    ExpectHarmless(text);
  }
}

}  // namespace
}  // namespace oc

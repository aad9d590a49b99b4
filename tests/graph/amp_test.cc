#include "openclaw/graph/amp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/graph/passes.h"
#include "openclaw/graph/text/parser.h"
#include "openclaw/graph/text/printer.h"

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StrEq;

// A residual block with a norm, between an embedding and a head that share their weight.
constexpr char kTied[] = R"(graph tied {
  data %tokens: i32[2, 4]
  data %targets: i32[2, 4]
  parameter %wte: f32[16, 8] = normal(0.0, 0.02)
  parameter %wpe: f32[4, 8] = normal(0.0, 0.02)
  parameter %ln.g: f32[8] = constant(1.0) no_decay
  parameter %ln.b: f32[8] = constant(0.0) no_decay
  parameter %fc.w: f32[8, 8] = normal(0.0, 0.02)
  %0 = embedding(%tokens, %wte) : f32[2, 4, 8]
  %1 = add(%0, %wpe) : f32[2, 4, 8]
  %2, %3, %4 = layer_norm(%1, %ln.g, %ln.b) : f32[2, 4, 8], f32[2, 4], f32[2, 4] in ln
  %5 = linear(%2, %fc.w) : f32[2, 4, 8] in fc
  %6 = gelu(%5) {approximate: "tanh"} : f32[2, 4, 8] in fc
  %7 = add(%1, %6) : f32[2, 4, 8]
  %8 = linear(%7, %wte) : f32[2, 4, 16] in head
  %9, %10 = cross_entropy(%8, %targets) : f32[], f32[2, 4] in head
  %11 = count_valid(%targets) : f32[] in head
  loss %9 / %11
  output logits = %8
}
)";

Graph Tied() {
  auto graph = ParseGraph(kTied);
  OC_CHECK(graph.ok(), graph.status().ToString());
  return *std::move(graph);
}

// The text up to the first node.
std::string Inputs() {
  const std::string text = Print(Tied());
  return text.substr(0, text.find("  %"));
}

std::string After(AmpLevel level, DType half = DType::kBF16) {
  auto graph = ApplyAmp(Tied(), {level, half});
  OC_CHECK(graph.ok(), graph.status().ToString());
  return Print(*graph);
}

TEST(AmpClasses, EveryOpOfTheRegistryIsListed) {
  for (const std::string& op : BuiltinOps()->names()) EXPECT_TRUE(HasAmpClass(op)) << op;
}

// Whoever computes backwards or updates takes what the forward left.
TEST(AmpClasses, GradientsKeepTheTypesOfTheirForward) {
  for (const std::string& op : BuiltinOps()->names()) {
    if (op.find("_grad") == std::string::npos) continue;
    EXPECT_EQ(AmpClassOf(op), AmpClass::kKeep) << op;
  }
}

TEST(Amp, O0LeavesTheGraphAsItIs) { EXPECT_EQ(After(AmpLevel::kO0), Print(Tied())); }

// The text of each level: which casts there are, of which phase, and in which types ops compute.
TEST(Amp, O1CastsAroundProductsAndKeepsTheResidualStream) {
  EXPECT_EQ(After(AmpLevel::kO1), Inputs() + R"(  %7 = embedding(%tokens, %wte) : f32[2, 4, 8]
  %8 = add(%7, %wpe) : f32[2, 4, 8]
  %9, %10, %11 = layer_norm(%8, %ln.g, %ln.b) : f32[2, 4, 8], f32[2, 4], f32[2, 4] in ln
  %12 = cast(%9) {dtype: bf16} : bf16[2, 4, 8] in fc
  %13 = cast(%fc.w) {dtype: bf16} : bf16[8, 8] in fc phase prologue origin 3
  %14 = linear(%12, %13) : bf16[2, 4, 8] in fc origin 3
  %15 = gelu(%14) {approximate: "tanh"} : bf16[2, 4, 8] in fc origin 4
  %16 = cast(%15) {dtype: f32} : f32[2, 4, 8] origin 5
  %17 = add(%8, %16) : f32[2, 4, 8] origin 5
  %18 = cast(%17) {dtype: bf16} : bf16[2, 4, 8] in head origin 6
  %19 = cast(%wte) {dtype: bf16} : bf16[16, 8] in head phase prologue origin 6
  %20 = linear(%18, %19) : bf16[2, 4, 16] in head origin 6
  %21 = cast(%20) {dtype: f32} : f32[2, 4, 16] in head origin 7
  %22, %23 = cross_entropy(%21, %targets) : f32[], f32[2, 4] in head origin 7
  %24 = count_valid(%targets) : f32[] in head origin 8
  loss %22 / %24
  output logits = %21
}
)");
}

TEST(Amp, O2ComputesAllInHalfOnMasterWeights) {
  EXPECT_EQ(After(AmpLevel::kO2),
            Inputs() + R"(  %7 = cast(%wte) {dtype: bf16} : bf16[16, 8] phase prologue
  %8 = embedding(%tokens, %7) : bf16[2, 4, 8] origin 0
  %9 = cast(%wpe) {dtype: bf16} : bf16[4, 8] phase prologue origin 1
  %10 = add(%8, %9) : bf16[2, 4, 8] origin 1
  %11 = cast(%ln.g) {dtype: bf16} : bf16[8] in ln phase prologue origin 2
  %12 = cast(%ln.b) {dtype: bf16} : bf16[8] in ln phase prologue origin 2
  %13, %14, %15 = layer_norm(%10, %11, %12) : bf16[2, 4, 8], f32[2, 4], f32[2, 4] in ln origin 2
  %16 = cast(%fc.w) {dtype: bf16} : bf16[8, 8] in fc phase prologue origin 3
  %17 = linear(%13, %16) : bf16[2, 4, 8] in fc origin 3
  %18 = gelu(%17) {approximate: "tanh"} : bf16[2, 4, 8] in fc origin 4
  %19 = add(%10, %18) : bf16[2, 4, 8] origin 5
  %20 = cast(%wte) {dtype: bf16} : bf16[16, 8] in head phase prologue origin 6
  %21 = linear(%19, %20) : bf16[2, 4, 16] in head origin 6
  %22, %23 = cross_entropy(%21, %targets) : f32[], f32[2, 4] in head origin 7
  %24 = count_valid(%targets) : f32[] in head origin 8
  %25 = cast(%21) {dtype: f32} : f32[2, 4, 16] in head origin 6
  loss %22 / %24
  output logits = %25
}
)");
}

TEST(Amp, O3KeepsParametersInHalf) {
  const std::string text = After(AmpLevel::kO3, DType::kF16);
  EXPECT_THAT(text, AllOf(HasSubstr("parameter %wte: f16[16, 8]"), Not(HasSubstr("prologue")),
                          HasSubstr("output logits")));
}

// Named outputs have the types that the model says.
TEST(Amp, OutputsAndLossKeepTheirTypes) {
  for (AmpLevel level : {AmpLevel::kO1, AmpLevel::kO2, AmpLevel::kO3}) {
    const Graph graph = *ApplyAmp(Tied(), {level, DType::kF16});
    ASSERT_EQ(graph.outputs.size(), 1u);
    EXPECT_EQ(graph.value(graph.outputs[0].second).type.dtype, DType::kF32) << Name(level);
    EXPECT_EQ(graph.value(graph.loss_sum).type.dtype, DType::kF32) << Name(level);
    EXPECT_EQ(graph.value(graph.loss_count).type.dtype, DType::kF32) << Name(level);
  }
}

TEST(Amp, RefusesWhatIsNotBuilt) {
  EXPECT_TRUE(absl::IsUnimplemented(ApplyAmp(Tied(), {AmpLevel::kO2Fp8, DType::kBF16}).status()));
  const Status status = ApplyAmp(Tied(), {AmpLevel::kO2, DType::kI32}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("bf16, f16"));
}

StatusOr<Graph> Joint(const Graph& model, const AmpOptions& options) {
  OC_ASSIGN_OR_RETURN(const Graph forward, ApplyAmp(model, options));
  OC_ASSIGN_OR_RETURN(Graph joint, Differentiate(forward, {.loss_scale = true}));
  OC_RETURN_IF_ERROR(WidenGradientSums(joint));
  OC_RETURN_IF_ERROR(RunPasses(joint, DefaultPasses(), {}));
  return joint;
}

int Count(const Graph& graph, const std::string& op, Phase phase) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) {
    return n.def->name == op && n.phase == phase;
  }));
}

// At every level gradients are summed in f32, and the products give them in f32 themselves.
TEST(Amp, GradientsAreSummedInF32) {
  for (AmpLevel level : {AmpLevel::kO1, AmpLevel::kO2, AmpLevel::kO3}) {
    auto joint = Joint(Tied(), {level, DType::kBF16});
    ASSERT_TRUE(joint.ok()) << joint.status();
    int gradients = 0;
    for (const Accumulator& a : joint->accumulators) {
      if (a.kind != Accumulator::Kind::kGradient) continue;
      ++gradients;
      for (int v : a.contributions) {
        EXPECT_EQ(joint->value(v).type.dtype, DType::kF32) << Name(level) << " " << a.name;
        EXPECT_NE(joint->node(joint->value(v).producer).def->name, "cast")
            << Name(level) << " " << a.name << ": rounded to half, then cast\n"
            << Print(*joint);
      }
    }
    EXPECT_EQ(gradients, 5);
  }
}

// Both uses of the shared weight contribute by themselves, and read one cast of it.
TEST(Amp, ATiedWeightIsCastOnceAndHasTwoContributions) {
  auto joint = Joint(Tied(), {AmpLevel::kO2, DType::kBF16});
  ASSERT_TRUE(joint.ok()) << joint.status();
  EXPECT_EQ(Count(*joint, "cast", Phase::kPrologue), 5) << Print(*joint);
  for (const Accumulator& a : joint->accumulators) {
    if (a.name == "grad.wte") EXPECT_EQ(a.contributions.size(), 2u);
  }
}

TEST(Amp, ModelsDifferentiateAtEveryLevel) {
  const std::vector<StatusOr<Graph>> all = {
      models::Mlp({.hidden = {16}}), models::LeNet({}),
      models::ResNet({.input = {8, 8, 3}, .depth = 18, .classes = 4, .stem = "small", .width = 8}),
      models::Gpt2({.layers = 2,
                    .width = 16,
                    .heads = 2,
                    .context = 8,
                    .vocabulary = 17,
                    .dropout = 0.1,
                    .checkpoint = true})};
  for (const auto& model : all) {
    ASSERT_TRUE(model.ok()) << model.status();
    const Graph bound = *model->Bind({{"B", 4}});
    for (AmpLevel level : {AmpLevel::kO1, AmpLevel::kO2, AmpLevel::kO3}) {
      for (DType half : {DType::kBF16, DType::kF16}) {
        auto joint = Joint(bound, {level, half});
        EXPECT_TRUE(joint.ok()) << bound.name << " " << Name(level) << ": " << joint.status();
        if (joint.ok()) EXPECT_EQ(HalfTypeOf(*joint), half);
      }
    }
  }
}

// A model may sum halves in f32 itself.
TEST(Amp, ASumInAWiderTypeHasAGradient) {
  GraphBuilder b("wide");
  const Val w = b.Parameter("w", {DType::kBF16, {4}}, Initializer::Constant(1));
  const Val x = b.Data("x", {DType::kBF16, {2, 4}});
  const Val y = b.Mul(x, w);
  const Val sum =
      b.Op("reduce_sum", {y},
           {{"axes", std::vector<int64_t>{}}, {"keep_dims", false}, {"dtype", DType::kF32}});
  EXPECT_EQ(b.type(sum).dtype, DType::kF32);
  b.Loss(sum, b.Scale(b.Data("count", {DType::kF32, {}}), 1.0));
  const auto forward = b.Finish();
  ASSERT_TRUE(forward.ok()) << forward.status();
  const auto joint = Differentiate(*forward);
  ASSERT_TRUE(joint.ok()) << joint.status();
  // Only to something narrower it cannot be told to.
  GraphBuilder narrow("narrow");
  narrow.Op("reduce_sum", {narrow.Data("x", {DType::kF32, {2, 4}})}, {{"dtype", DType::kBF16}});
  EXPECT_THAT(std::string(narrow.status().message()), HasSubstr("at least as wide as f32"));
}

// What a device without the half type runs: the same nodes in another type.
TEST(Amp, WithHalfTypeIsTheSameGraphInAnotherType) {
  const Graph joint = *Joint(Tied(), {AmpLevel::kO2, DType::kBF16});
  auto other = WithHalfType(joint, DType::kBF16, DType::kF32);
  ASSERT_TRUE(other.ok()) << other.status();
  ASSERT_TRUE(Verify(*other).ok());
  ASSERT_EQ(other->nodes.size(), joint.nodes.size());
  EXPECT_FALSE(HalfTypeOf(*other).has_value());
  for (size_t i = 0; i < joint.nodes.size(); ++i) {
    if (joint.nodes[i].def->name == "cast") {
      EXPECT_THAT(other->nodes[i].def->name, AnyOf(StrEq("cast"), StrEq("copy")));
    } else {
      EXPECT_EQ(other->nodes[i].def, joint.nodes[i].def);
    }
    EXPECT_FALSE(other->nodes[i].attrs.Has("dtype")) << "what a plain device need not know";
    EXPECT_EQ(other->nodes[i].inputs, joint.nodes[i].inputs);
  }
  const Graph narrow = *Joint(Tied(), {AmpLevel::kO3, DType::kBF16});
  EXPECT_THAT(std::string(WithHalfType(narrow, DType::kBF16, DType::kF32).status().message()),
              AllOf(HasSubstr("wte"), HasSubstr("O2")));
}

}  // namespace
}  // namespace oc

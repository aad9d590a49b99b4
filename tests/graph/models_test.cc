#include "openclaw/graph/models/models.h"

#include <gtest/gtest.h>

#include <cmath>

#include "interpreter.h"
#include "openclaw/core/rng.h"
#include "openclaw/devices/export.h"
#include "openclaw/devices/reference/reference.h"
#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/modules.h"
#include "openclaw/graph/passes.h"

namespace oc {
namespace {

using ::oc::models::DataFeatures;

int64_t Count(const StatusOr<Graph>& graph) {
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? models::NumParameters(*graph) : -1;
}

int64_t CountPreset(const std::string& preset) {
  DataFeatures data;
  if (preset.rfind("resnet", 0) == 0) {
    data = {.inputs = {{"images", {DType::kF32, {224, 224, 3}}}}, .classes = 1000};
  }
  return Count(models::BuildModel({.preset = preset}, data));
}

TEST(Models, ParameterCountsArePublished) {
  EXPECT_EQ(Count(models::Mlp({.hidden = {512, 512}})), 669706);
  EXPECT_EQ(Count(models::LeNet({})), 61706);
  EXPECT_EQ(CountPreset("resnet-18"), 11689512);
  EXPECT_EQ(CountPreset("resnet-34"), 21797672);
  EXPECT_EQ(CountPreset("resnet-50"), 25557032);
  EXPECT_EQ(CountPreset("resnet-101"), 44549160);
  EXPECT_EQ(CountPreset("resnet-152"), 60192808);
  EXPECT_EQ(CountPreset("gpt2-124m"), 124439808);
  EXPECT_EQ(CountPreset("gpt2-350m"), 354823168);
  EXPECT_EQ(CountPreset("gpt2-774m"), 774030080);
  EXPECT_EQ(CountPreset("gpt2-1.5b"), 1557611200);
  EXPECT_EQ(CountPreset("llama-1.1b"), 1100048384);
  EXPECT_EQ(CountPreset("llama-7b"), 6738415616);
  EXPECT_EQ(CountPreset("llama-13b"), 13015864320);
  EXPECT_EQ(CountPreset("llama-70b"), 68976648192);
}

// Small ones of every kind, which run in no time.
struct Named {
  std::string name;
  StatusOr<Graph> graph;
  bool images = true;
};

std::vector<Named> SmallModels() {
  std::vector<Named> all;
  all.push_back(
      {"mlp", models::Mlp({.input = {5, 4, 1}, .hidden = {9, 7}, .classes = 3, .dropout = 0.1})});
  all.push_back({"lenet", models::LeNet({.input = {12, 12, 1}, .classes = 3})});
  all.push_back(
      {"resnet18",
       models::ResNet(
           {.input = {8, 8, 2}, .depth = 18, .classes = 3, .stem = "small", .width = 2})});
  all.push_back(
      {"resnet50", models::ResNet({.input = {32, 32, 3}, .depth = 50, .classes = 3, .width = 2})});
  all.push_back(
      {"gpt2",
       models::Gpt2(
           {.layers = 2, .width = 12, .heads = 3, .context = 6, .vocabulary = 11, .dropout = 0.1}),
       false});
  all.push_back({"llama",
                 models::Llama({.layers = 2,
                                .width = 16,
                                .heads = 4,
                                .kv_heads = 2,
                                .ffn = 10,
                                .context = 6,
                                .vocabulary = 11}),
                 false});
  return all;
}

const TensorType& TypeOf(const Graph& graph, const std::string& output) {
  static const TensorType kNothing;
  for (const auto& [name, value] : graph.outputs) {
    if (name == output) return graph.value(value).type;
  }
  return kNothing;
}

TEST(Models, ShapesAutodiffPassesAndBinding) {
  for (Named& model : SmallModels()) {
    SCOPED_TRACE(model.name);
    ASSERT_TRUE(model.graph.ok()) << model.graph.status();
    EXPECT_EQ(model.graph->UnboundDims(), std::vector<std::string>{"B"});
    EXPECT_EQ(TypeOf(*model.graph, "logits").shape,
              model.images ? Shape({Dim("B"), 3}) : Shape({Dim("B"), 6, 11}));
    auto joint = Differentiate(*model.graph);
    ASSERT_TRUE(joint.ok()) << joint.status();
    size_t gradients = 0;
    for (const Accumulator& a : joint->accumulators) {
      gradients += a.kind == Accumulator::Kind::kGradient ? 1 : 0;
    }
    EXPECT_EQ(gradients, joint->parameters.size());
    ASSERT_TRUE(RunPasses(*joint, DefaultPasses(), {}).ok());
    auto bound = joint->Bind({{"B", 5}});
    ASSERT_TRUE(bound.ok()) << bound.status();
    EXPECT_TRUE(Verify(*bound).ok());
    EXPECT_TRUE(bound->UnboundDims().empty());
    auto inference = ForInference(*model.graph);
    ASSERT_TRUE(inference.ok()) << inference.status();
    EXPECT_TRUE(inference->Bind({{"B", 1}}).ok());
  }
}

// Inputs of a micro-batch of four: a class that is easy to tell, or a sequence that counts up.
void AddBatch(const Graph& graph, std::map<std::string, Tensor>& inputs) {
  int64_t valid = 0;
  for (const Value& v : graph.values) {
    if (v.kind != ValueKind::kData) continue;
    Tensor t(v.type);
    const int64_t samples = t.shape()[0].size(), each = t.num_elements() / samples;
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      const int64_t sample = i / each, place = i % each;
      if (v.name == "images") {
        t.set(i, Normal(Philox(3), 1, static_cast<uint64_t>(i)) * 0.5 + (place % 3 == sample % 3));
      } else if (v.name == "labels") {
        t.set(i, static_cast<double>(sample % 3));
      } else {
        t.set(i, static_cast<double>((2 * sample + place + (v.name == "targets")) % 11));
      }
    }
    if (v.name == "labels" || v.name == "targets") valid = t.num_elements();
    inputs[v.name] = t;
  }
  inputs["global_count"] = Tensor::Of<float>({}, {static_cast<float>(valid)});
}

Tensor Rng(int64_t step) { return Tensor::Of<int64_t>({4}, {7, step, 0, 0}); }

// The sum of a gradient's contributions.
Tensor Gradient(const Accumulator& a, const std::vector<Tensor>& values) {
  Tensor sum(values[a.contributions[0]].type());
  for (int v : a.contributions) {
    for (int64_t i = 0; i < sum.num_elements(); ++i) sum.set(i, sum.at(i) + values[v].at(i));
  }
  return sum;
}

class SmallTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    auto slice = test::FirstSlice(ThroughTable<&DiscoverReference>("reference"));
    ASSERT_TRUE(slice.ok()) << slice.status();
    slice_ = std::move(slice).value();
  }

  // Losses of a few steps of plain descent.
  std::vector<double> Losses(const Graph& graph, int steps, double rate) {
    std::vector<double> losses;
    auto inputs = test::InitialValues(graph, 1);
    AddBatch(graph, inputs);
    for (int step = 0; step < steps; ++step) {
      inputs["rng"] = Rng(step);
      auto values = test::Interpret(graph, inputs, *slice_.slice);
      EXPECT_TRUE(values.ok()) << values.status();
      if (!values.ok()) return losses;
      losses.push_back((*values)[graph.loss_sum].at(0) / inputs["global_count"].at(0));
      for (const Accumulator& a : graph.accumulators) {
        if (a.target == kNone) continue;
        Tensor& target = inputs[graph.value(a.target).name];
        const Tensor g = Gradient(a, *values);
        const bool state = a.kind == Accumulator::Kind::kState;
        for (int64_t i = 0; i < g.num_elements(); ++i) {
          target.set(i,
                     target.at(i) + (state ? a.rate * (g.at(i) - target.at(i)) : -rate * g.at(i)));
        }
      }
    }
    return losses;
  }

  test::OwnedSlice slice_;
};

StatusOr<Graph> JointOfFour(const StatusOr<Graph>& forward, bool recompute) {
  OC_RETURN_IF_ERROR(forward.status());
  OC_ASSIGN_OR_RETURN(Graph joint, Differentiate(*forward));
  OC_RETURN_IF_ERROR(RunPasses(joint, DefaultPasses(), {}));
  if (recompute) OC_RETURN_IF_ERROR(RecomputeMarked(joint));
  return joint.Bind({{"B", 4}});
}

TEST_F(SmallTraining, LossFalls) {
  for (Named& model : SmallModels()) {
    SCOPED_TRACE(model.name);
    auto joint = JointOfFour(model.graph, /*recompute=*/false);
    ASSERT_TRUE(joint.ok()) << joint.status();
    const std::vector<double> losses = Losses(*joint, 6, 0.1);
    ASSERT_EQ(losses.size(), 6u);
    const double chance = std::log(model.images ? 3.0 : 11.0);
    EXPECT_NEAR(losses[0], chance, 0.8 * chance);
    EXPECT_LT(losses[5], losses[0] - 0.01);
  }
}

TEST_F(SmallTraining, RecomputationChangesNoBit) {
  for (Named& model : SmallModels()) {
    SCOPED_TRACE(model.name);
    auto kept = JointOfFour(model.graph, /*recompute=*/false);
    auto repeated = JointOfFour(model.graph, /*recompute=*/true);
    ASSERT_TRUE(kept.ok()) << kept.status();
    ASSERT_TRUE(repeated.ok()) << repeated.status();
    int clones = 0;
    for (const Node& node : repeated->nodes) {
      clones += node.phase == Phase::kRecompute ? 1 : 0;
    }
    const bool marked = model.name != "mlp" && model.name != "lenet";
    EXPECT_EQ(clones > 0, marked);
    if (!marked) continue;
    EXPECT_EQ(Losses(*kept, 3, 0.1), Losses(*repeated, 3, 0.1));
  }
}

TEST_F(SmallTraining, InferenceReadsRunningStatistics) {
  auto model =
      models::ResNet({.input = {8, 8, 2}, .depth = 18, .classes = 3, .stem = "small", .width = 2});
  ASSERT_TRUE(model.ok()) << model.status();
  auto inference = ForInference(*model);
  ASSERT_TRUE(inference.ok()) << inference.status();
  auto bound = inference->Bind({{"B", 4}});
  ASSERT_TRUE(bound.ok()) << bound.status();
  auto inputs = test::InitialValues(*bound, 1);
  AddBatch(*bound, inputs);
  auto before = test::Interpret(*bound, inputs, *slice_.slice);
  ASSERT_TRUE(before.ok()) << before.status();
  inputs["bn1.running_mean"].set(0, 2.0);
  auto after = test::Interpret(*bound, inputs, *slice_.slice);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_NE((*before)[bound->loss_sum].at(0), (*after)[bound->loss_sum].at(0));
}

TEST(Modules, BatchNormFeedsItsStatistics) {
  GraphBuilder b("norm");
  const Val x = b.Data("x", {DType::kF32, {Dim("B"), 3, 3, 2}});
  const Val w = nn::Conv2d{.name = "conv", .channels = 4, .kernel = 3}(b, x);
  b.Output("y", nn::BatchNorm2d{.name = "bn", .momentum = 0.25}(b, w));
  auto graph = b.Finish();
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->accumulators.size(), 2u);
  for (const Accumulator& a : graph->accumulators) {
    EXPECT_EQ(a.kind, Accumulator::Kind::kState);
    EXPECT_EQ(a.rate, 0.25);
  }
  EXPECT_EQ(graph->value(graph->accumulators[0].target).name, "bn.running_mean");
  EXPECT_EQ(graph->value(graph->accumulators[1].target).name, "bn.running_var");
}

TEST(Modules, InitialisersAndDecay) {
  auto gpt = models::Gpt2({.layers = 8, .width = 12, .heads = 3, .context = 6, .vocabulary = 11});
  ASSERT_TRUE(gpt.ok()) << gpt.status();
  std::map<std::string, Variable> variables;
  for (const Variable& p : gpt->parameters) variables[gpt->value(p.value).name] = p;
  EXPECT_EQ(variables.at("transformer.h.3.attn.c_attn.weight").init, Initializer::Normal(0, 0.02));
  EXPECT_EQ(variables.at("transformer.h.3.mlp.c_proj.weight").init, Initializer::Normal(0, 0.005));
  EXPECT_EQ(variables.at("transformer.h.3.mlp.c_proj.bias").init, Initializer::Constant(0));
  EXPECT_TRUE(variables.at("transformer.wte.weight").decay);
  EXPECT_FALSE(variables.at("transformer.h.3.attn.c_attn.bias").decay);
  EXPECT_FALSE(variables.at("transformer.ln_f.weight").decay);
  EXPECT_EQ(variables.count("lm_head.weight"), 0u);  // tied

  auto lenet = models::LeNet({});
  ASSERT_TRUE(lenet.ok()) << lenet.status();
  for (const Variable& p : lenet->parameters) {
    if (lenet->value(p.value).name == "conv2.weight") {
      EXPECT_EQ(p.init, Initializer::Uniform(-1 / std::sqrt(150.0), 1 / std::sqrt(150.0)));
    }
  }
}

TEST(Modules, ErrorsComeWithFinish) {
  GraphBuilder b("wrong");
  const Val x = b.Data("x", {DType::kF32, {Dim("B"), 10}});
  const nn::Sequential net = {"net",
                              {nn::Linear{"fc", 7}, nn::Attention{.name = "attn", .heads = 2},
                               nn::LayerNorm{"norm"}, nn::MaxPool2d{}}};
  b.Output("y", net(b, x));
  const auto graph = b.Finish();
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(graph.status().message()).find("net.attn"), std::string::npos)
      << graph.status();
}

std::string BuildError(const ModelConfig& config, const DataFeatures& data) {
  const auto graph = models::BuildModel(config, data);
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(graph.status().message());
}

TEST(BuildModel, TakesWhatTheDataTells) {
  const DataFeatures images = {
      .inputs = {{"images", {DType::kF32, {14, 10, 3}}}, {"labels", {DType::kI32, {}}}},
      .classes = 7};
  auto mlp = models::BuildModel(
      {.name = "mlp", .doubles = {{"dropout", 0.5}}, .lists = {{"hidden", {6}}}}, images);
  ASSERT_TRUE(mlp.ok()) << mlp.status();
  EXPECT_EQ(models::NumParameters(*mlp), (14 * 10 * 3 + 1) * 6 + 7 * 7);

  const ModelConfig small = {.name = "gpt2",
                             .ints = {{"layers", 1}, {"width", 8}, {"heads", 2}, {"context", 4}}};
  EXPECT_EQ(models::ContextOf(small), 4);
  auto gpt =
      models::BuildModel(small, {.inputs = {{"tokens", {DType::kI32, {4}}}}, .vocabulary = 256});
  ASSERT_TRUE(gpt.ok()) << gpt.status();
  EXPECT_EQ(TypeOf(*gpt, "logits").shape, Shape({Dim("B"), 4, 256}));

  // Keys change a preset.
  const ModelConfig short_preset = {.preset = "gpt2-124m", .ints = {{"context", 64}}};
  EXPECT_EQ(models::ContextOf(short_preset), 64);
  EXPECT_EQ(models::ContextOf({.preset = "llama-7b"}), 4096);
  EXPECT_EQ(models::ContextOf({.name = "lenet"}), 0);
  auto preset = models::BuildModel(short_preset, {.vocabulary = 256});
  EXPECT_EQ(Count(preset), 124439808 - 960 * 768);
}

TEST(BuildModel, Errors) {
  const DataFeatures images = {.inputs = {{"images", {DType::kF32, {28, 28, 1}}}}, .classes = 10};
  const DataFeatures tokens = {.inputs = {{"tokens", {DType::kI32, {16}}}}, .vocabulary = 256};
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(BuildError({.name = "lenett"}, images), "did you mean 'lenet'");
  expect(BuildError({.preset = "gpt2-124"}, tokens), "did you mean 'gpt2-124m'");
  expect(BuildError({.name = "lenet", .ints = {{"clases", 10}}}, images), "did you mean 'classes'");
  expect(BuildError({.name = "resnet", .ints = {{"depth", 20}}}, images), "depth is 20");
  expect(BuildError({.name = "resnet", .strings = {{"stem", "tiny"}}}, images), "stem is 'tiny'");
  expect(BuildError({.name = "mlp", .ints = {{"hidden", 7}}}, images), "wrong type");
  expect(BuildError({.name = "lenet"}, tokens), "reads images, the data has tokens");
  expect(BuildError({.name = "gpt2"}, images), "reads tokens, the data has images");
  expect(BuildError({.name = "gpt2"}, {}), "vocabulary is not given");
  expect(BuildError({.name = "gpt2", .ints = {{"context", 8}}}, tokens), "context is 8");
  expect(BuildError({.name = "lenet", .ints = {{"classes", 5}}}, images), "but the data has 10");
  expect(
      BuildError({.name = "gpt2", .ints = {{"context", 16}, {"width", 10}, {"heads", 4}}}, tokens),
      "no multiple of heads");
  expect(BuildError({.name = "lenet"},
                    {.inputs = {{"images", {DType::kF32, {4, 4, 1}}}}, .classes = 2}),
         "does not fit");
}

}  // namespace
}  // namespace oc

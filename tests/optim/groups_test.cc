// Parameter groups, and what a configuration makes of the optimizers.
#include "openclaw/optim/groups.h"
#include "openclaw/core/pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/optim/optimizer.h"

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MatchesPattern, StarsAreAnyText) {
  EXPECT_TRUE(MatchesPattern("blocks.*.attention.*", "blocks.11.attention.qkv.weight"));
  EXPECT_TRUE(MatchesPattern("*", ""));
  EXPECT_TRUE(MatchesPattern("*.bias", "a.bias.bias"));
  EXPECT_TRUE(MatchesPattern("a**b", "ab"));
  EXPECT_TRUE(MatchesPattern("layers.?.weight", "layers.3.weight"));
  EXPECT_FALSE(MatchesPattern("layers.?.weight", "layers.33.weight"));
  EXPECT_FALSE(MatchesPattern("blocks", "blocks.0"));
  EXPECT_FALSE(MatchesPattern("*.bias", "bias"));
  EXPECT_FALSE(MatchesPattern("", "a"));
}

const std::vector<std::string> kNames = {"wte", "blocks.0.attention.weight",
                                         "blocks.0.attention.bias", "blocks.1.mlp.weight"};

TEST(AssignGroups, TheFirstThatMatchesTakesAParameter) {
  const auto assigned = AssignGroups(
      {{.match = {"*.bias"}}, {.match = {"blocks.0.*", "wte"}}, {.match = {"*.mlp.*"}}}, kNames);
  ASSERT_TRUE(assigned.ok()) << assigned.status();
  EXPECT_THAT(*assigned, ElementsAre(1, 1, 0, 2));
}

std::string Error(const std::vector<ParameterGroup>& groups) {
  const auto assigned = AssignGroups(groups, kNames);
  EXPECT_EQ(assigned.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(assigned.status().message());
}

TEST(AssignGroups, ErrorsNameTheGroupAndWhatIsNear) {
  EXPECT_THAT(Error({{.match = {"*"}}, {.match = {"blocks.*.atention.*"}}}),
              AllOf(HasSubstr("optimizer.groups.1: no parameter matches 'blocks.*.atention.*'"),
                    HasSubstr("blocks.0.attention.weight, blocks.0.attention.bias")));
  EXPECT_THAT(Error({{.match = {"heads"}}}), HasSubstr("there are wte, blocks.0"));
  EXPECT_THAT(Error({{.match = {"*"}}, {.name = "norms", .match = {"wte"}}}),
              HasSubstr("optimizer.groups.1 (norms): all of its parameters belong to groups"));
  EXPECT_THAT(Error({{.name = "none"}}), HasSubstr("optimizer.groups.0: match is missing"));
  EXPECT_THAT(Error({{.match = {"*"}, .lr_scale = -1}}), HasSubstr("lr_scale is -1"));
  EXPECT_THAT(Error({{.match = {"*"}, .weight_decay = -1}}), HasSubstr("weight_decay is -1"));
}

Graph JointOf(StatusOr<Graph> model) {
  OC_CHECK(model.ok(), model.status().ToString());
  auto bound = model->Bind({{"B", 2}});
  OC_CHECK(bound.ok(), bound.status().ToString());
  auto joint = Differentiate(*bound);
  OC_CHECK(joint.ok(), joint.status().ToString());
  return *std::move(joint);
}

Graph SmallGpt() {
  return JointOf(
      models::Gpt2({.layers = 1, .width = 16, .heads = 2, .context = 8, .vocabulary = 23}));
}

std::set<std::string> NamesOf(const Graph& joint, const std::set<int>& values) {
  std::set<std::string> names;
  for (int v : values) names.insert(joint.value(v).name);
  return names;
}

TEST(HiddenMatrices, AreTheWeightsInsideTheNetwork) {
  const Graph gpt = SmallGpt();
  for (const std::string& name : NamesOf(gpt, HiddenMatrices(gpt))) {
    EXPECT_THAT(name, AllOf(HasSubstr("transformer.h.0."), HasSubstr("weight")));
  }
  EXPECT_EQ(HiddenMatrices(gpt).size(), 4u);  // of attention and of the block's two layers
  const Graph mlp = JointOf(models::Mlp({.hidden = {32, 16}}));
  EXPECT_THAT(NamesOf(mlp, HiddenMatrices(mlp)), ElementsAre("layers.0.weight", "layers.1.weight"));
}

// What the update graph makes of a parameter: the op that gives its new value.
const Node& UpdateOf(const Graph& update, const std::string& name) {
  for (const Variable& v : update.parameters) {
    if (update.value(v.value).name == name) {
      return update.node(update.value(v.updated).producer);
    }
  }
  OC_CHECK(false, name);
  return update.nodes[0];
}

TEST(BuildUpdate, MuonLeavesTheRestToAdamWAndGroupsSayOtherwise) {
  const Graph joint = JointOf(models::Mlp({.hidden = {32, 16}}));
  const Muon muon = {.lr = 0.01, .adamw = {.lr = 0.001}};
  auto update = HybridOptimizer(muon).BuildUpdate(joint);
  ASSERT_TRUE(update.ok()) << update.status();
  EXPECT_EQ(UpdateOf(*update, "layers.0.weight").def->name, "decayed_step");
  const Node& bias = UpdateOf(*update, "layers.0.bias");
  EXPECT_EQ(bias.def->name, "adamw");
  EXPECT_NEAR(bias.attrs.Double("lr_scale"), 0.1, 1e-12);
  auto other = HybridOptimizer(muon, {.groups = {{.match = {"layers.0.*"}, .use_muon = false}}})
                   .BuildUpdate(joint);
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(UpdateOf(*other, "layers.0.weight").def->name, "adamw");
  EXPECT_EQ(UpdateOf(*other, "layers.1.weight").def->name, "decayed_step");
}

TEST(BuildUpdate, GroupsSetRateAndDecay) {
  const Graph joint = JointOf(models::Mlp({.hidden = {32}}));
  auto update =
      HybridOptimizer(AdamW{.weight_decay = 0.1},
                      {.groups = {{.match = {"layers.0.*"}, .lr_scale = 0.5, .weight_decay = 0.2},
                                  {.match = {"*.bias"}, .decay_all = true}}})
          .BuildUpdate(joint);
  ASSERT_TRUE(update.ok()) << update.status();
  const Attributes& weight = UpdateOf(*update, "layers.0.weight").attrs;
  EXPECT_EQ(weight.Double("lr_scale"), 0.5);
  EXPECT_EQ(weight.Double("weight_decay"), 0.2);
  EXPECT_EQ(UpdateOf(*update, "layers.0.bias").attrs.Double("weight_decay"), 0);
  EXPECT_EQ(UpdateOf(*update, "layers.1.weight").attrs.Double("weight_decay"), 0.1);
  EXPECT_FALSE(UpdateOf(*update, "layers.1.weight").attrs.Has("lr_scale"));
  EXPECT_EQ(UpdateOf(*update, "layers.1.bias").attrs.Double("weight_decay"), 0.1);
  auto nothing = HybridOptimizer(AdamW{}, {.groups = {{.match = {"layer.*"}}}}).BuildUpdate(joint);
  EXPECT_THAT(std::string(nothing.status().message()), HasSubstr("layers.0.weight"));
}

TEST(BuildUpdate, RefusesWhatAMethodDoesNotTake) {
  const Graph joint = JointOf(models::Mlp({.hidden = {32}}));
  const std::pair<HybridOptimizer, const char*> refused[] = {
      {{AdamW{}, {.groups = {{.match = {"*"}, .use_muon = true}}}}, "use_muon is of muon"},
      {{AdamW{}, {.clip_value = -1}}, "clip_value is -1"},
      {{AdamW{}, {.ema_decay = 1}}, "ema.decay is 1"},
      {Adam{.eps = 0}, "eps is 0"},
      {Lamb{.beta1 = 1}, "beta1 is 1"},
      {Lion{.beta2 = -1}, "beta2 is -1"},
      {Adafactor{.beta2_decay = 0.1}, "beta2_decay is 0.1"},
      {Adafactor{.d = 0.5}, "d is 0.5"},
      {Muon{.lr = 0}, "lr is 0"},
      {Muon{.ns_steps = 0}, "ns_steps is 0"},
      {Muon{.ns_coefficients = {1}}, "ns_coefficients has 1"},
      {Muon{.adjust_lr_fn = "none"}, "adjust_lr_fn is 'none'"},
      {Muon{.adamw = {.eps = 0}}, "eps is 0"},
  };
  for (const auto& [optimizer, message] : refused) {
    const Status status = optimizer.BuildUpdate(joint).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

// Every method's configuration holds its own defaults, and comes back as it was.
TEST(DefaultConfig, MakesTheMethodAgain) {
  const std::pair<const char*, HybridOptimizer> methods[] = {
      {"sgd", Sgd{}},   {"adam", Adam{}},           {"adamw", AdamW{}}, {"lamb", Lamb{}},
      {"lion", Lion{}}, {"adafactor", Adafactor{}}, {"muon", Muon{}}};
  EXPECT_EQ(std::size(methods), MethodNames().size());
  for (const auto& [name, method] : methods) {
    auto config = HybridOptimizer::DefaultConfig(name);
    ASSERT_TRUE(config.ok()) << config.status();
    auto made = HybridOptimizer::FromConfig(*config);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->ToString(), method.ToString());
    EXPECT_EQ(std::string(made->name()), name);
  }
}

}  // namespace
}  // namespace oc

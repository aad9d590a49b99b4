#include "openclaw/graph/fuse.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/graph/passes.h"
#include "openclaw/graph/text/parser.h"

namespace oc {
namespace {

std::vector<int> AllOf(const Graph& graph) {
  std::vector<int> ids;
  for (const Node& node : graph.nodes) ids.push_back(node.id);
  return ids;
}

Graph TrainedGpt() {
  auto model = models::Gpt2({.layers = 2, .width = 8, .heads = 2, .context = 4, .vocabulary = 11});
  EXPECT_TRUE(model.ok()) << model.status();
  auto bound = model->Bind({{"B", 2}});
  EXPECT_TRUE(bound.ok()) << bound.status();
  auto joint = Differentiate(*bound);
  EXPECT_TRUE(joint.ok()) << joint.status();
  EXPECT_EQ(RunPasses(*joint, DefaultPasses(), {}), OkStatus());
  return *std::move(joint);
}

std::map<std::string, int> Count(const std::vector<Node>& nodes) {
  std::map<std::string, int> counts;
  for (const Node& node : nodes) ++counts[node.def->name];
  return counts;
}

// Each value is written before it is read, once; what the graph wants is written.
void ExpectSound(const Graph& graph, const std::vector<Node>& nodes) {
  std::set<int> written;
  for (const Node& node : nodes) {
    std::vector<TensorType> inputs;
    for (int v : node.inputs) {
      EXPECT_TRUE(graph.value(v).producer == kNone || written.count(v) != 0) << node.def->name;
      inputs.push_back(graph.value(v).type);
    }
    const auto types = node.def->infer({inputs, node.attrs});
    ASSERT_TRUE(types.ok()) << types.status();
    ASSERT_EQ(types->size(), node.outputs.size());
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      EXPECT_EQ(graph.value(node.outputs[i]).type, (*types)[i]) << node.def->name;
      EXPECT_TRUE(written.insert(node.outputs[i]).second);
    }
  }
  for (const Accumulator& a : graph.accumulators) {
    for (int v : a.contributions) EXPECT_EQ(written.count(v), 1u) << a.name;
  }
}

TEST(FuseNodes, TakesAllThatATransformerHas) {
  const Graph graph = TrainedGpt();
  const auto nodes = FuseNodes(graph, AllOf(graph), [](const Node&) { return true; });
  const auto counts = Count(nodes);
  // The first norm is of a sum with the positions, which have no batch.
  EXPECT_EQ(counts.at("add_layer_norm"), 4);
  EXPECT_EQ(counts.at("layer_norm"), 1);
  EXPECT_EQ(counts.at("layer_norm_grad"), 5);
  EXPECT_EQ(counts.count("layer_norm_grad_input") + counts.count("layer_norm_grad_weight"), 0u);
  EXPECT_EQ(counts.at("linear_gelu"), 2);
  EXPECT_EQ(counts.count("gelu"), 0u);
  EXPECT_EQ(counts.at("linear_grad_input_gelu"), 2);
  EXPECT_EQ(counts.count("gelu_grad"), 0u);
  int with_other = 0;
  for (const Node& node : nodes) {
    with_other += node.def->name == "layer_norm_grad" && node.inputs.size() == 6 ? 1 : 0;
  }
  EXPECT_EQ(with_other, 4);  // all but the last norm's
  ExpectSound(graph, nodes);
}

TEST(FuseNodes, LeavesWhatTheDeviceLacks) {
  const Graph graph = TrainedGpt();
  const auto plain = FuseNodes(graph, AllOf(graph), [](const Node&) { return false; });
  ASSERT_EQ(plain.size(), graph.nodes.size());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(plain[i].id, graph.nodes[i].id);
  const auto some =
      FuseNodes(graph, AllOf(graph), [](const Node& n) { return n.def->name == "add_layer_norm"; });
  EXPECT_EQ(Count(some).at("layer_norm_grad_input"), 5);
  ExpectSound(graph, some);
}

// Nodes of another segment are not there to be fused.
TEST(FuseNodes, TakesOnlyNodesOfTheList) {
  const Graph graph = TrainedGpt();
  std::vector<int> ids;
  for (const Node& node : graph.nodes) {
    if (node.def->name != "add" && node.def->name != "linear_grad_input") ids.push_back(node.id);
  }
  const auto counts = Count(FuseNodes(graph, ids, [](const Node&) { return true; }));
  EXPECT_EQ(counts.count("add_layer_norm") + counts.count("linear_grad_input_gelu"), 0u);
  EXPECT_EQ(counts.at("layer_norm_grad"), 5);
}

// The product's result is wanted besides, so it must be there.
TEST(FuseNodes, KeepsWhatIsReadElsewhere) {
  auto graph = ParseGraph(R"(graph g {
  data %dy: f32[2, 3]
  data %w: f32[3, 4]
  data %x: f32[2, 4]
  %3 = linear_grad_input(%dy, %w) : f32[2, 4]
  %4 = gelu_grad(%3, %x) {approximate: "tanh"} : f32[2, 4]
  output y = %4
  output more = %3
}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto all = [](const Node&) { return true; };
  EXPECT_EQ(FuseNodes(*graph, AllOf(*graph), all).size(), 2u);
  graph->outputs.pop_back();
  const auto fused = FuseNodes(*graph, AllOf(*graph), all);
  ASSERT_EQ(fused.size(), 1u);
  EXPECT_EQ(fused[0].attrs.String("approximate", "none"), "tanh");
}

}  // namespace
}  // namespace oc

#include <algorithm>
#include <map>
#include <set>

#include "openclaw/graph/passes.h"
#include "openclaw/graph/scopes.h"

namespace oc {
namespace {

bool IsBackward(const Node& node) {
  return node.phase == Phase::kInputGrad || node.phase == Phase::kWeightGrad;
}

bool MayRepeat(const Node& node) {
  return node.phase == Phase::kForward && node.def->updates.empty();
}

// A view is repeated with what it views, and only then: it has no memory of its own.
std::vector<bool> WithViews(const Graph& graph, std::vector<bool> repeat) {
  for (const Node& node : graph.nodes) {
    if (!MayRepeat(node)) {
      repeat[node.id] = false;
    } else if (node.def->is_view) {
      const int from = graph.value(node.inputs[0]).producer;
      repeat[node.id] = from != kNone && repeat[from];
    }
  }
  return repeat;
}

class Repeater {
 public:
  Repeater(Graph& graph, std::vector<bool> repeat, const std::function<int(const Node&)>& stage)
      : graph_(graph),
        repeat_(std::move(repeat)),
        stage_(stage),
        old_nodes_(static_cast<int>(graph.nodes.size())),
        copy_(graph.values.size(), kNone),
        copied_(graph.nodes.size(), false) {}

  Status Run() {
    std::vector<int> order;
    for (int id = 0; id < old_nodes_; ++id) {
      if (IsBackward(graph_.nodes[id])) OC_RETURN_IF_ERROR(RepeatFor(id, order));
      order.push_back(id);
    }
    return static_cast<int>(order.size()) == old_nodes_ ? OkStatus() : Reorder(graph_, order);
  }

 private:
  bool Repeats(int v, int reader) const {
    const int producer = graph_.values[v].producer;
    if (producer == kNone || producer >= old_nodes_ || !repeat_[producer]) return false;
    return !stage_ || stage_(graph_.nodes[producer]) == stage_(graph_.nodes[reader]);
  }

  // Copies, in their order, what `reader` needs and has no copy yet, and lets it read the copies.
  Status RepeatFor(int reader, std::vector<int>& order) {
    std::set<int> wanted;
    std::vector<int> pending = {reader};
    while (!pending.empty()) {
      const int id = pending.back();
      pending.pop_back();
      for (int v : graph_.nodes[id].inputs) {
        if (!Repeats(v, id)) continue;
        const int producer = graph_.values[v].producer;
        if (!copied_[producer] && wanted.insert(producer).second) pending.push_back(producer);
      }
    }
    for (int id : wanted) OC_RETURN_IF_ERROR(Copy(id, order));
    for (int& v : graph_.nodes[reader].inputs) {
      if (Repeats(v, reader)) v = copy_[v];
    }
    return OkStatus();
  }

  Status Copy(int id, std::vector<int>& order) {
    Node like = graph_.nodes[id];
    like.phase = Phase::kRecompute;
    like.forward = id;
    like.checkpoint = kNone;
    std::vector<int> inputs = like.inputs;
    for (int& v : inputs) {
      if (Repeats(v, id)) v = copy_[v];
    }
    OC_ASSIGN_OR_RETURN(const int copy, graph_.AddNode(like.def->name, inputs, like.attrs, like));
    for (size_t i = 0; i < like.outputs.size(); ++i) {
      copy_[like.outputs[i]] = graph_.nodes[copy].outputs[i];
    }
    copied_[id] = true;
    order.push_back(copy);
    return OkStatus();
  }

  Graph& graph_;
  const std::vector<bool> repeat_;
  const std::function<int(const Node&)>& stage_;
  const int old_nodes_;
  std::vector<int> copy_;     // value -> its repetition
  std::vector<bool> copied_;  // node
};

}  // namespace

Status Recompute(Graph& graph, const std::vector<bool>& nodes,
                 const std::function<int(const Node&)>& stage) {
  OC_CHECK(nodes.size() == graph.nodes.size(), "recompute: ", nodes.size(), " of ",
           graph.nodes.size());
  return Repeater(graph, WithViews(graph, nodes), stage).Run();
}

std::vector<bool> InteriorOf(const Graph& graph, const std::vector<int>& region) {
  std::vector<bool> interior(graph.nodes.size(), false);
  for (const Node& node : graph.nodes) {
    interior[node.id] = MayRepeat(node) && region[node.id] != kNone;
  }
  // Backwards: what only a view lets out leaves the region all the same.
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (node->phase != Phase::kForward) continue;
    const bool leaves = node->def->is_view && region[node->id] != kNone && !interior[node->id];
    for (int v : node->inputs) {
      const int producer = graph.value(v).producer;
      if (producer == kNone) continue;
      if (leaves || region[producer] != region[node->id]) interior[producer] = false;
    }
  }
  return interior;
}

std::vector<bool> MarkedNodes(const Graph& graph) {
  std::vector<int> region;
  for (const Node& node : graph.nodes) region.push_back(node.checkpoint);
  return InteriorOf(graph, region);
}

StatusOr<std::vector<bool>> NodesOfModules(const Graph& graph,
                                           const std::vector<std::string>& patterns) {
  std::vector<int> region(graph.nodes.size(), kNone);
  std::map<std::string, int> modules;
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (const Node& node : graph.nodes) {
      if (node.phase != Phase::kForward) continue;
      const std::string module = ModuleOf(node.scope, pattern);
      if (module.empty()) continue;
      any = true;
      if (region[node.id] != kNone) continue;
      region[node.id] = modules.try_emplace(module, modules.size()).first->second;
    }
    if (any) continue;
    return NoSuchModule(graph, "recompute", pattern);
  }
  return InteriorOf(graph, region);
}

Status RecomputeMarked(Graph& graph) { return Recompute(graph, MarkedNodes(graph)); }

}  // namespace oc

#include "openclaw/graph/fuse.h"

#include <algorithm>
#include <map>
#include <optional>

namespace oc {
namespace {

class Fuser {
 public:
  Fuser(const Graph& graph, const std::vector<int>& ids)
      : graph_(graph), ids_(ids), users_(graph.Users()), kept_(graph.values.size(), false) {
    for (size_t i = 0; i < ids.size(); ++i) place_[ids[i]] = i;
    for (const auto& [name, v] : graph.outputs) kept_[v] = true;
    for (const Accumulator& a : graph.accumulators) {
      for (int v : a.contributions) kept_[v] = true;
    }
    for (int v : {graph.loss_sum, graph.loss_count}) {
      if (v != kNone) kept_[v] = true;
    }
  }

  std::vector<Node> Run(const std::function<bool(const Node&)>& has) {
    for (int id : ids_) {
      for (const auto match : {&Fuser::Gelu, &Fuser::GeluGrad, &Fuser::AddNorm, &Fuser::NormGrad}) {
        if (gone_.count(id) != 0) break;
        const std::optional<Match> found = (this->*match)(graph_.node(id));
        if (!found.has_value() || found->node.def == nullptr || !has(found->node)) continue;
        for (int member : found->members) gone_.insert({member, nullptr});
        gone_[found->last] = std::make_unique<Node>(found->node);
      }
    }
    std::vector<Node> result;
    for (int id : ids_) {
      const auto it = gone_.find(id);
      if (it == gone_.end()) {
        result.push_back(graph_.node(id));
      } else if (it->second != nullptr) {
        result.push_back(*it->second);
      }
    }
    return result;
  }

 private:
  struct Match {
    Node node;
    std::vector<int> members;
    int last = kNone;  // of the members
  };

  bool Here(int id, const char* op) const {
    return id != kNone && place_.count(id) != 0 && gone_.count(id) == 0 &&
           graph_.node(id).def->name == op;
  }
  // The node of that op that computes the value, among those that are fused; null: none.
  const Node* Producer(int value, const char* op) const {
    const int id = graph_.value(value).producer;
    return Here(id, op) ? &graph_.node(id) : nullptr;
  }
  // Whether nothing but node `user` wants the value.
  bool OnlyFor(int value, int user) const {
    return !kept_[value] && users_[value].size() == 1 && users_[value][0] == user;
  }
  // Whether a node up to `last` that is no member reads the value.
  bool ReadBefore(int value, int last, const std::vector<int>& members) const {
    return std::any_of(users_[value].begin(), users_[value].end(), [&](int user) {
      return user <= last && place_.count(user) != 0 &&
             std::find(members.begin(), members.end(), user) == members.end();
    });
  }
  Match Made(const char* op, const Node& like, std::vector<int> members) const {
    Match match{.node = like, .members = std::move(members)};
    match.node.def = graph_.ops().Find(op);
    match.last = *std::max_element(match.members.begin(), match.members.end());
    return match;
  }

  // gelu(linear(x, w, bias)), whose input the gradient uses as well.
  std::optional<Match> Gelu(const Node& node) const {
    if (node.def->name != "gelu") return std::nullopt;
    const Node* product = Producer(node.inputs[0], "linear");
    if (product == nullptr || product->phase != node.phase || product->inputs.size() != 3 ||
        product->attrs.String("activation", "none") != "none") {
      return std::nullopt;
    }
    Match match = Made("linear_gelu", node, {product->id, node.id});
    if (ReadBefore(node.inputs[0], match.last, match.members)) return std::nullopt;
    match.node.inputs = product->inputs;
    match.node.outputs = {product->outputs[0], node.outputs[0]};
    return match;
  }

  // gelu_grad(linear_grad_input(dy, w), x).
  std::optional<Match> GeluGrad(const Node& node) const {
    if (node.def->name != "gelu_grad") return std::nullopt;
    const Node* product = Producer(node.inputs[0], "linear_grad_input");
    if (product == nullptr || product->phase != node.phase || !OnlyFor(node.inputs[0], node.id)) {
      return std::nullopt;
    }
    Match match = Made("linear_grad_input_gelu", node, {product->id, node.id});
    match.node.inputs = {product->inputs[0], product->inputs[1], node.inputs[1]};
    return match;
  }

  // layer_norm(add(a, b), gamma, beta), whose sum others use as well.
  std::optional<Match> AddNorm(const Node& node) const {
    if (node.def->name != "layer_norm" || node.inputs.size() != 3) return std::nullopt;
    const Node* add = Producer(node.inputs[0], "add");
    if (add == nullptr || add->phase != node.phase) return std::nullopt;
    const int a = add->inputs[0], b = add->inputs[1];
    if (!(graph_.value(a).type == graph_.value(b).type)) return std::nullopt;
    Match match = Made("add_layer_norm", node, {add->id, node.id});
    if (ReadBefore(node.inputs[0], match.last, match.members)) return std::nullopt;
    match.node.inputs = {a, b, node.inputs[1], node.inputs[2]};
    match.node.outputs = {add->outputs[0], node.outputs[0], node.outputs[1], node.outputs[2]};
    return match;
  }

  // layer_norm_grad_input, the layer_norm_grad_weight of the same layer, and what adds the gradient
  // of x's other uses.
  std::optional<Match> NormGrad(const Node& node) const {
    if (node.def->name != "layer_norm_grad_input" || node.inputs.size() != 5) return std::nullopt;
    const std::vector<int>& in = node.inputs;  // dy, x, gamma, mean, rstd
    const std::vector<int> wanted = {in[0], in[1], in[3], in[4]};
    const Node* weight = nullptr;
    for (int user : users_[in[4]]) {
      if (Here(user, "layer_norm_grad_weight") && graph_.node(user).inputs == wanted) {
        weight = &graph_.node(user);
      }
    }
    if (weight == nullptr) return std::nullopt;
    const int dx = node.outputs[0];
    const Node* add = nullptr;
    if (users_[dx].size() == 1 && Here(users_[dx][0], "add")) add = &graph_.node(users_[dx][0]);
    int other = kNone;
    if (add != nullptr && OnlyFor(dx, add->id)) {
      other = add->inputs[0] == dx ? add->inputs[1] : add->inputs[0];
      if (!(graph_.value(other).type == graph_.value(dx).type)) other = kNone;
    }
    std::vector<int> members = {node.id, weight->id};
    if (other != kNone) members.push_back(add->id);
    Match match = Made("layer_norm_grad", node, std::move(members));
    for (int v : {dx, weight->outputs[0], weight->outputs[1]}) {
      if (ReadBefore(v, match.last, match.members)) return std::nullopt;
    }
    if (other != kNone) match.node.inputs.push_back(other);
    match.node.outputs = {other == kNone ? dx : add->outputs[0], weight->outputs[0],
                          weight->outputs[1]};
    match.node.attrs = weight->attrs;
    return match;
  }

  const Graph& graph_;
  const std::vector<int>& ids_;
  const std::vector<std::vector<int>> users_;
  std::vector<bool> kept_;       // values that the graph itself wants
  std::map<int, size_t> place_;  // of the nodes that are fused
  // Nodes that are replaced; the last of each group by the fused one.
  std::map<int, std::unique_ptr<Node>> gone_;
};

}  // namespace

const std::vector<std::string>& FusedOps() {
  static const std::vector<std::string> ops = {"add_layer_norm", "layer_norm_grad", "linear_gelu",
                                               "linear_grad_input_gelu"};
  return ops;
}

bool IsFused(const std::string& op) {
  return std::find(FusedOps().begin(), FusedOps().end(), op) != FusedOps().end();
}

std::vector<Node> FuseNodes(const Graph& graph, const std::vector<int>& ids,
                            const std::function<bool(const Node&)>& has) {
  return Fuser(graph, ids).Run(has);
}

}  // namespace oc

#include "openclaw/graph/graph.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace oc {

const char* Name(ValueKind kind) {
  switch (kind) {
    case ValueKind::kResult: return "result";
    case ValueKind::kData: return "data";
    case ValueKind::kParameter: return "parameter";
    case ValueKind::kState: return "state";
    case ValueKind::kScalar: return "scalar";
    case ValueKind::kReduced: return "reduced";
  }
  return "?";
}

const char* Name(Phase phase) {
  switch (phase) {
    case Phase::kForward: return "forward";
    case Phase::kCount: return "count";
    case Phase::kRecompute: return "recompute";
    case Phase::kInputGrad: return "input_grad";
    case Phase::kWeightGrad: return "weight_grad";
    case Phase::kUpdate: return "update";
  }
  return "?";
}

int Graph::FindValue(const std::string& wanted) const {
  for (const Value& v : values) {
    if (v.name == wanted) return v.id;
  }
  return kNone;
}

const Variable* Graph::FindVariable(int value) const {
  for (const auto* list : {&parameters, &states}) {
    for (const Variable& v : *list) {
      if (v.value == value) return &v;
    }
  }
  return nullptr;
}

int Graph::AddInput(const std::string& name, TensorType type, ValueKind kind, Scope scope) {
  const int id = static_cast<int>(values.size());
  values.push_back({.id = id, .name = name, .type = std::move(type), .kind = kind, .scope = scope});
  return id;
}

namespace {

StatusOr<std::vector<TensorType>> InferNode(const Graph& graph, const Node& node) {
  const OpDef& def = *node.def;
  const int n = static_cast<int>(node.inputs.size());
  const auto where = [&] {
    return absl::StrCat("op ", def.name, node.scope.empty() ? "" : absl::StrCat(" in ", node.scope));
  };
  if (n < def.min_inputs || (def.max_inputs >= 0 && n > def.max_inputs)) {
    return InvalidArgument(where(), ": ", n, " inputs, takes ", def.min_inputs, " to ",
                           def.max_inputs < 0 ? "any number" : absl::StrCat(def.max_inputs));
  }
  for (const auto& [name, value] : node.attrs.values()) {
    auto spec = std::find_if(def.attrs.begin(), def.attrs.end(),
                             [&name = name](const AttrSpec& s) { return s.name == name; });
    if (spec == def.attrs.end()) return InvalidArgument(where(), ": unknown attribute ", name);
    if (spec->example.index() != value.index()) {
      return InvalidArgument(where(), ": attribute ", name, " has the wrong type");
    }
  }
  for (const AttrSpec& spec : def.attrs) {
    if (spec.required && !node.attrs.Has(spec.name)) {
      return InvalidArgument(where(), ": attribute ", spec.name, " is missing");
    }
  }
  std::vector<TensorType> types;
  for (int id : node.inputs) {
    if (id < 0 || id >= static_cast<int>(graph.values.size())) {
      return InvalidArgument(where(), ": input value ", id, " does not exist");
    }
    types.push_back(graph.values[id].type);
  }
  auto outputs = def.infer({types, node.attrs});
  if (!outputs.ok()) return Annotate(outputs.status(), where());
  return outputs;
}

}  // namespace

StatusOr<int> Graph::AddNode(const std::string& op, std::vector<int> inputs, Attributes attrs,
                             const Node& like) {
  Node node = like;
  node.id = static_cast<int>(nodes.size());
  if (node.origin == kNone) node.origin = node.id;
  node.def = ops_->Find(op);
  if (node.def == nullptr) return ops_->Unknown(op);
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  node.outputs.clear();
  OC_ASSIGN_OR_RETURN(std::vector<TensorType> types, InferNode(*this, node));
  for (size_t i = 0; i < types.size(); ++i) {
    const int id = static_cast<int>(values.size());
    values.push_back({.id = id, .name = absl::StrCat(id), .type = std::move(types[i]),
                      .producer = node.id, .output = static_cast<int>(i),
                      .opaque = (node.def->opaque_outputs >> i & 1) != 0});
    node.outputs.push_back(id);
  }
  nodes.push_back(std::move(node));
  return nodes.back().id;
}

std::vector<std::vector<int>> Graph::Users() const {
  std::vector<std::vector<int>> users(values.size());
  for (const Node& node : nodes) {
    for (int input : node.inputs) {
      if (users[input].empty() || users[input].back() != node.id) users[input].push_back(node.id);
    }
  }
  return users;
}

StatusOr<Graph> Graph::Bind(const DimBinding& binding) const {
  for (const auto& [name, size] : binding) {
    if (size < 0) return InvalidArgument("bind dimension ", name, ": ", size, " is negative");
  }
  Graph bound = *this;
  for (Value& v : bound.values) {
    if (v.producer == kNone) v.type = v.type.Bind(binding);
  }
  for (Node& node : bound.nodes) {
    node.attrs = node.attrs.Bind(binding);
    OC_ASSIGN_OR_RETURN(std::vector<TensorType> types, InferNode(bound, node));
    for (size_t i = 0; i < node.outputs.size(); ++i) bound.values[node.outputs[i]].type = types[i];
  }
  return bound;
}

std::vector<std::string> Graph::UnboundDims() const {
  std::set<std::string> names;
  for (const Value& v : values) {
    for (const Dim& d : v.type.shape.dims()) names.insert(d.names().begin(), d.names().end());
  }
  return {names.begin(), names.end()};
}

namespace {

Status VerifyNodes(const Graph& graph) {
  const int num_values = static_cast<int>(graph.values.size());
  std::vector<bool> defined(num_values, false);
  for (const Value& v : graph.values) defined[v.id] = v.producer == kNone;
  for (const Node& node : graph.nodes) {
    const std::string where = absl::StrCat("node ", node.id, " (", node.def->name, ")");
    for (int input : node.inputs) {
      if (input < 0 || input >= num_values) {
        return InvalidArgument("graph ", graph.name, ": ", where, " reads value ", input,
                               ", which does not exist");
      }
      if (!defined[input]) {
        return InvalidArgument("graph ", graph.name, ": ", where, " reads %",
                               graph.values[input].name,
                               " before it is computed: a cycle, or nodes out of order");
      }
    }
    OC_ASSIGN_OR_RETURN(std::vector<TensorType> types, InferNode(graph, node));
    if (types.size() != node.outputs.size()) {
      return InvalidArgument("graph ", graph.name, ": ", where, " has ", node.outputs.size(),
                             " outputs, its op gives ", types.size());
    }
    for (size_t i = 0; i < types.size(); ++i) {
      const int id = node.outputs[i];
      if (id < 0 || id >= num_values || defined[id] || graph.values[id].producer != node.id ||
          graph.values[id].output != static_cast<int>(i)) {
        return InvalidArgument("graph ", graph.name, ": output ", i, " of ", where,
                               " is no value of its own");
      }
      if (!(graph.values[id].type == types[i])) {
        return InvalidArgument("graph ", graph.name, ": output ", i, " of ", where, " is ",
                               graph.values[id].type.ToString(), ", its op gives ",
                               types[i].ToString());
      }
      defined[id] = true;
    }
  }
  for (const Value& v : graph.values) {
    if (!defined[v.id]) {
      return InvalidArgument("graph ", graph.name, ": value %", v.name, " is never computed");
    }
  }
  return OkStatus();
}

}  // namespace

Status Verify(const Graph& graph) {
  const int num_values = static_cast<int>(graph.values.size());
  std::set<std::string> names;
  for (int i = 0; i < num_values; ++i) {
    const Value& v = graph.values[i];
    if (v.id != i) return InvalidArgument("graph ", graph.name, ": value ", i, " carries id ", v.id);
    if (!names.insert(v.name).second) {
      return InvalidArgument("graph ", graph.name, ": two values named %", v.name);
    }
    const bool result = v.kind == ValueKind::kResult;
    if (result != (v.producer != kNone) || v.producer >= static_cast<int>(graph.nodes.size())) {
      return InvalidArgument("graph ", graph.name, ": value %", v.name, " of kind ", Name(v.kind),
                             " has producer ", v.producer);
    }
  }
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    if (graph.nodes[i].id != i || graph.nodes[i].def == nullptr) {
      return InvalidArgument("graph ", graph.name, ": node ", i, " is damaged");
    }
  }
  OC_RETURN_IF_ERROR(VerifyNodes(graph));
  const auto check = [&](int id, const char* what, bool optional) -> Status {
    if ((id == kNone && optional) || (id >= 0 && id < num_values)) return OkStatus();
    return InvalidArgument("graph ", graph.name, ": ", what, " names value ", id,
                           ", which does not exist");
  };
  OC_RETURN_IF_ERROR(check(graph.loss_sum, "the loss", true));
  OC_RETURN_IF_ERROR(check(graph.loss_count, "the loss count", true));
  for (const auto& [name, id] : graph.outputs) {
    OC_RETURN_IF_ERROR(check(id, "an output", false));
  }
  for (const auto* list : {&graph.parameters, &graph.states}) {
    for (const Variable& v : *list) {
      OC_RETURN_IF_ERROR(check(v.value, "a variable", false));
      OC_RETURN_IF_ERROR(check(v.updated, "an update", true));
      if (v.updated != kNone && !(graph.values[v.updated].type == graph.values[v.value].type)) {
        return InvalidArgument("graph ", graph.name, ": the update of %",
                               graph.values[v.value].name, " has another type");
      }
    }
  }
  for (const Accumulator& a : graph.accumulators) {
    OC_RETURN_IF_ERROR(check(a.target, "an accumulator's target", true));
    for (int id : a.contributions) OC_RETURN_IF_ERROR(check(id, "an accumulator", false));
  }
  return OkStatus();
}

}  // namespace oc

#include "openclaw/graph/graph.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace oc {

const char* Name(ValueKind kind) {
  switch (kind) {
    case ValueKind::kResult:
      return "result";
    case ValueKind::kData:
      return "data";
    case ValueKind::kParameter:
      return "parameter";
    case ValueKind::kState:
      return "state";
    case ValueKind::kScalar:
      return "scalar";
    case ValueKind::kReduced:
      return "reduced";
  }
  return "?";
}

const char* Name(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kCount:
      return "count";
    case Phase::kRecompute:
      return "recompute";
    case Phase::kInputGrad:
      return "input_grad";
    case Phase::kWeightGrad:
      return "weight_grad";
    case Phase::kUpdate:
      return "update";
    case Phase::kPrologue:
      return "prologue";
  }
  return "?";
}

const char* Name(Scope scope) {
  switch (scope) {
    case Scope::kMicroBatch:
      return "micro_batch";
    case Scope::kStep:
      return "step";
  }
  return "?";
}

const char* Name(Accumulator::Kind kind) {
  switch (kind) {
    case Accumulator::Kind::kGradient:
      return "gradient";
    case Accumulator::Kind::kState:
      return "state";
    case Accumulator::Kind::kCount:
      return "count";
    case Accumulator::Kind::kMetric:
      return "metric";
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

// What a file or a text may say and no machine can hold. Keeps sizes far from overflow.
constexpr int64_t kMostElements = int64_t{1} << 50;

Status CheckType(const TensorType& type) {
  int64_t elements = 1;
  for (const Dim& d : type.shape.dims()) {
    if (d.factor() < 0) return InvalidArgument(type.ToString(), " has a negative dimension");
    // A zero does not excuse the other dimensions: their product may be asked for.
    const int64_t factor = std::max<int64_t>(d.factor(), 1);
    if (factor > kMostElements / elements) return InvalidArgument(type.ToString(), " is too large");
    elements *= factor;
  }
  return OkStatus();
}

// Shape rules add and multiply attributes: absurd ones stop here. A random op's stream is any
// number.
Status CheckAttribute(const AttrValue& value, bool any_number) {
  const auto check = [](int64_t n, int64_t most) -> Status {
    if (n <= most && n >= -most) return OkStatus();
    return InvalidArgument(n, " is out of range");
  };
  if (const auto* shape = std::get_if<Shape>(&value)) return CheckType({DType::kF32, *shape});
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    for (int64_t n : *list) OC_RETURN_IF_ERROR(check(n, int64_t{1} << 31));
  }
  const auto* number = std::get_if<int64_t>(&value);
  return number == nullptr || any_number ? OkStatus() : check(*number, kMostElements);
}

StatusOr<std::vector<TensorType>> InferNode(const Graph& graph, const Node& node) {
  const OpDef& def = *node.def;
  const int n = static_cast<int>(node.inputs.size());
  const auto where = [&] {
    return absl::StrCat("op ", def.name,
                        node.scope.empty() ? "" : absl::StrCat(" in ", node.scope));
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
    OC_RETURN_IF_ERROR(
        Annotate(CheckAttribute(value, def.random), absl::StrCat(where(), ": attribute ", name)));
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
    OC_RETURN_IF_ERROR(Annotate(CheckType(types.back()), absl::StrCat(where(), ": an input")));
  }
  auto outputs = def.infer({types, node.attrs});
  if (!outputs.ok()) return Annotate(outputs.status(), where());
  for (const TensorType& type : *outputs) {
    OC_RETURN_IF_ERROR(Annotate(CheckType(type), absl::StrCat(where(), ": its output")));
  }
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
    values.push_back({.id = id,
                      .name = absl::StrCat(id),
                      .type = std::move(types[i]),
                      .producer = node.id,
                      .output = static_cast<int>(i),
                      .opaque = HasOutput(node.def->opaque_outputs, i)});
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
    if (types.size() != node.outputs.size()) {
      return Internal("bind graph ", name, ": op ", node.def->name, " gives ", types.size(),
                      " outputs, had ", node.outputs.size());
    }
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

// Whether `id` is a value; kNone passes where it is optional.
Status CheckValue(const Graph& graph, int id, const std::string& what, bool optional = false) {
  const int num_values = static_cast<int>(graph.values.size());
  if ((id == kNone && optional) || (id >= 0 && id < num_values)) return OkStatus();
  return InvalidArgument("graph ", graph.name, ": ", what, " names value ", id,
                         ", which does not exist");
}

Status VerifyResults(const Graph& graph) {
  const std::pair<const char*, int> losses[] = {{"the loss", graph.loss_sum},
                                                {"the loss count", graph.loss_count}};
  for (const auto& [what, id] : losses) {
    OC_RETURN_IF_ERROR(CheckValue(graph, id, what, true));
    if (id == kNone) continue;
    const TensorType& type = graph.values[id].type;
    if (!IsFloat(type.dtype) || type.shape.rank() != 0) {
      return InvalidArgument("graph ", graph.name, ": ", what, " is ", type.ToString(),
                             ", wants f32[]");
    }
  }
  std::set<std::string> names;
  for (const auto& [name, id] : graph.outputs) {
    OC_RETURN_IF_ERROR(CheckValue(graph, id, absl::StrCat("output ", name)));
    if (!names.insert(name).second) {
      return InvalidArgument("graph ", graph.name, ": two outputs named ", name);
    }
  }
  return OkStatus();
}

// Each parameter and state stands once in its list.
Status VerifyVariables(const Graph& graph) {
  std::vector<bool> listed(graph.values.size(), false);
  const std::pair<const std::vector<Variable>*, ValueKind> lists[] = {
      {&graph.parameters, ValueKind::kParameter}, {&graph.states, ValueKind::kState}};
  for (const auto& [list, kind] : lists) {
    for (const Variable& v : *list) {
      OC_RETURN_IF_ERROR(CheckValue(graph, v.value, absl::StrCat("a ", Name(kind))));
      OC_RETURN_IF_ERROR(CheckValue(graph, v.updated, "an update", true));
      const Value& value = graph.values[v.value];
      if (value.kind != kind || listed[v.value]) {
        return InvalidArgument("graph ", graph.name, ": %", value.name, ", a ", Name(value.kind),
                               ", is listed ", listed[v.value] ? "twice" : "as a ",
                               listed[v.value] ? "" : Name(kind));
      }
      listed[v.value] = true;
      if (v.updated != kNone && !(graph.values[v.updated].type == value.type)) {
        return InvalidArgument("graph ", graph.name, ": the update of %", value.name,
                               " has another type: ", graph.values[v.updated].type.ToString(),
                               ", wants ", value.type.ToString());
      }
    }
  }
  for (const Value& v : graph.values) {
    if ((v.kind == ValueKind::kParameter || v.kind == ValueKind::kState) && !listed[v.id]) {
      return InvalidArgument("graph ", graph.name, ": ", Name(v.kind), " %", v.name,
                             " has no initial value: it is in no list");
    }
  }
  return OkStatus();
}

Status VerifyAccumulators(const Graph& graph) {
  std::set<std::string> names;
  for (const Accumulator& a : graph.accumulators) {
    if (!names.insert(a.name).second) {
      return InvalidArgument("graph ", graph.name, ": two sums named ", a.name);
    }
    const bool has_target =
        a.kind == Accumulator::Kind::kGradient || a.kind == Accumulator::Kind::kState;
    const std::string what = absl::StrCat("sum ", a.name);
    OC_RETURN_IF_ERROR(CheckValue(graph, a.target, what, !has_target));
    for (int id : a.contributions) OC_RETURN_IF_ERROR(CheckValue(graph, id, what));
    if (!has_target) continue;
    const Value& target = graph.values[a.target];
    const bool gradient = a.kind == Accumulator::Kind::kGradient;
    if (target.kind != (gradient ? ValueKind::kParameter : ValueKind::kState)) {
      return InvalidArgument("graph ", graph.name, ": ", what, " is for %", target.name, ", a ",
                             Name(target.kind));
    }
    for (int id : a.contributions) {
      // A gradient may be summed in a wider type than its parameter's.
      const TensorType& type = graph.values[id].type;
      const bool wider = gradient && type.shape == target.type.shape && IsFloat(type.dtype) &&
                         SizeInBits(type.dtype) >= SizeInBits(target.type.dtype);
      if (type == target.type || wider) continue;
      return InvalidArgument("graph ", graph.name, ": ", what, " adds %", graph.values[id].name,
                             " ", graph.values[id].type.ToString(), " for %", target.name, " ",
                             target.type.ToString());
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
    if (v.id != i)
      return InvalidArgument("graph ", graph.name, ": value ", i, " carries id ", v.id);
    if (!names.insert(v.name).second) {
      return InvalidArgument("graph ", graph.name, ": two values named %", v.name);
    }
    const bool result = v.kind == ValueKind::kResult;
    if (result != (v.producer != kNone) || v.producer >= static_cast<int>(graph.nodes.size())) {
      return InvalidArgument("graph ", graph.name, ": value %", v.name, " of kind ", Name(v.kind),
                             " has producer ", v.producer);
    }
    OC_RETURN_IF_ERROR(
        Annotate(CheckType(v.type), absl::StrCat("graph ", graph.name, ": value %", v.name)));
  }
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    if (graph.nodes[i].id != i || graph.nodes[i].def == nullptr) {
      return InvalidArgument("graph ", graph.name, ": node ", i, " is damaged");
    }
    const int forward = graph.nodes[i].forward;
    if (forward != kNone && (forward < 0 || forward >= static_cast<int>(graph.nodes.size()))) {
      return InvalidArgument("graph ", graph.name, ": node ", i, " (", graph.nodes[i].def->name,
                             ") belongs to node ", forward, ", which does not exist");
    }
  }
  OC_RETURN_IF_ERROR(VerifyNodes(graph));
  OC_RETURN_IF_ERROR(VerifyResults(graph));
  OC_RETURN_IF_ERROR(VerifyVariables(graph));
  return VerifyAccumulators(graph);
}

}  // namespace oc

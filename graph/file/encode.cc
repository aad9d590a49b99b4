#include "openclaw/graph/file/encode.h"

#include "file/graph.pb.h"

namespace oc {
namespace {

namespace pb = ::openclaw::file;

void EncodeShape(const Shape& shape, pb::Shape& out) {
  for (const Dim& dim : shape.dims()) {
    pb::Dim& d = *out.add_dims();
    d.set_factor(dim.factor());
    for (const std::string& name : dim.names()) d.add_names(name);
  }
}

struct AttributeEncoder {
  pb::Attribute& out;
  void operator()(bool v) const { out.set_boolean(v); }
  void operator()(int64_t v) const { out.set_integer(v); }
  void operator()(double v) const { out.set_real(v); }
  void operator()(const std::string& v) const { out.set_text(v); }
  void operator()(const std::vector<int64_t>& v) const {
    pb::Ints& ints = *out.mutable_integers();
    for (int64_t i : v) ints.add_values(i);
  }
  void operator()(const Shape& v) const { EncodeShape(v, *out.mutable_shape()); }
  void operator()(DType v) const { out.set_dtype(static_cast<int32_t>(v)); }
};

void EncodeNode(const Node& node, pb::Node& out) {
  out.set_op(node.def->name);
  out.set_version(node.def->version);
  for (int v : node.inputs) out.add_inputs(v);
  for (int v : node.outputs) out.add_outputs(v);
  for (const auto& [name, value] : node.attrs.values()) {
    pb::Attribute& attribute = *out.add_attributes();
    attribute.set_name(name);
    std::visit(AttributeEncoder{attribute}, value);
  }
  out.set_phase(static_cast<int32_t>(node.phase));
  if (node.forward != kNone) out.set_forward(node.forward);
  if (node.origin != kNone) out.set_origin(node.origin);
  out.set_scope(node.scope);
  if (node.checkpoint != kNone) out.set_checkpoint(node.checkpoint);
}

void EncodeVariable(const Variable& variable, pb::Variable& out) {
  out.set_value(variable.value);
  pb::Initializer& init = *out.mutable_init();
  init.set_kind(static_cast<int32_t>(variable.init.kind));
  init.set_a(variable.init.a);
  init.set_b(variable.init.b);
  out.set_decay(variable.decay);
  if (variable.updated != kNone) out.set_updated(variable.updated);
}

// What a file says as a number, as the enumerator it stands for.
template <typename E>
Status DecodeEnum(int32_t number, E last, const char* what, E& out) {
  if (number < 0 || number > static_cast<int32_t>(last)) {
    return InvalidArgument("unknown ", what, " ", number);
  }
  out = static_cast<E>(number);
  return OkStatus();
}

Status DecodeDType(int32_t number, DType& out) {
  if (number < static_cast<int32_t>(DType::kF32) || number > static_cast<int32_t>(DType::kBool)) {
    return InvalidArgument("unknown dtype number ", number);
  }
  out = static_cast<DType>(number);
  return OkStatus();
}

StatusOr<Shape> DecodeShape(const pb::Shape& in) {
  std::vector<Dim> dims;
  for (const pb::Dim& d : in.dims()) {
    if (d.factor() < 0) return InvalidArgument("negative dimension ", d.factor());
    Dim dim(d.factor());
    for (const std::string& name : d.names()) {
      OC_ASSIGN_OR_RETURN(const Dim named, Dim::Parse(name));
      dim = dim * named;
    }
    dims.push_back(dim);
  }
  return Shape(std::move(dims));
}

StatusOr<AttrValue> DecodeAttribute(const pb::Attribute& in) {
  switch (in.value_case()) {
    case pb::Attribute::kBoolean:
      return AttrValue(in.boolean());
    case pb::Attribute::kInteger:
      return AttrValue(in.integer());
    case pb::Attribute::kReal:
      return AttrValue(in.real());
    case pb::Attribute::kText:
      return AttrValue(in.text());
    case pb::Attribute::kIntegers:
      return AttrValue(
          std::vector<int64_t>(in.integers().values().begin(), in.integers().values().end()));
    case pb::Attribute::kShape: {
      OC_ASSIGN_OR_RETURN(Shape shape, DecodeShape(in.shape()));
      return AttrValue(std::move(shape));
    }
    case pb::Attribute::kDtype: {
      DType dtype = DType::kF32;
      OC_RETURN_IF_ERROR(DecodeDType(in.dtype(), dtype));
      return AttrValue(dtype);
    }
    case pb::Attribute::VALUE_NOT_SET:
      break;
  }
  return InvalidArgument("a value of a kind that is not known here");
}

Status DecodeValue(const pb::Value& in, Value& out) {
  out.name = in.name();
  OC_RETURN_IF_ERROR(DecodeDType(in.type().dtype(), out.type.dtype));
  OC_ASSIGN_OR_RETURN(out.type.shape, DecodeShape(in.type().shape()));
  OC_RETURN_IF_ERROR(DecodeEnum(in.kind(), ValueKind::kReduced, "kind of value", out.kind));
  OC_RETURN_IF_ERROR(DecodeEnum(in.scope(), Scope::kStep, "scope", out.scope));
  out.opaque = in.opaque();
  return OkStatus();
}

Status DecodeNode(const pb::Node& in, const OpRegistry& ops, Node& out) {
  out.def = ops.Find(in.op());
  if (out.def == nullptr) return ops.Unknown(in.op());
  if (in.version() != out.def->version) {
    return InvalidArgument("op ", in.op(), " is of version ", in.version(), ", known is version ",
                           out.def->version,
                           in.version() > out.def->version ? ": a newer release wrote it" : "");
  }
  out.inputs.assign(in.inputs().begin(), in.inputs().end());
  out.outputs.assign(in.outputs().begin(), in.outputs().end());
  for (const pb::Attribute& attribute : in.attributes()) {
    const std::string context =
        absl::StrCat("op ", in.op(), ", attribute '", attribute.name(), "'");
    auto value = DecodeAttribute(attribute);
    if (!value.ok()) return Annotate(value.status(), context);
    if (out.attrs.Has(attribute.name())) return InvalidArgument(context, " stands twice");
    out.attrs.Set(attribute.name(), *std::move(value));
  }
  OC_RETURN_IF_ERROR(DecodeEnum(in.phase(), Phase::kPrologue, "phase", out.phase));
  out.forward = in.has_forward() ? in.forward() : kNone;
  out.origin = in.has_origin() ? in.origin() : kNone;
  out.scope = in.scope();
  out.checkpoint = in.has_checkpoint() ? in.checkpoint() : kNone;
  return OkStatus();
}

Status DecodeVariable(const pb::Variable& in, Variable& out) {
  out.value = in.value();
  OC_RETURN_IF_ERROR(DecodeEnum(in.init().kind(), Initializer::Kind::kUniform,
                                "kind of initial value", out.init.kind));
  out.init.a = in.init().a();
  out.init.b = in.init().b();
  out.decay = in.decay();
  out.updated = in.has_updated() ? in.updated() : kNone;
  return OkStatus();
}

Status DecodeAccumulator(const pb::Accumulator& in, Accumulator& out) {
  OC_RETURN_IF_ERROR(DecodeEnum(in.kind(), Accumulator::Kind::kMetric, "kind of sum", out.kind));
  out.name = in.name();
  out.target = in.has_target() ? in.target() : kNone;
  out.contributions.assign(in.contributions().begin(), in.contributions().end());
  out.rate = in.rate();
  return OkStatus();
}

// A value's producer stands with the node that lists it among its outputs.
Status LinkProducers(Graph& graph) {
  for (const Node& node : graph.nodes) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const int id = node.outputs[i];
      if (id < 0 || id >= static_cast<int>(graph.values.size()) ||
          graph.values[id].producer != kNone) {
        return InvalidArgument("node ", node.id, " (", node.def->name, "): output ", i, ", value ",
                               id, ", does not exist or has another producer");
      }
      graph.values[id].producer = node.id;
      graph.values[id].output = static_cast<int>(i);
    }
  }
  return OkStatus();
}

Status DecodeMessage(const pb::Graph& in, Graph& graph) {
  graph.name = in.name();
  for (const pb::Value& v : in.values()) {
    Value value{.id = static_cast<int>(graph.values.size())};
    OC_RETURN_IF_ERROR(
        Annotate(DecodeValue(v, value), absl::StrCat("value ", value.id, " '", v.name(), "'")));
    graph.values.push_back(std::move(value));
  }
  for (const pb::Node& n : in.nodes()) {
    Node node;
    node.id = static_cast<int>(graph.nodes.size());
    OC_RETURN_IF_ERROR(Annotate(DecodeNode(n, graph.ops(), node), absl::StrCat("node ", node.id)));
    graph.nodes.push_back(std::move(node));
  }
  OC_RETURN_IF_ERROR(LinkProducers(graph));
  for (const auto& [list, out] :
       {std::pair(&in.parameters(), &graph.parameters), std::pair(&in.states(), &graph.states)}) {
    for (const pb::Variable& v : *list) {
      OC_RETURN_IF_ERROR(DecodeVariable(v, out->emplace_back()));
    }
  }
  for (const pb::Accumulator& a : in.accumulators()) {
    OC_RETURN_IF_ERROR(Annotate(DecodeAccumulator(a, graph.accumulators.emplace_back()),
                                absl::StrCat("sum '", a.name(), "'")));
  }
  graph.loss_sum = in.has_loss_sum() ? in.loss_sum() : kNone;
  graph.loss_count = in.has_loss_count() ? in.loss_count() : kNone;
  for (const pb::Output& o : in.outputs()) graph.outputs.emplace_back(o.name(), o.value());
  return OkStatus();
}

}  // namespace

StatusOr<std::string> EncodeGraph(const Graph& graph) {
  OC_RETURN_IF_ERROR(Verify(graph));
  pb::Graph out;
  out.set_name(graph.name);
  for (const Value& v : graph.values) {
    pb::Value& value = *out.add_values();
    value.set_name(v.name);
    value.mutable_type()->set_dtype(static_cast<int32_t>(v.type.dtype));
    EncodeShape(v.type.shape, *value.mutable_type()->mutable_shape());
    value.set_kind(static_cast<int32_t>(v.kind));
    value.set_scope(static_cast<int32_t>(v.scope));
    value.set_opaque(v.opaque);
  }
  for (const Node& node : graph.nodes) EncodeNode(node, *out.add_nodes());
  for (const Variable& v : graph.parameters) EncodeVariable(v, *out.add_parameters());
  for (const Variable& v : graph.states) EncodeVariable(v, *out.add_states());
  for (const Accumulator& a : graph.accumulators) {
    pb::Accumulator& sum = *out.add_accumulators();
    sum.set_kind(static_cast<int32_t>(a.kind));
    sum.set_name(a.name);
    if (a.target != kNone) sum.set_target(a.target);
    for (int v : a.contributions) sum.add_contributions(v);
    sum.set_rate(a.rate);
  }
  if (graph.loss_sum != kNone) out.set_loss_sum(graph.loss_sum);
  if (graph.loss_count != kNone) out.set_loss_count(graph.loss_count);
  for (const auto& [name, id] : graph.outputs) {
    pb::Output& output = *out.add_outputs();
    output.set_name(name);
    output.set_value(id);
  }
  std::string bytes;
  if (!out.SerializeToString(&bytes)) return InvalidArgument("graph ", graph.name, ": too large");
  return bytes;
}

StatusOr<Graph> DecodeGraph(const std::string& bytes, std::shared_ptr<const OpRegistry> ops,
                            std::vector<std::string>* without_init) {
  pb::Graph in;
  if (!in.ParseFromString(bytes)) return DataLoss("the graph section is no graph message");
  Graph graph(std::move(ops));
  OC_RETURN_IF_ERROR(Annotate(DecodeMessage(in, graph), absl::StrCat("graph ", in.name())));
  OC_RETURN_IF_ERROR(Verify(graph));
  if (without_init != nullptr) {
    for (const auto* list : {&in.parameters(), &in.states()}) {
      for (const pb::Variable& v : *list) {
        if (!v.has_init()) without_init->push_back(graph.value(v.value()).name);
      }
    }
  }
  return graph;
}

}  // namespace oc

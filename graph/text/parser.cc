#include "openclaw/graph/text/parser.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <unordered_map>

#include "openclaw/graph/text/reader.h"
#include "openclaw/graph/text/words.h"

namespace oc {
namespace {

constexpr std::array kInputKinds = {ValueKind::kData, ValueKind::kParameter, ValueKind::kState,
                                    ValueKind::kScalar, ValueKind::kReduced};
constexpr std::array kPhases = {Phase::kForward,   Phase::kCount,      Phase::kRecompute,
                                Phase::kInputGrad, Phase::kWeightGrad, Phase::kUpdate,
                                Phase::kPrologue};
constexpr std::array kScopes = {Scope::kMicroBatch, Scope::kStep};
constexpr std::array kSums = {Accumulator::Kind::kGradient, Accumulator::Kind::kState,
                              Accumulator::Kind::kCount, Accumulator::Kind::kMetric};

// The one of `all` that is called `word`.
template <typename T, size_t n>
std::optional<T> Named(const std::array<T, n>& all, const std::string& word) {
  for (T t : all) {
    if (word == Name(t)) return t;
  }
  return std::nullopt;
}

bool IsNumber(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

class Parser {
 public:
  Parser(const std::string& text, std::shared_ptr<const OpRegistry> ops)
      : reader_(text), graph_(std::move(ops)) {}

  StatusOr<Graph> Run() {
    reader_.SkipLines();
    OC_RETURN_IF_ERROR(reader_.Expect("graph"));
    OC_ASSIGN_OR_RETURN(graph_.name, reader_.Word("the graph's name"));
    OC_RETURN_IF_ERROR(reader_.Expect("{"));
    OC_RETURN_IF_ERROR(reader_.ExpectLineEnd());
    reader_.SkipLines();
    while (!reader_.Accept("}")) {
      if (reader_.AtEnd()) return reader_.Expected("'}'");
      OC_RETURN_IF_ERROR(Line());
      OC_RETURN_IF_ERROR(reader_.ExpectLineEnd());
      reader_.SkipLines();
    }
    reader_.SkipLines();
    if (!reader_.AtEnd()) return reader_.Expected("the end of the text");
    for (const ForwardRef& ref : forward_refs_) {
      OC_ASSIGN_OR_RETURN(graph_.nodes[ref.node].forward, Resolve(ref));
    }
    OC_RETURN_IF_ERROR(Verify(graph_));
    return std::move(graph_);
  }

 private:
  struct ForwardRef {
    int node;
    std::string name;
    size_t position;
  };

  Status Line() {
    const std::string word = reader_.PeekWord();
    if (word.empty()) return NodeLine();
    if (const auto kind = Named(kInputKinds, word)) {
      reader_.Accept(word);
      return InputLine(*kind);
    }
    if (reader_.Accept("sum")) return SumLine();
    if (reader_.Accept("output")) return OutputLine();
    if (reader_.Accept("update")) return UpdateLine();
    if (reader_.Accept("loss")) {
      OC_ASSIGN_OR_RETURN(graph_.loss_sum, Value(true));
      OC_RETURN_IF_ERROR(reader_.Expect("/"));
      OC_ASSIGN_OR_RETURN(graph_.loss_count, Value(true));
      return OkStatus();
    }
    if (reader_.Accept("parameters")) return OrderLine(graph_.parameters);
    if (reader_.Accept("states")) return OrderLine(graph_.states);
    return reader_.Expected(
        "a line that begins with %, data, parameter, state, scalar, reduced, sum, "
        "loss, output, update, parameters, states or '}'");
  }

  // "%name", not looked up. Sets `position` to where it stands.
  StatusOr<std::string> ValueName(size_t* position) {
    reader_.SkipBlanks();
    *position = reader_.position();
    if (!reader_.Accept("%")) return reader_.Expected("a value such as %name");
    if (reader_.position() != *position + 1) return reader_.Expected("a name right after %");
    return reader_.Word("a name");
  }

  // A value that stands above; kNone for "_" where that is allowed.
  StatusOr<int> Value(bool optional = false) {
    if (optional && reader_.Accept("_")) return kNone;
    size_t position;
    OC_ASSIGN_OR_RETURN(const std::string name, ValueName(&position));
    const auto found = ids_.find(name);
    if (found == ids_.end()) {
      return reader_.Error(position, absl::StrCat("value %", QuoteWord(name),
                                                  " is not known here: nothing above defines it"));
    }
    return found->second;
  }

  // The name of a value that is defined here.
  StatusOr<std::string> NewName() {
    size_t position;
    OC_ASSIGN_OR_RETURN(std::string name, ValueName(&position));
    if (ids_.count(name) != 0 || !new_names_.insert(name).second) {
      return reader_.Error(position,
                           absl::StrCat("value %", QuoteWord(name), " is defined a second time"));
    }
    return name;
  }

  Status InputLine(ValueKind kind) {
    new_names_.clear();
    OC_ASSIGN_OR_RETURN(const std::string name, NewName());
    OC_RETURN_IF_ERROR(reader_.Expect(":"));
    OC_ASSIGN_OR_RETURN(TensorType type, reader_.ReadType());
    Scope scope = DefaultScope(kind);
    if (reader_.Accept("per")) {
      const auto read = Named(kScopes, reader_.PeekWord());
      if (!read) return reader_.Expected("micro_batch or step");
      reader_.Accept(Name(*read));
      scope = *read;
    }
    const int id = graph_.AddInput(name, std::move(type), kind, scope);
    ids_[name] = id;
    if (kind != ValueKind::kParameter && kind != ValueKind::kState) return OkStatus();
    Variable variable{.value = id, .decay = kind == ValueKind::kParameter};
    OC_RETURN_IF_ERROR(reader_.Expect("="));
    OC_ASSIGN_OR_RETURN(variable.init, ReadInitializer());
    if (reader_.Accept("decay")) variable.decay = true;
    if (reader_.Accept("no_decay")) variable.decay = false;
    (kind == ValueKind::kParameter ? graph_.parameters : graph_.states).push_back(variable);
    return OkStatus();
  }

  StatusOr<Initializer> ReadInitializer() {
    Initializer init;
    if (reader_.Accept("normal")) {
      init.kind = Initializer::Kind::kNormal;
    } else if (reader_.Accept("uniform")) {
      init.kind = Initializer::Kind::kUniform;
    } else if (!reader_.Accept("constant")) {
      return reader_.Expected("constant(value), normal(mean, deviation) or uniform(low, high)");
    }
    OC_RETURN_IF_ERROR(reader_.Expect("("));
    OC_ASSIGN_OR_RETURN(init.a, reader_.Double("a number"));
    if (init.kind != Initializer::Kind::kConstant) {
      OC_RETURN_IF_ERROR(reader_.Expect(","));
      OC_ASSIGN_OR_RETURN(init.b, reader_.Double("a number"));
    }
    OC_RETURN_IF_ERROR(reader_.Expect(")"));
    return init;
  }

  // %a, %b = op@2(%x, %y) {...} : types, then what else there is.
  Status NodeLine() {
    new_names_.clear();
    std::vector<std::string> names;
    do {
      OC_ASSIGN_OR_RETURN(std::string name, NewName());
      names.push_back(std::move(name));
    } while (reader_.Accept(","));
    OC_RETURN_IF_ERROR(reader_.Expect("="));
    reader_.SkipBlanks();
    const size_t op_position = reader_.position();
    OC_ASSIGN_OR_RETURN(const std::string op, reader_.Word("an op"));
    OC_RETURN_IF_ERROR(CheckVersion(op, op_position));
    std::vector<int> inputs;
    OC_RETURN_IF_ERROR(reader_.Expect("("));
    if (!reader_.Accept(")")) {
      do {
        OC_ASSIGN_OR_RETURN(const int id, Value());
        inputs.push_back(id);
      } while (reader_.Accept(","));
      if (!reader_.Accept(")")) return reader_.Expected("',' or ')'");
    }
    reader_.SkipBlanks();
    Attributes attrs;
    if (!reader_.Accept(":")) {
      OC_ASSIGN_OR_RETURN(attrs, reader_.ReadAttributes());
      OC_RETURN_IF_ERROR(reader_.Expect(":"));
    }
    return AddNode(names, op, op_position, std::move(inputs), std::move(attrs));
  }

  Status CheckVersion(const std::string& op, size_t position) {
    const OpDef* def = graph_.ops().Find(op);
    if (def == nullptr) {
      return reader_.Error(position, std::string(graph_.ops().Unknown(op).message()));
    }
    int64_t version = 1;
    if (reader_.Accept("@")) {
      OC_ASSIGN_OR_RETURN(version, reader_.Int("a version"));
    }
    if (version == def->version) return OkStatus();
    return reader_.Error(position, absl::StrCat("op ", op, " is of version ", version,
                                                ", known is version ", def->version));
  }

  Status AddNode(const std::vector<std::string>& names, const std::string& op, size_t op_position,
                 std::vector<int> inputs, Attributes attrs) {
    std::vector<std::pair<TensorType, size_t>> types;
    do {
      reader_.SkipBlanks();
      const size_t position = reader_.position();
      OC_ASSIGN_OR_RETURN(TensorType type, reader_.ReadType());
      types.emplace_back(std::move(type), position);
    } while (reader_.Accept(","));
    Node like;
    std::optional<ForwardRef> forward;
    OC_RETURN_IF_ERROR(NodeMarks(like, forward));
    auto added = graph_.AddNode(op, std::move(inputs), std::move(attrs), like);
    if (!added.ok()) return reader_.Error(op_position, std::string(added.status().message()));
    if (forward) {
      forward->node = *added;
      forward_refs_.push_back(*std::move(forward));
    }
    const Node& node = graph_.nodes[*added];
    if (names.size() != node.outputs.size() || types.size() != node.outputs.size()) {
      return reader_.Error(op_position, absl::StrCat("op ", op, " gives ", node.outputs.size(),
                                                     " outputs; named are ", names.size(), " with ",
                                                     types.size(), " types"));
    }
    for (size_t i = 0; i < names.size(); ++i) {
      oc::Value& v = graph_.values[node.outputs[i]];
      if (!(v.type == types[i].first)) {
        return reader_.Error(types[i].second,
                             absl::StrCat("output ", i, " of ", op, " is ", v.type.ToString(),
                                          ", not ", types[i].first.ToString()));
      }
      // A number is no name that stays: results are numbered by their place.
      if (!IsNumber(names[i])) v.name = names[i];
      ids_[names[i]] = v.id;
    }
    return OkStatus();
  }

  // in SCOPE phase NAME of %value origin N checkpoint N, each at most once and in this order.
  Status NodeMarks(Node& node, std::optional<ForwardRef>& forward) {
    if (reader_.Accept("in")) {
      OC_ASSIGN_OR_RETURN(node.scope, reader_.Word("a scope"));
    }
    if (reader_.Accept("phase")) {
      const auto phase = Named(kPhases, reader_.PeekWord());
      if (!phase) {
        return reader_.Expected("forward, count, recompute, input_grad, weight_grad or update");
      }
      reader_.Accept(Name(*phase));
      node.phase = *phase;
    }
    if (reader_.Accept("of")) {
      forward.emplace();
      OC_ASSIGN_OR_RETURN(forward->name, ValueName(&forward->position));
    }
    if (reader_.Accept("origin")) {
      OC_ASSIGN_OR_RETURN(node.origin, Index());
    }
    if (reader_.Accept("checkpoint")) {
      OC_ASSIGN_OR_RETURN(node.checkpoint, Index());
    }
    return OkStatus();
  }

  StatusOr<int> Index() {
    reader_.SkipBlanks();
    const size_t position = reader_.position();
    OC_ASSIGN_OR_RETURN(const int64_t value, reader_.Int("a number"));
    if (value >= 0 && value <= INT32_MAX) return static_cast<int>(value);
    return reader_.Error(position, absl::StrCat("number ", value, " is out of range"));
  }

  // The node whose first output is named.
  StatusOr<int> Resolve(const ForwardRef& ref) {
    const auto found = ids_.find(ref.name);
    const int producer = found == ids_.end() ? kNone : graph_.values[found->second].producer;
    if (producer != kNone) return producer;
    return reader_.Error(ref.position,
                         absl::StrCat("%", QuoteWord(ref.name), " is no node's output"));
  }

  // sum KIND NAME of %target rate R = %a + %b
  Status SumLine() {
    Accumulator sum;
    const auto kind = Named(kSums, reader_.PeekWord());
    if (!kind) return reader_.Expected("gradient, state, count or metric");
    reader_.Accept(Name(*kind));
    sum.kind = *kind;
    OC_ASSIGN_OR_RETURN(sum.name, reader_.Word("a name"));
    if (reader_.Accept("of")) {
      OC_ASSIGN_OR_RETURN(sum.target, Value());
    }
    if (reader_.Accept("rate")) {
      OC_ASSIGN_OR_RETURN(sum.rate, reader_.Double("a number"));
    }
    OC_RETURN_IF_ERROR(reader_.Expect("="));
    if (!reader_.Accept("_")) {
      do {
        OC_ASSIGN_OR_RETURN(const int id, Value());
        sum.contributions.push_back(id);
      } while (reader_.Accept("+"));
    }
    graph_.accumulators.push_back(std::move(sum));
    return OkStatus();
  }

  Status OutputLine() {
    OC_ASSIGN_OR_RETURN(std::string name, reader_.Word("a name"));
    OC_RETURN_IF_ERROR(reader_.Expect("="));
    OC_ASSIGN_OR_RETURN(const int id, Value());
    graph_.outputs.emplace_back(std::move(name), id);
    return OkStatus();
  }

  Status UpdateLine() {
    reader_.SkipBlanks();
    const size_t position = reader_.position();
    OC_ASSIGN_OR_RETURN(const int id, Value());
    OC_RETURN_IF_ERROR(reader_.Expect("="));
    OC_ASSIGN_OR_RETURN(const int updated, Value());
    for (auto* list : {&graph_.parameters, &graph_.states}) {
      for (Variable& v : *list) {
        if (v.value != id) continue;
        v.updated = updated;
        return OkStatus();
      }
    }
    return reader_.Error(position, absl::StrCat("%", QuoteWord(graph_.values[id].name),
                                                " is neither parameter nor state"));
  }

  // The order of the list, where it is not that of the inputs.
  Status OrderLine(std::vector<Variable>& list) {
    reader_.SkipBlanks();
    const size_t position = reader_.position();
    std::vector<Variable> ordered;
    do {
      OC_ASSIGN_OR_RETURN(const int id, Value());
      for (const Variable& v : list) {
        if (v.value == id) ordered.push_back(v);
      }
    } while (reader_.Accept(","));
    std::set<int> distinct;
    for (const Variable& v : ordered) distinct.insert(v.value);
    if (distinct.size() != list.size() || ordered.size() != list.size()) {
      return reader_.Error(position, "the order must name each of them once");
    }
    list = std::move(ordered);
    return OkStatus();
  }

  TextReader reader_;
  Graph graph_;
  std::unordered_map<std::string, int> ids_;  // values by name
  std::set<std::string> new_names_;           // of the line
  std::vector<ForwardRef> forward_refs_;
};

}  // namespace

StatusOr<Graph> ParseGraph(const std::string& text, std::shared_ptr<const OpRegistry> ops) {
  auto graph = Parser(text, std::move(ops)).Run();
  if (!graph.ok()) return Annotate(graph.status(), "parse graph");
  return graph;
}

}  // namespace oc

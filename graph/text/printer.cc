#include "openclaw/graph/text/printer.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_join.h>

#include <algorithm>

#include "openclaw/graph/text/words.h"

namespace oc {
namespace {

class Printer {
 public:
  explicit Printer(const Graph& graph) : graph_(graph) {}

  std::string Run() {
    absl::StrAppend(&out_, "graph ", QuoteWord(graph_.name), " {\n");
    // Inputs stand where their ids place them, so that reading gives the same ids.
    size_t next = 0;
    const auto inputs_before = [&](size_t end) {
      for (; next < std::min(end, graph_.values.size()); ++next) {
        if (graph_.values[next].producer == kNone) Input(graph_.values[next]);
      }
    };
    for (const Node& node : graph_.nodes) {
      if (!node.outputs.empty() && node.outputs[0] > 0) inputs_before(node.outputs[0]);
      absl::StrAppend(&out_, "  ", NodeLine(node), "\n");
    }
    inputs_before(graph_.values.size());
    Order("parameters", graph_.parameters);
    Order("states", graph_.states);
    for (const Accumulator& a : graph_.accumulators) Accumulate(a);
    if (graph_.loss_sum != kNone || graph_.loss_count != kNone) {
      absl::StrAppend(&out_, "  loss ", Ref(graph_.loss_sum), " / ", Ref(graph_.loss_count), "\n");
    }
    for (const auto& [name, id] : graph_.outputs) {
      absl::StrAppend(&out_, "  output ", QuoteWord(name), " = ", Ref(id), "\n");
    }
    for (const auto* list : {&graph_.parameters, &graph_.states}) {
      for (const Variable& v : *list) {
        if (v.updated == kNone) continue;
        absl::StrAppend(&out_, "  update ", Ref(v.value), " = ", Ref(v.updated), "\n");
      }
    }
    return absl::StrCat(out_, "}\n");
  }

  std::string NodeLine(const Node& node) const {
    const auto ref = [&](std::string* out, int id) { out->append(Ref(id)); };
    std::string line = absl::StrCat(absl::StrJoin(node.outputs, ", ", ref), " = ");
    if (node.def == nullptr) return absl::StrCat(line, "?");
    absl::StrAppend(&line, node.def->name);
    if (node.def->version != 1) absl::StrAppend(&line, "@", node.def->version);
    absl::StrAppend(&line, "(", absl::StrJoin(node.inputs, ", ", ref), ")");
    const std::string attrs = node.attrs.ToString();
    if (!attrs.empty()) absl::StrAppend(&line, " ", attrs);
    absl::StrAppend(&line, " : ", absl::StrJoin(node.outputs, ", ", [&](std::string* out, int id) {
      out->append(Exists(id) ? graph_.values[id].type.ToString() : "?");
    }));
    if (!node.scope.empty()) absl::StrAppend(&line, " in ", QuoteWord(node.scope));
    if (node.phase != Phase::kForward) absl::StrAppend(&line, " phase ", Name(node.phase));
    if (node.forward != kNone) absl::StrAppend(&line, " of ", NodeRef(node.forward));
    if (node.origin != kNone && node.origin != node.id)
      absl::StrAppend(&line, " origin ", node.origin);
    if (node.checkpoint != kNone) absl::StrAppend(&line, " checkpoint ", node.checkpoint);
    return line;
  }

 private:
  bool Exists(int id) const { return id >= 0 && id < static_cast<int>(graph_.values.size()); }

  std::string Ref(int id) const {
    if (id == kNone) return "_";
    return Exists(id) ? absl::StrCat("%", QuoteWord(graph_.values[id].name)) : "?";
  }

  // A node goes by its first output.
  std::string NodeRef(int id) const {
    if (id < 0 || id >= static_cast<int>(graph_.nodes.size()) || graph_.nodes[id].outputs.empty()) {
      return "?";
    }
    return Ref(graph_.nodes[id].outputs[0]);
  }

  void Input(const Value& v) {
    absl::StrAppend(&out_, "  ", Name(v.kind), " ", Ref(v.id), ": ", v.type.ToString());
    if (v.scope != DefaultScope(v.kind)) absl::StrAppend(&out_, " per ", Name(v.scope));
    if (const Variable* variable = graph_.FindVariable(v.id)) {
      absl::StrAppend(&out_, " = ", Text(variable->init));
      const bool default_decay = v.kind == ValueKind::kParameter;
      if (variable->decay != default_decay) {
        absl::StrAppend(&out_, variable->decay ? " decay" : " no_decay");
      }
    }
    absl::StrAppend(&out_, "\n");
  }

  static std::string Text(const Initializer& init) {
    const std::string a = FormatDouble(init.a), b = FormatDouble(init.b);
    switch (init.kind) {
      case Initializer::Kind::kConstant:
        return absl::StrCat("constant(", a, ")");
      case Initializer::Kind::kNormal:
        return absl::StrCat("normal(", a, ", ", b, ")");
      case Initializer::Kind::kUniform:
        return absl::StrCat("uniform(", a, ", ", b, ")");
    }
    return "?";
  }

  // The list's order, where it is not that of the inputs.
  void Order(const char* word, const std::vector<Variable>& list) {
    const auto by_value = [](const Variable& a, const Variable& b) { return a.value < b.value; };
    if (std::is_sorted(list.begin(), list.end(), by_value)) return;
    absl::StrAppend(
        &out_, "  ", word, " ",
        absl::StrJoin(list, ", ",
                      [&](std::string* out, const Variable& v) { out->append(Ref(v.value)); }),
        "\n");
  }

  void Accumulate(const Accumulator& a) {
    absl::StrAppend(&out_, "  sum ", Name(a.kind), " ", QuoteWord(a.name));
    if (a.target != kNone) absl::StrAppend(&out_, " of ", Ref(a.target));
    if (a.rate != 1.0) absl::StrAppend(&out_, " rate ", FormatDouble(a.rate));
    absl::StrAppend(&out_, " = ", a.contributions.empty() ? "_" : "",
                    absl::StrJoin(a.contributions, " + ",
                                  [&](std::string* out, int id) { out->append(Ref(id)); }),
                    "\n");
  }

  const Graph& graph_;
  std::string out_;
};

}  // namespace

std::string Print(const Graph& graph) { return Printer(graph).Run(); }
std::string Print(const Graph& graph, const Node& node) { return Printer(graph).NodeLine(node); }

}  // namespace oc

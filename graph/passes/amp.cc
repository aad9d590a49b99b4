#include "openclaw/graph/amp.h"

#include <algorithm>
#include <map>
#include <set>

#include "openclaw/graph/passes.h"

namespace oc {
namespace {

bool IsHalf(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

// Whether the pass may give the value another type; f64 models stay as they are.
bool MayChange(const TensorType& type) { return type.dtype == DType::kF32 || IsHalf(type.dtype); }

class Rewriter {
 public:
  Rewriter(const Graph& forward, const AmpOptions& options)
      : old_(forward), options_(options), graph_(forward.shared_ops()) {
    graph_.name = forward.name;
  }

  StatusOr<Graph> Run() {
    now_.assign(old_.values.size(), kNone);
    AddInputs();
    for (const Node& node : old_.nodes) OC_RETURN_IF_ERROR(Rewrite(node));
    OC_RETURN_IF_ERROR(AddUses());
    OC_RETURN_IF_ERROR(Verify(graph_));
    return std::move(graph_);
  }

 private:
  bool Is(const Value& v, ValueKind kind) const { return v.kind == kind; }

  void AddInputs() {
    for (const Value& v : old_.values) {
      if (v.producer != kNone) continue;
      TensorType type = v.type;
      const bool narrowed = options_.level == AmpLevel::kO3 && Is(v, ValueKind::kParameter);
      if (narrowed && type.dtype == DType::kF32) type.dtype = options_.half;
      now_[v.id] = graph_.AddInput(v.name, type, v.kind, v.scope);
    }
    const auto moved = [&](Variable variable) {
      variable.value = now_[variable.value];
      return variable;
    };
    for (const Variable& p : old_.parameters) graph_.parameters.push_back(moved(p));
    for (const Variable& s : old_.states) graph_.states.push_back(moved(s));
  }

  // The type that the node's float operands get; none: as they come.
  std::optional<DType> OperandType(const Node& node) const {
    const bool o1 = options_.level == AmpLevel::kO1, o3 = options_.level == AmpLevel::kO3;
    switch (AmpClassOf(node.def->name)) {
      case AmpClass::kHalf:
        return options_.half;
      case AmpClass::kFull:
        return o3 ? options_.half : DType::kF32;
      case AmpClass::kStatistics:
        return o1 ? DType::kF32 : options_.half;
      case AmpClass::kFollow:
        return Widest(node);
      case AmpClass::kKeep:
        return std::nullopt;
    }
    return std::nullopt;
  }

  // From O2 on parameters are half wherever they are read.
  std::optional<DType> Widest(const Node& node) const {
    std::optional<DType> widest;
    for (int v : node.inputs) {
      const Value& value = graph_.value(now_[v]);
      if (!MayChange(value.type)) continue;
      const bool parameter = Is(value, ValueKind::kParameter);
      const DType dtype =
          parameter && options_.level != AmpLevel::kO1 ? options_.half : value.type.dtype;
      if (!widest.has_value() || SizeInBits(dtype) > SizeInBits(*widest)) widest = dtype;
    }
    return widest;
  }

  Status Rewrite(const Node& node) {
    std::optional<DType> type = OperandType(node);
    for (int v : node.inputs) {
      if (old_.value(v).type.dtype == DType::kF64) type.reset();
    }
    // Running statistics stay in the type that they are kept in.
    const bool keeps_states = AmpClassOf(node.def->name) == AmpClass::kStatistics;
    std::vector<int> inputs;
    for (int v : node.inputs) {
      int input = now_[v];
      const Value& value = graph_.value(input);
      const bool kept = keeps_states && Is(value, ValueKind::kState);
      if (type.has_value() && MayChange(value.type) && !kept) {
        OC_ASSIGN_OR_RETURN(input, Cast(input, *type, node));
      }
      inputs.push_back(input);
    }
    OC_ASSIGN_OR_RETURN(const int id, graph_.AddNode(node.def->name, inputs, node.attrs, node));
    const std::vector<int>& outputs = graph_.node(id).outputs;
    for (size_t i = 0; i < outputs.size(); ++i) now_[node.outputs[i]] = outputs[i];
    return OkStatus();
  }

  // `value` in `dtype`, for `user`. Casts of parameters belong to one user each, so that their
  // gradients are contributions of their own on the stages of their users (a tied weight); a later
  // pass makes one node of those forward casts.
  StatusOr<int> Cast(int value, DType dtype, const Node& user) {
    if (graph_.value(value).type.dtype == dtype) return value;
    const bool parameter = Is(graph_.value(value), ValueKind::kParameter);
    if (!parameter) {
      const auto it = casts_.find({value, dtype});
      if (it != casts_.end()) return it->second;
    }
    Node like = user;
    like.forward = kNone;
    if (parameter) {
      like.phase = Phase::kPrologue;
      like.checkpoint = kNone;
    }
    OC_ASSIGN_OR_RETURN(const int id, graph_.AddNode("cast", {value}, {{"dtype", dtype}}, like));
    const int result = graph_.node(id).outputs[0];
    if (!parameter) casts_[{value, dtype}] = result;
    return result;
  }

  // What the graph itself uses, in the type that it had.
  StatusOr<int> Kept(int old) {
    const int value = now_[old];
    const DType dtype = old_.value(old).type.dtype;
    if (graph_.value(value).type.dtype == dtype || graph_.value(value).producer == kNone) {
      return value;
    }
    const Node like = graph_.node(graph_.value(value).producer);
    return Cast(value, dtype, like);
  }

  Status AddUses() {
    for (const auto& [name, v] : old_.outputs) {
      int kept = now_[v];
      if (options_.keep_outputs) {
        OC_ASSIGN_OR_RETURN(kept, Kept(v));
      }
      graph_.outputs.emplace_back(name, kept);
    }
    for (Accumulator a : old_.accumulators) {
      if (a.target != kNone) a.target = now_[a.target];
      for (int& v : a.contributions) {
        OC_ASSIGN_OR_RETURN(v, Kept(v));
      }
      graph_.accumulators.push_back(std::move(a));
    }
    if (old_.loss_sum != kNone) {
      OC_ASSIGN_OR_RETURN(graph_.loss_sum, Kept(old_.loss_sum));
    }
    if (old_.loss_count != kNone) {
      OC_ASSIGN_OR_RETURN(graph_.loss_count, Kept(old_.loss_count));
    }
    return OkStatus();
  }

  const Graph& old_;
  const AmpOptions options_;
  Graph graph_;
  std::vector<int> now_;  // old value -> its value in graph_
  std::map<std::pair<int, DType>, int> casts_;
};

}  // namespace

StatusOr<Graph> ApplyAmp(const Graph& forward, const AmpOptions& options) {
  if (!IsHalf(options.half)) {
    return InvalidArgument("precision: ", Name(options.half),
                           " is no half type; there are bf16, f16");
  }
  switch (options.level) {
    case AmpLevel::kO0:
      return forward;
    case AmpLevel::kO1:
    case AmpLevel::kO2:
    case AmpLevel::kO3:
      return Rewriter(forward, options).Run();
    case AmpLevel::kO2Fp8:
      break;
  }
  return Unimplemented("amp_level ", Name(options.level), "; there are O0, O1, O2, O3");
}

Status WidenGradientSums(Graph& joint) {
  const int old_nodes = static_cast<int>(joint.nodes.size());
  std::map<int, int> casts;                // value -> the node that casts it
  std::map<int, std::vector<int>> behind;  // node -> casts that follow it
  for (Accumulator& a : joint.accumulators) {
    if (a.kind != Accumulator::Kind::kGradient) continue;
    for (int& v : a.contributions) {
      if (!IsHalf(joint.value(v).type.dtype)) continue;
      auto [it, is_new] = casts.try_emplace(v, kNone);
      if (is_new) {
        Node like = joint.node(joint.value(v).producer);
        like.phase = Phase::kWeightGrad;
        behind[like.id].push_back(static_cast<int>(joint.nodes.size()));
        OC_ASSIGN_OR_RETURN(it->second, joint.AddNode("cast", {v}, {{"dtype", DType::kF32}}, like));
      }
      v = joint.node(it->second).outputs[0];
    }
  }
  if (casts.empty()) return OkStatus();
  std::vector<int> order;
  for (int id = 0; id < old_nodes; ++id) {
    order.push_back(id);
    const auto it = behind.find(id);
    if (it != behind.end()) order.insert(order.end(), it->second.begin(), it->second.end());
  }
  return Reorder(joint, order);
}

std::optional<DType> HalfTypeOf(const Graph& graph) {
  for (const Value& v : graph.values) {
    if (IsHalf(v.type.dtype)) return v.type.dtype;
  }
  return std::nullopt;
}

StatusOr<Graph> WithHalfType(const Graph& graph, DType from, DType to) {
  Graph result = graph;
  for (Value& v : result.values) {
    if (v.producer != kNone || v.type.dtype != from) continue;
    if (v.kind == ValueKind::kParameter || v.kind == ValueKind::kState) {
      return InvalidArgument("compute in ", Name(to), ": ", Name(v.kind), " ", v.name, " is ",
                             v.type.ToString(), " for all (amp_level O3); O2 keeps it in f32");
    }
    v.type.dtype = to;
  }
  for (Node& node : result.nodes) {
    if (node.attrs.Has("dtype") && node.attrs.GetDType("dtype", from) == from) {
      node.attrs.Set("dtype", to);
    }
  }
  OC_ASSIGN_OR_RETURN(result, result.Bind({}));  // infers the types of all results
  // Casts to what a value is already are copies, and sums have the type of their operands: what
  // every device has.
  for (Node& node : result.nodes) {
    if (!node.attrs.Has("dtype")) continue;
    const DType operand = result.value(node.inputs[0]).type.dtype;
    if (node.attrs.GetDType("dtype", to) != operand) continue;
    if (node.def->name == "cast") {
      node.def = result.ops().Find("copy");
      node.attrs = {};
    } else if (TakesSumType(*node.def)) {
      Attributes rest;
      for (const auto& [name, value] : node.attrs.values()) {
        if (name != "dtype") rest.Set(name, value);
      }
      node.attrs = std::move(rest);
    }
  }
  return result;
}

}  // namespace oc

#include "openclaw/graph/builder.h"

#include <absl/strings/str_join.h>

#include <algorithm>

#include "openclaw/core/rng.h"

namespace oc {

GraphBuilder::GraphBuilder(std::string name, std::shared_ptr<const OpRegistry> ops)
    : graph_(std::move(ops)) {
  graph_.name = std::move(name);
}

GraphBuilder::GraphBuilder(Graph graph) : graph_(std::move(graph)) {
  // Streams and regions go on where those of the graph end.
  for (const Node& node : graph_.nodes) {
    if (node.def->random && node.phase == Phase::kForward) ++streams_[node.scope];
    checkpoints_ = std::max(checkpoints_, node.checkpoint + 1);
  }
}

void GraphBuilder::Fail(const Status& status) {
  if (status_.ok()) status_ = status;
}

Val GraphBuilder::Input(const std::string& name, TensorType type, ValueKind kind, Scope scope) {
  if (std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    Fail(InvalidArgument("input '", name, "': a name made of digits alone is that of a result"));
    return {};
  }
  const int existing = graph_.FindValue(name);
  if (existing == kNone) return {graph_.AddInput(name, std::move(type), kind, scope)};
  const Value& v = graph_.values[existing];
  if (v.kind != kind || !(v.type == type)) {
    Fail(InvalidArgument("input ", name, ": declared as ", Name(v.kind), " ", v.type.ToString(),
                         " and again as ", Name(kind), " ", type.ToString()));
  }
  return {existing};
}

Val GraphBuilder::Data(const std::string& name, TensorType type) {
  return Input(name, std::move(type), ValueKind::kData, Scope::kMicroBatch);
}

Val GraphBuilder::Parameter(const std::string& name, TensorType type, Initializer init,
                            bool decay) {
  const std::string full = Qualified(name);
  const Val v = Input(full, std::move(type), ValueKind::kParameter, Scope::kStep);
  if (v && graph_.FindVariable(v.id) == nullptr) graph_.parameters.push_back({v.id, init, decay});
  return v;
}

Val GraphBuilder::State(const std::string& name, TensorType type, Initializer init) {
  const Val v = Input(Qualified(name), std::move(type), ValueKind::kState, Scope::kStep);
  if (v && graph_.FindVariable(v.id) == nullptr) graph_.states.push_back({v.id, init, false});
  return v;
}

Val GraphBuilder::Scalar(const std::string& name, TensorType type, Scope scope) {
  return Input(name, std::move(type), ValueKind::kScalar, scope);
}

Val GraphBuilder::Rng() { return Scalar("rng", {DType::kI64, {4}}, Scope::kMicroBatch); }

std::vector<Val> GraphBuilder::OpN(const std::string& op, const std::vector<Val>& inputs,
                                   Attributes attrs) {
  if (!status_.ok()) return {};
  std::vector<int> ids;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    if (ids.size() < i) {
      Fail(InvalidArgument("op ", op, like_.scope.empty() ? "" : " in ", like_.scope, ": input ",
                           ids.size(), " is missing before input ", i));
      return {};
    }
    ids.push_back(inputs[i].id);
  }
  auto node = graph_.AddNode(op, std::move(ids), std::move(attrs), like_);
  if (!node.ok()) {
    Fail(node.status());
    return {};
  }
  std::vector<Val> outputs;
  for (int id : graph_.nodes[*node].outputs) outputs.push_back({id});
  return outputs;
}

Val GraphBuilder::Op(const std::string& op, const std::vector<Val>& inputs, Attributes attrs) {
  const std::vector<Val> outputs = OpN(op, inputs, std::move(attrs));
  return outputs.empty() ? Val{} : outputs[0];
}

const TensorType& GraphBuilder::type(Val v) const {
  // After an error whatever is built on this is dropped; model code may ask for its dimensions.
  static const TensorType kAny = {DType::kF32, Shape(std::vector<Dim>(8, Dim(1)))};
  return v ? graph_.values[v.id].type : kAny;
}

Val GraphBuilder::Linear(Val x, Val weight, Val bias) { return Op("linear", {x, weight, bias}); }

Val GraphBuilder::Matmul(Val a, Val b, bool transpose_a, bool transpose_b) {
  return Op("matmul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

Val GraphBuilder::Scale(Val x, double factor, double offset) {
  return Op("scale", {x}, {{"factor", factor}, {"offset", offset}});
}

Val GraphBuilder::Reshape(Val x, Shape shape) {
  return Op("reshape", {x}, {{"shape", std::move(shape)}});
}

Val GraphBuilder::Transpose(Val x, std::vector<int64_t> permutation) {
  return Op("transpose", {x}, {{"permutation", std::move(permutation)}});
}

Val GraphBuilder::Slice(Val x, int64_t axis, int64_t begin, int64_t end) {
  return Op("slice", {x}, {{"axis", axis}, {"begin", begin}, {"end", end}});
}

Val GraphBuilder::ReduceSum(Val x, std::vector<int64_t> axes, bool keep_dims) {
  return Op("reduce_sum", {x}, {{"axes", std::move(axes)}, {"keep_dims", keep_dims}});
}

Val GraphBuilder::Cast(Val x, DType dtype) {
  return type(x).dtype == dtype ? x : Op("cast", {x}, {{"dtype", dtype}});
}

void GraphBuilder::Loss(Val sum, Val count) {
  graph_.loss_sum = sum.id;
  graph_.loss_count = count.id;
}

void GraphBuilder::Metric(const std::string& name, Val sum) {
  if (!sum) return;
  graph_.accumulators.push_back(
      {.kind = Accumulator::Kind::kMetric, .name = name, .contributions = {sum.id}});
}

void GraphBuilder::Output(const std::string& name, Val v) {
  if (v) graph_.outputs.emplace_back(name, v.id);
}

void GraphBuilder::MeanIntoState(Val state, Val mean, double rate) {
  if (!state || !mean) return;
  graph_.accumulators.push_back({.kind = Accumulator::Kind::kState,
                                 .name = absl::StrCat("mean.", graph_.values[state.id].name),
                                 .target = state.id,
                                 .contributions = {mean.id},
                                 .rate = rate});
}

void GraphBuilder::PushScope(const std::string& name) {
  scopes_.push_back(name);
  like_.scope = absl::StrJoin(scopes_, ".");
}

void GraphBuilder::PopScope() {
  OC_CHECK(!scopes_.empty());
  scopes_.pop_back();
  like_.scope = absl::StrJoin(scopes_, ".");
}

std::string GraphBuilder::Qualified(const std::string& name) const {
  return like_.scope.empty() ? name : absl::StrCat(like_.scope, ".", name);
}

void GraphBuilder::BeginCheckpoint() { like_.checkpoint = checkpoints_++; }
void GraphBuilder::EndCheckpoint() { like_.checkpoint = kNone; }

int64_t GraphBuilder::NextStream() {
  const std::string key = absl::StrCat(like_.scope, "#", streams_[like_.scope]++);
  return static_cast<int64_t>(StreamOf(key.data(), key.size()) >> 1);
}

void GraphBuilder::SetPhase(Phase phase, int forward) {
  like_.phase = phase;
  like_.forward = forward;
  like_.scope = forward == kNone ? "" : graph_.nodes[forward].scope;
  like_.origin = forward == kNone ? kNone : graph_.nodes[forward].origin;
  like_.checkpoint = kNone;
}

StatusOr<Graph> GraphBuilder::Finish() {
  OC_RETURN_IF_ERROR(status_);
  OC_RETURN_IF_ERROR(Verify(graph_));
  return std::move(graph_);
}

}  // namespace oc

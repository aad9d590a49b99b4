// Builds graphs: each method adds one node and returns its value. Shapes are inferred at once; the
// first error stays, later calls do nothing, and Finish returns it: model code needs no checks.
//
//   GraphBuilder b("mlp");
//   Val x = b.Data("images", {DType::kF32, {Dim("B"), 784}});
//   Val h = b.Relu(b.Linear(x, b.Parameter("fc1.weight", ...), b.Parameter("fc1.bias", ...)));
//   b.Loss(b.CrossEntropy(h, labels), b.CountValid(labels));
//   OC_ASSIGN_OR_RETURN(Graph graph, b.Finish());
#pragma once

#include <string>
#include <vector>

#include "openclaw/graph/graph.h"

namespace oc {

// A value of the graph that is being built. Cheap to copy; only its builder gives it meaning.
struct Val {
  int id = kNone;
  explicit operator bool() const { return id != kNone; }
};

class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name, std::shared_ptr<const OpRegistry> ops = BuiltinOps());
  // Goes on building `graph`, as autodiff and optim do.
  explicit GraphBuilder(Graph graph);

  // Inputs. A name that was used before gives the same value, of the same type (a tied weight).
  Val Data(const std::string& name, TensorType type);
  Val Parameter(const std::string& name, TensorType type, Initializer init, bool decay = true);
  Val State(const std::string& name, TensorType type, Initializer init);
  Val Scalar(const std::string& name, TensorType type, Scope scope);
  // i64[4] for random ops: seed, step, first sample's position in the global batch, reserved.
  Val Rng();

  // Any op, with one or all outputs. Inputs without a value are left out, at the end only: one
  // before a value is an error.
  Val Op(const std::string& op, const std::vector<Val>& inputs, Attributes attrs = {});
  std::vector<Val> OpN(const std::string& op, const std::vector<Val>& inputs,
                       Attributes attrs = {});

  // After an error some type of 8 dimensions: nothing comes of what is built on it.
  const TensorType& type(Val v) const;
  const Shape& shape(Val v) const { return type(v).shape; }

  // Ops with their usual signatures; semantics stand in graph/ops/NAME.cc.
  Val Linear(Val x, Val weight, Val bias = {});
  Val Matmul(Val a, Val b, bool transpose_a = false, bool transpose_b = false);
  Val Add(Val a, Val b) { return Op("add", {a, b}); }
  Val Sub(Val a, Val b) { return Op("sub", {a, b}); }
  Val Mul(Val a, Val b) { return Op("mul", {a, b}); }
  Val Div(Val a, Val b) { return Op("div", {a, b}); }
  Val Scale(Val x, double factor, double offset = 0);
  Val Relu(Val x) { return Op("relu", {x}); }
  Val Reshape(Val x, Shape shape);
  Val Transpose(Val x, std::vector<int64_t> permutation);
  Val Slice(Val x, int64_t axis, int64_t begin, int64_t end);
  Val ReduceSum(Val x, std::vector<int64_t> axes, bool keep_dims = false);
  Val Cast(Val x, DType dtype);

  // The loss: sum / count over the global batch. Both f32[].
  void Loss(Val sum, Val count);
  // Reported as a sum over the global batch ("correct").
  void Metric(const std::string& name, Val sum);
  void Output(const std::string& name, Val v);
  // Adds `mean`, the micro-batch's mean of `rows` samples, to the sample-weighted mean of the step,
  // which the state takes up as state += rate * (mean - state).
  void MeanIntoState(Val state, Val mean, double rate);

  // Modules: names of parameters and scopes of nodes get the prefix "name.".
  void PushScope(const std::string& name);
  void PopScope();
  std::string Qualified(const std::string& name) const;
  // Nodes up to the matching End are recomputed in backward instead of kept.
  void BeginCheckpoint();
  void EndCheckpoint();
  bool in_checkpoint() const { return like_.checkpoint != kNone; }
  // A stable stream number for a random op: from its scope and its count there.
  int64_t NextStream();

  // For autodiff and optim: what further nodes are marked with.
  void SetPhase(Phase phase, int forward);
  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }

  const Status& status() const { return status_; }
  void Fail(const Status& status);
  // The verified graph, or the first error. The builder is empty afterwards.
  StatusOr<Graph> Finish();

 private:
  Val Input(const std::string& name, TensorType type, ValueKind kind, Scope scope);

  Graph graph_;
  Status status_;
  Node like_;  // phase, scope and so on of further nodes
  std::vector<std::string> scopes_;
  std::map<std::string, int64_t> streams_;
  int checkpoints_ = 0;
};

}  // namespace oc

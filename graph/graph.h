// The graph: SSA dataflow of ops for one micro-batch. It names no VCU. A model's forward graph is
// built with GraphBuilder (builder.h); Differentiate (autodiff.h) makes the joint forward and
// backward graph of it, and optim/ builds the update graph, both of the same kind.
//
// Invariants (Verify checks them): nodes are in topological order; every value has one producer or
// is an input; types are what the op's shape rule gives.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "openclaw/core/tensor.h"
#include "openclaw/graph/op.h"

namespace oc {

inline constexpr int kNone = -1;

enum class ValueKind : int32_t {
  kResult = 0,     // output of a node
  kData = 1,       // fed for each micro-batch from the data set, by name
  kParameter = 2,  // trained
  kState = 3,      // not trained, updated (running statistics, optimizer moments)
  kScalar = 4,     // fed by the trainer: changes from step to step or micro-batch to micro-batch
  kReduced = 5,    // an accumulator (by name) summed over the step's micro-batches and replicas
};
const char* Name(ValueKind kind);

enum class Scope : int32_t { kMicroBatch = 0, kStep = 1 };
const char* Name(Scope scope);

struct Value {
  int id = kNone;
  std::string name;  // unique; inputs keep theirs for good, results may be renumbered
  TensorType type;
  ValueKind kind = ValueKind::kResult;
  int producer = kNone;              // node
  int output = 0;                    // which output of it
  bool opaque = false;               // bytes of a device's own, sized by prepare
  Scope scope = Scope::kMicroBatch;  // kScalar: how often it changes
};

// Which part of a step a node belongs to.
enum class Phase : int32_t {
  kForward = 0,
  kCount = 1,      // depends on data inputs alone and is needed before the first backward
  kRecompute = 2,  // a forward node run again in the backward of its region
  kInputGrad = 3,
  kWeightGrad = 4,  // only feeds gradients of parameters: may be delayed
  kUpdate = 5,      // once a step
  // Depends on parameters alone (their casts to a half type): once a step before all else, on every
  // VCU that reads it.
  kPrologue = 6,
};
const char* Name(Phase phase);

struct Node {
  int id = kNone;
  const OpDef* def = nullptr;  // owned by the graph's registry
  std::vector<int> inputs;     // values; kNone: an optional input left out
  std::vector<int> outputs;    // values
  Attributes attrs;
  Phase phase = Phase::kForward;
  int forward = kNone;  // backward and recompute nodes: the forward node that they belong to
  // The node of the model's own forward graph that this one stems from, through every pass: plans
  // cut stages by it, so that a cut means the same in the training and in the inference graph.
  int origin = kNone;
  std::string scope;       // the module, "blocks.0.attention"
  int checkpoint = kNone;  // activations of this region are recomputed in backward
};

// How a parameter or state begins. Values are indexed by (name, global element): the same on any
// plan.
struct Initializer {
  enum class Kind : int32_t { kConstant = 0, kNormal = 1, kUniform = 2 };
  Kind kind = Kind::kConstant;
  double a = 0;  // constant: the value; normal: mean; uniform: low
  double b = 0;  // normal: standard deviation; uniform: high
  static Initializer Constant(double value) { return {Kind::kConstant, value, 0}; }
  static Initializer Normal(double mean, double stddev) { return {Kind::kNormal, mean, stddev}; }
  static Initializer Uniform(double low, double high) { return {Kind::kUniform, low, high}; }
  bool operator==(const Initializer&) const = default;
};

struct Variable {  // a parameter or a state
  int value = kNone;
  Initializer init;
  bool decay = true;    // weight decay applies (not to biases and norms)
  int updated = kNone;  // update graph: the value that replaces it
};

// A sum over the micro-batches and replicas of a step.
struct Accumulator {
  enum class Kind : int32_t {
    kGradient = 0,  // of the parameter `target`: reduced over its holders
    kState = 1,     // sample-weighted mean for the state `target`
    kCount = 2,     // needed before the first backward
    kMetric = 3,    // reported: loss, correct answers, norms
  };
  Kind kind = Kind::kMetric;
  std::string name;                // the kReduced value that holds the sum has this name
  int target = kNone;              // parameter or state value
  std::vector<int> contributions;  // values of one micro-batch, added in this order
  // kState: how the target takes the mean up: target += rate * (mean - target).
  double rate = 1.0;
};
const char* Name(Accumulator::Kind kind);

class Graph {
 public:
  explicit Graph(std::shared_ptr<const OpRegistry> ops = BuiltinOps()) : ops_(std::move(ops)) {}

  const OpRegistry& ops() const { return *ops_; }
  std::shared_ptr<const OpRegistry> shared_ops() const { return ops_; }

  const Value& value(int id) const { return values[id]; }
  const Node& node(int id) const { return nodes[id]; }
  // kNone where there is none of that name.
  int FindValue(const std::string& name) const;
  const Variable* FindVariable(int value) const;  // among parameters and states

  // Adds an input value. Precondition: the name is new.
  int AddInput(const std::string& name, TensorType type, ValueKind kind,
               Scope scope = Scope::kMicroBatch);
  // Infers the outputs' types and appends the node. kInvalidArgument names op and scope.
  StatusOr<int> AddNode(const std::string& op, std::vector<int> inputs, Attributes attrs,
                        const Node& like);

  // The consumers of every value, as node ids in order.
  std::vector<std::vector<int>> Users() const;
  // All shapes and attributes with the names bound; infers again, so what cannot hold is an error.
  StatusOr<Graph> Bind(const DimBinding& binding) const;
  // The names of unbound dimensions.
  std::vector<std::string> UnboundDims() const;

  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Variable> parameters;
  std::vector<Variable> states;
  std::vector<Accumulator> accumulators;
  // The loss is `loss_sum / loss_count`, both summed over the global batch; f32[] each (the sum
  // f64[] in a model of f64).
  int loss_sum = kNone;
  int loss_count = kNone;
  // Further results by name, such as logits.
  std::vector<std::pair<std::string, int>> outputs;

 private:
  std::shared_ptr<const OpRegistry> ops_;
};

// Checks the invariants; kInvalidArgument says which node or value breaks which.
Status Verify(const Graph& graph);

}  // namespace oc

// What an operation is: a named, versioned rule for shapes, gradients and costs. One op a file in
// graph/ops/; kernels live in the devices. A user's own op is an OpDef added to a copy of the
// built-in registry.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "openclaw/core/tensor.h"
#include "openclaw/graph/attributes.h"

namespace oc {

class GradContext;

struct InferArgs {
  const std::vector<TensorType>& inputs;
  const Attributes& attrs;
};

struct OpCost {
  double flops = 0;
  double bytes = 0;  // memory read and written, each operand once
};

// What an attribute may hold, for checking and for documentation.
struct AttrSpec {
  std::string name;
  AttrValue example;  // fixes the type
  bool required = false;
};

struct OpDef {
  std::string name;
  int version = 1;
  int min_inputs = 1;
  int max_inputs = 1;  // -1: any number
  std::vector<AttrSpec> attrs;

  // Output types from input types; kInvalidArgument says what does not fit. Works on unbound
  // shapes.
  std::function<StatusOr<std::vector<TensorType>>(const InferArgs&)> infer;

  // Adds the nodes that compute the gradients of the inputs. Null: not differentiable, an error
  // where a gradient is asked for. Methods that need no gradient of theirs (integers) are never
  // asked.
  std::function<Status(GradContext&)> gradient;

  // Null: one flop an output element, every operand's bytes once. Bound shapes only.
  std::function<OpCost(const InferArgs&, const std::vector<TensorType>& outputs)> cost;

  // Output i may take the memory of input reuse[i] (-1: none), where that input is not used later:
  // a kernel reads element j of the input before it writes element j of the output.
  std::vector<int> reuse;
  // Output i holds the same bytes as input 0: no kernel runs (reshape).
  bool is_view = false;
  // Output i must be the memory of input updates[i] (-1: not): state updated in place. Of an op
  // that takes lists: of the first tensor's outputs and inputs (UpdatedInput knows the others').
  std::vector<int> updates;
  // An op that takes lists computes many tensors in one call: its inputs are operands(attrs) of the
  // first tensor, as many of the next, and so on, then `shared` ones that all use. kEach: the
  // outputs are those of the first tensor, of the next, and so on; kSum: one output, which is the
  // sum over the tensors. Lowering makes one call of several, so a node of one tensor is enough.
  enum class Lists { kNone, kEach, kSum };
  Lists lists = Lists::kNone;
  int (*operands)(const Attributes& attrs) = nullptr;
  int shared = 0;
  // Whether the op may be run on a part of its tensor, as who holds a shard of it does, with the
  // bits that the whole gives there. kElements: on any run of elements of the operands that have
  // the first one's shape (others are shared by all elements), as tensors of one dimension; the
  // outputs are those elements. kChunks: the same for whole chunks (graph/sum_chunks.h), of which
  // an output has one element each.
  enum class Parts { kWhole, kElements, kChunks };
  Parts parts = Parts::kWhole;
  // Outputs that a kernel may add to what the memory holds, instead of overwriting (bit i: output
  // i).
  uint32_t accumulable = 0;
  // Outputs that only this op's gradient reads, as bytes in a form of the device's own, sized by
  // prepare; bound to one VCU, never sent or stored (bit i: output i).
  uint32_t opaque_outputs = 0;
  // The result depends on other samples of the micro-batch (batch norm): exact per micro-batch
  // only.
  bool couples_samples = false;
  // Reads the counter-based generator: takes the "rng" scalar as its last input.
  bool random = false;

  // The op in terms of simpler ops, for devices without a kernel: same inputs, same outputs. May be
  // null. Built in the given context: see graph/builder.h.
  std::function<StatusOr<std::vector<int>>(class GraphBuilder&, const std::vector<int>& inputs,
                                           const Attributes& attrs)>
      decompose;
};

// How the inputs of a call divide; an op that takes no lists has one tensor, and all are its
// operands. `whole`: they divide without a rest.
struct TensorList {
  int tensors = 1, operands = 0, shared = 0;
  bool whole = true;
};
TensorList ListOf(const OpDef& def, const Attributes& attrs, size_t num_inputs);
// The input whose memory output `output` of a call must be, or -1.
int UpdatedInput(const OpDef& def, const Attributes& attrs, size_t num_inputs, size_t num_outputs,
                 size_t output);
// Bit i of a set of outputs; sets hold the first 32 outputs.
inline bool HasOutput(uint32_t outputs, size_t i) { return i < 32 && (outputs >> i & 1) != 0; }

// A set of ops by name. Built once, then shared and constant.
class OpRegistry {
 public:
  // kInvalidArgument where the name is taken.
  Status Add(OpDef def);
  // Null where unknown.
  const OpDef* Find(const std::string& name) const;
  std::vector<std::string> names() const;
  // The unknown op's error: names it and the nearest known name.
  Status Unknown(const std::string& name) const;

 private:
  std::map<std::string, std::unique_ptr<const OpDef>> defs_;
};

// All ops of the product (graph/ops/all_ops.cc lists them).
std::shared_ptr<const OpRegistry> BuiltinOps();
// The same, in a registry that a user may add to.
std::unique_ptr<OpRegistry> NewRegistryWithBuiltinOps();

// Whether the op may give its sums in a wider type than its operands have: the attribute "dtype",
// where it is there (graph/ops/ops.h, WithSumType).
bool TakesSumType(const OpDef& def);

// Defaults of OpDef::cost.
OpCost DefaultCost(const OpDef& def, const InferArgs& args, const std::vector<TensorType>& outputs);

}  // namespace oc

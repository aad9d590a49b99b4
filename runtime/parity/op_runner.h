// Runs single ops on a slice of a device, from tensors of the host to tensors of the host.
//
//   OpRunner runner(*slice, BuiltinOps());
//   OC_ASSIGN_OR_RETURN(std::vector<Tensor> y, runner.Run("relu", {}, {x}));
//
// One thread at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "openclaw/devices/device.h"
#include "openclaw/graph/graph.h"

namespace oc::parity {

class OpRunner {
 public:
  struct Options {
    uint32_t accumulate = 0;
    // Memory that outputs start with where they accumulate; else they start as garbage.
    std::vector<Tensor> initial;
    // Outputs take the memory of the inputs that OpDef::reuse allows.
    bool in_place = false;
    // Bytes by which each operand misses 64-byte alignment, rounded down to its element size.
    int64_t misalign = 0;
  };

  // The slice must outlive the runner.
  OpRunner(Slice& slice, std::shared_ptr<const OpRegistry> ops)
      : slice_(slice), ops_(std::move(ops)) {}

  // Infers, prepares, runs; the outputs. kUnimplemented where the slice has no kernel; kInternal
  // where the kernel wrote outside of its outputs, or changed an input; kDeadlineExceeded after a
  // minute. `implementation` (may be null) tells whose kernel ran.
  StatusOr<std::vector<Tensor>> Run(const std::string& op, const Attributes& attrs,
                                    const std::vector<Tensor>& inputs, const Options& options,
                                    std::string* implementation = nullptr);
  StatusOr<std::vector<Tensor>> Run(const std::string& op, const Attributes& attrs,
                                    const std::vector<Tensor>& inputs) {
    return Run(op, attrs, inputs, Options());
  }
  const OpRegistry& ops() const { return *ops_; }
  const std::shared_ptr<const OpRegistry>& shared_ops() const { return ops_; }
  Slice& slice() { return slice_; }

 private:
  Slice& slice_;
  std::shared_ptr<const OpRegistry> ops_;
};

// Evaluates a graph op by op: inputs by name; returns the values wanted. Errors of Run name the
// node. Each op's implementation is added to `implementations`, which may be null.
StatusOr<std::vector<Tensor>> Evaluate(
    const Graph& graph, const std::map<std::string, Tensor>& inputs, const std::vector<int>& wanted,
    OpRunner& runner, std::map<std::string, std::string>* implementations = nullptr);

}  // namespace oc::parity

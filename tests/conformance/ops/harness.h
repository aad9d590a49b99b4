// One suite of op cases for every device. A case is an op, how its inputs are made and its
// attributes; it runs in each of its dtypes, on each device, against the reference device, and its
// gradient is compared with finite differences. To add a case, return it from a cases_*.cc listed
// in cases.h:
//
//   cases.push_back({.op = "add", .name = "suffix", .inputs = {Normal({3, 5}), Normal({5})}});
//
// Values come from Philox, so a case is the same everywhere.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "openclaw/core/rng.h"
#include "openclaw/devices/device.h"
#include "openclaw/graph/graph.h"

namespace oc::conformance {

// How one input is made.
struct Input {
  Shape shape;
  // Value of element i.
  std::function<double(const Philox& rng, uint64_t stream, uint64_t i)> fill;
  // None: the dtype that the case runs in.
  std::optional<DType> dtype;

  Input As(DType fixed) const {
    Input result = *this;
    result.dtype = fixed;
    return result;
  }
};

Input Normal(const Shape& shape, double mean = 0, double stddev = 1);
Input Uniform(const Shape& shape, double low, double high);
// Integers low..high, both included; i32 unless As says otherwise.
Input Integers(const Shape& shape, int64_t low, int64_t high);
// Integers in the dtype of the case.
Input Whole(const Shape& shape, int64_t low, int64_t high);
Input Bools(const Shape& shape);
Input Constant(const Shape& shape, double value);
// These, over and over.
Input Values(const Shape& shape, std::vector<double> values);

inline const std::vector<DType> kFloats = {DType::kF32, DType::kF64, DType::kBF16, DType::kF16};
inline const std::vector<DType> kF32Only = {DType::kF32};
inline const std::vector<DType> kWholes = {DType::kI32, DType::kI64, DType::kU8};

// Runs single ops on a slice of a device.
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

  OpRunner(Slice& slice, std::shared_ptr<const OpRegistry> ops)
      : slice_(slice), ops_(std::move(ops)) {}

  // Infers, prepares, runs; the outputs. kInternal where the kernel wrote outside of its outputs,
  // or changed an input. `implementation` (may be null) tells whose kernel ran.
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

struct OpCase {
  std::string op;
  std::string name;  // tells the cases of an op apart
  std::vector<Input> inputs;
  Attributes attrs;
  std::vector<DType> dtypes = kFloats;

  // Changes the generated inputs before they are used, with the reference device at hand: a
  // gradient op takes what its forward saved. May be null.
  std::function<Status(OpRunner& reference, std::vector<Tensor>& inputs)> prepare;
  // Run is to fail with this code (bad labels and the like).
  std::optional<absl::StatusCode> error;
  // Times the usual tolerance of the dtype.
  double tolerance = 1;
  // Outputs compared; empty: all.
  std::vector<int> compare;

  // Finite differences, where the op has a gradient: of the outputs named (weighted by random
  // numbers), for the inputs named (empty: all floats).
  bool gradient = true;
  std::vector<int> gradient_outputs = {0};
  std::vector<int> gradient_inputs;
  double step = 1e-5;                // of the central difference
  double gradient_tolerance = 1e-6;  // norm-wise
};

// "linear/bias/bf16".
std::string CaseName(const OpCase& c, DType dtype);

// The inputs of a case in a dtype, `prepare` applied.
StatusOr<std::vector<Tensor>> MakeInputs(const OpCase& c, DType dtype, OpRunner& reference);

// Empty, or how `actual` differs from `expected` by more than `tolerance`: the norm of the
// difference over the norm of `expected`, and no element off by far more. Integers and bools must
// be equal.
std::string Difference(const Tensor& actual, const Tensor& expected, double tolerance);
// Norm-wise, of results in `dtype` of a computation on `activations`.
double Tolerance(DType dtype, DType activations);

// Compares the gradient that Differentiate builds with finite differences, in f64. Empty, or what
// is wrong.
std::string GradientError(const OpCase& c, OpRunner& reference);
// Compares an op's decomposition with its kernel. Empty, or what is wrong.
std::string DecompositionError(const OpCase& c, DType dtype, OpRunner& runner);

// Evaluates a graph op by op: inputs by name; returns the values wanted.
StatusOr<std::vector<Tensor>> Evaluate(const Graph& graph,
                                       const std::map<std::string, Tensor>& inputs,
                                       const std::vector<int>& wanted, OpRunner& runner);

}  // namespace oc::conformance

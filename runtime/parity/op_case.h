// Op cases: for every op of the product, inputs and attributes that are small and awkward. The
// conformance suite runs them on each device against the reference device, `ocl doctor --parity` on
// each pair of devices. A case is an op, how its inputs are made and its attributes; it runs in
// each of its dtypes. To add a case, return it from a cases_*.cc listed in cases.h:
//
//   cases.push_back({.op = "add", .name = "suffix", .inputs = {Normal({3, 5}), Normal({5})}});
//
// Values come from Philox, so a case is the same everywhere.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "openclaw/core/rng.h"
#include "openclaw/runtime/parity/op_runner.h"

namespace oc::parity {

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
  // Times the usual tolerance, of the gradients in narrow types, where they cancel.
  double backward_tolerance = 1;
};

// "linear/bias/bf16".
std::string CaseName(const OpCase& c, DType dtype);
// Elements of all inputs together.
int64_t NumElements(const OpCase& c);
// Whether output i of the op is to be compared.
bool Compares(const OpCase& c, int output);
// Whether the gradient of input i, of type `dtype`, is to be looked at.
bool WantsGradient(const OpCase& c, DType dtype, int input);

// The inputs of a case in a dtype, `prepare` applied.
StatusOr<std::vector<Tensor>> MakeInputs(const OpCase& c, DType dtype, OpRunner& reference);

// Norm-wise, of results in `dtype` of a computation on `activations`; 0 for integers and bools.
double Tolerance(DType dtype, DType activations);

}  // namespace oc::parity

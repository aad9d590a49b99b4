// What the conformance suite checks of op cases (runtime/parity/op_case.h): each case runs in each
// of its dtypes, on each device, against the reference device, and its gradient is compared with
// finite differences.
#pragma once

#include <string>

#include "openclaw/runtime/parity/cases.h"

namespace oc::parity {

// Empty, or how `actual` differs from `expected` by more than `tolerance`: the norm of the
// difference over the norm of `expected`, and no element off by far more. Integers and bools must
// be equal.
std::string Difference(const Tensor& actual, const Tensor& expected, double tolerance);

// Compares the gradient that Differentiate builds with finite differences, in f64. Empty, or what
// is wrong.
std::string GradientError(const OpCase& c, OpRunner& reference);
// Compares an op's decomposition with its kernel. Empty, or what is wrong.
std::string DecompositionError(const OpCase& c, DType dtype, OpRunner& runner);

}  // namespace oc::parity

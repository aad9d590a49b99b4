// The lists of cases, by family.
#pragma once

#include "openclaw/runtime/parity/op_case.h"

namespace oc::parity {

std::vector<OpCase> ElementwiseCases();
std::vector<OpCase> ShapeCases();
std::vector<OpCase> ReduceCases();
std::vector<OpCase> ProductCases();
std::vector<OpCase> UpdateCases();
std::vector<OpCase> OptimizerCases();
std::vector<OpCase> ImageCases();
std::vector<OpCase> SequenceCases();

// All of them, in this order.
std::vector<OpCase> AllCases();

}  // namespace oc::parity

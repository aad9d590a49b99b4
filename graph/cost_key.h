// The text that a measured cost is kept under (core/cost_table.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "openclaw/graph/op.h"

namespace oc {

// "op@version(types; attributes; flags) on kind", as
// "linear_grad_weight@1(f32[8, 10], f32[8, 4]; ; accumulate=1) on cpu/avx512_bf16/1t". Calls that
// cost the same have the same key: a random op's stream number is left out. Bit i of `accumulate`:
// output i is added to. Precondition: the shapes are bound.
std::string CostKey(const OpDef& def, const Attributes& attrs,
                    const std::vector<TensorType>& inputs, uint32_t accumulate,
                    const std::string& vcu_kind);

}  // namespace oc

// f16 operands of kernels that have f32 and bf16 alone: they are widened to f32 in the workspace,
// the kernel runs in f32, and its results are rounded once. f16 halves memory and messages here,
// not time: processors without AVX512-FP16 do not multiply in it.
#pragma once

#include "openclaw/devices/host/kernel.h"

namespace oc::cpu {

// `factory`, and for requests with f16 operands the kernel that it makes for f32.
KernelFactory WithF16(KernelFactory factory);

}  // namespace oc::cpu

// Reference kernels of arithmetic, movement, reductions, products and updates, by family. Each
// function adds its family to a registry.
#pragma once

#include "openclaw/devices/host/kernel.h"

namespace oc::reference {

void RegisterBinary(KernelRegistry& registry);    // add sub mul div, comparisons, where
void RegisterUnary(KernelRegistry& registry);     // relu and the like, their gradients, scale, cast
void RegisterMovement(KernelRegistry& registry);  // transpose broadcast_to slice pad concat copy
void RegisterReduce(KernelRegistry& registry);
void RegisterProduct(KernelRegistry& registry);  // matmul linear
void RegisterSoftmax(KernelRegistry& registry);
// accumulate lerp ema sum_squares sum_partials clip_factor
void RegisterUpdate(KernelRegistry& registry);
// sgd adam adamw lion lamb_moments lamb_step adafactor muon_momentum decayed_step
void RegisterOptimizers(KernelRegistry& registry);
void RegisterDropout(KernelRegistry& registry);

// All of them.
void RegisterBasic(KernelRegistry& registry);

}  // namespace oc::reference

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
void RegisterUpdate(KernelRegistry& registry);  // accumulate lerp sum_squares clip_factor sgd adamw
void RegisterDropout(KernelRegistry& registry);

// All of them.
void RegisterBasic(KernelRegistry& registry);

}  // namespace oc::reference

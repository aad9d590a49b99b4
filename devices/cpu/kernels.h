// The kernels of the cpu leaf, family by family. Each adds its ops to the registry that the leaf
// asks first; the ones of native/ only where the processor can run them.
#pragma once

#include "openclaw/devices/host/kernel.h"

namespace oc::cpu {

// onednn/: products and convolutions, f32 and bf16, and f16 widened to f32 (widened.h).
// kFailedPrecondition where the library cannot start.
Status RegisterOneDnn(KernelRegistry& registry);

// native/: own vectorised loops. f32, bf16 and f16 (arithmetic in f32), integers where the op has
// them; whatever else is asked answers kUnimplemented. Nothing is added on a processor without AVX2
// and FMA.
void RegisterNative(KernelRegistry& registry);

void RegisterElementwise(
    KernelRegistry& registry);                // unary, binary, comparisons, where, cast, scale
void RegisterNorm(KernelRegistry& registry);  // layer_norm, rms_norm and their gradients
void RegisterSoftmax(
    KernelRegistry& registry);  // softmax, cross_entropy, count_valid, count_correct
void RegisterEmbedding(KernelRegistry& registry);  // embedding and its gradient, rope
void RegisterAttention(KernelRegistry& registry);  // attention and its gradient
void RegisterMovement(
    KernelRegistry& registry);                  // transpose, broadcast_to, slice, pad, concat, copy
void RegisterReduce(KernelRegistry& registry);  // reduce_sum, reduce_mean, reduce_max
void RegisterDropout(KernelRegistry& registry);
void RegisterOptimizer(
    KernelRegistry& registry);  // state and optimizers that go element by element
void RegisterNormSums(
    KernelRegistry& registry);  // sum_squares, sum_partials, clip_factor, lamb's two
void RegisterAdafactor(KernelRegistry& registry);
void RegisterPool2d(KernelRegistry& registry);     // max_pool2d, avg_pool2d and their gradients
void RegisterBatchNorm(KernelRegistry& registry);  // batch_norm, its gradient, unbiased_var

}  // namespace oc::cpu

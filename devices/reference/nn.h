// Reference kernels of images, norms, losses, embeddings and attention, by family. Each function
// adds its family to a registry.
#pragma once

#include "openclaw/devices/host/kernel.h"

namespace oc::reference {

void RegisterConv2d(KernelRegistry& registry);
void RegisterPool2d(KernelRegistry& registry);
void RegisterBatchNorm(KernelRegistry& registry);
void RegisterLayerNorm(KernelRegistry& registry);  // and rms_norm
void RegisterCrossEntropy(KernelRegistry& registry);
void RegisterEmbedding(KernelRegistry& registry);
void RegisterAttention(KernelRegistry& registry);  // and rope

// All of them.
void RegisterNn(KernelRegistry& registry);

}  // namespace oc::reference

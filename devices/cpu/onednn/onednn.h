// The families of kernels in this folder; RegisterOneDnn (kernels.h) adds them all.
#pragma once

#include <memory>

#include "openclaw/devices/cpu/onednn/shim.h"
#include "openclaw/devices/host/kernel.h"

namespace oc::cpu {

// matmul, linear and its gradients.
void RegisterOneDnnProducts(KernelRegistry& registry,
                            std::shared_ptr<const onednn::Context> context);
// conv2d and its gradients.
void RegisterOneDnnConvolutions(KernelRegistry& registry,
                                std::shared_ptr<const onednn::Context> context);

}  // namespace oc::cpu

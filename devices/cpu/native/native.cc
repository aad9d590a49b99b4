#include "openclaw/devices/cpu/kernels.h"
#include "openclaw/devices/cpu/native/dispatch.h"

namespace oc::cpu {

void RegisterNative(KernelRegistry& registry) {
  if (ActiveIsa() == Isa::kNone) return;
  RegisterElementwise(registry);
  RegisterNorm(registry);
  RegisterSoftmax(registry);
  RegisterEmbedding(registry);
  RegisterAttention(registry);
  RegisterMovement(registry);
  RegisterReduce(registry);
  RegisterDropout(registry);
  RegisterOptimizer(registry);
  RegisterNormSums(registry);
  RegisterAdafactor(registry);
  RegisterPool2d(registry);
  RegisterBatchNorm(registry);
}

}  // namespace oc::cpu

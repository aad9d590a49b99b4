#include "openclaw/devices/cpu/kernels.h"
#include "openclaw/devices/cpu/native/dispatch.h"

namespace oc::cpu {

void RegisterNative(KernelRegistry& registry) {
  if (ActiveIsa() == Isa::kNone) return;
  RegisterElementwise(registry);
}

}  // namespace oc::cpu

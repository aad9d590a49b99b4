#include "openclaw/devices/cpu/onednn/onednn.h"

#include "openclaw/devices/cpu/kernels.h"

namespace oc::cpu {

Status RegisterOneDnn(KernelRegistry& registry) {
  OC_ASSIGN_OR_RETURN(std::shared_ptr<const onednn::Context> context, onednn::Context::Create());
  RegisterOneDnnProducts(registry, context);
  RegisterOneDnnConvolutions(registry, context);
  return OkStatus();
}

}  // namespace oc::cpu

// The leaves that are built in: the one file outside the leaves that names them.
#include "openclaw/devices/cpu/cpu.h"
#include "openclaw/devices/reference/reference.h"
#include "openclaw/runtime/cluster.h"

namespace oc {

DeviceRegistry BuiltinLeaves() {
  DeviceRegistry registry;
  registry.Add(CpuLeaf(ReferenceKernels()));
  registry.Add(ReferenceLeaf());
  return registry;
}

}  // namespace oc

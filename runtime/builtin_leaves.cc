// The leaves that are built in: the one file outside the leaves that names them.
#include "openclaw/devices/cpu/cpu.h"
#include "openclaw/devices/export.h"
#include "openclaw/devices/reference/reference.h"
#include "openclaw/devices/sim/sim.h"
#include "openclaw/runtime/cluster.h"

namespace oc {
namespace {

// Ops that the cpu leaf lacks run on the reference kernels; every run counts them.
StatusOr<std::vector<std::unique_ptr<Device>>> DiscoverCpusWithReference() {
  return DiscoverCpus(ReferenceKernels());
}

StatusOr<std::vector<std::unique_ptr<Device>>> DiscoverSimWithReference() {
  return DiscoverSim({ReferenceKernels()});
}

}  // namespace

DeviceRegistry BuiltinLeaves(std::shared_ptr<const KernelRegistry> own) {
  DeviceRegistry registry;
  if (own == nullptr) {
    registry.Add(ThroughTable<&DiscoverCpusWithReference>("cpu"));
  } else {
    // A table is one a process and cannot hold them: these devices are used as they are.
    registry.Add({"cpu", [own] { return DiscoverCpus(ReferenceKernels(), own); }});
  }
  for (DeviceLeaf leaf : {ThroughTable<&DiscoverReference>("reference"),
                          ThroughTable<&DiscoverSimWithReference>("sim")}) {
    leaf.by_name_only = true;
    registry.Add(std::move(leaf));
  }
  return registry;
}

std::vector<std::string> BuiltinLibraries() { return {CpuLibraries()}; }

}  // namespace oc

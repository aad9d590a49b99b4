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

DeviceRegistry BuiltinLeaves() {
  DeviceRegistry registry;
  registry.Add(ThroughTable<&DiscoverCpusWithReference>("cpu"));
  registry.Add(ThroughTable<&DiscoverReference>("reference"));
  registry.Add(ThroughTable<&DiscoverSimWithReference>("sim"));
  return registry;
}

std::vector<std::string> BuiltinLibraries() { return {CpuLibraries()}; }

}  // namespace oc

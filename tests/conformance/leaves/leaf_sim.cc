#include "leaves.h"
#include "openclaw/devices/export.h"
#include "openclaw/devices/reference/reference.h"
#include "openclaw/devices/sim/sim.h"

namespace oc::parity {
namespace {

// The arithmetic is the reference device's: what is tested is all around it.
StatusOr<std::vector<std::unique_ptr<Device>>> Discover() {
  return DiscoverSim({ReferenceKernels()});
}

}  // namespace

std::vector<LeafUnderTest> LeavesUnderTest() {
  return {{ThroughTable<&Discover>("sim"), {1}, /*asynchronous=*/true}};
}

}  // namespace oc::parity

#include "leaves.h"
#include "openclaw/devices/cpu/cpu.h"
#include "openclaw/devices/export.h"

namespace oc::parity {
namespace {

// Without reference kernels to fall back on: what the leaf lacks is counted.
StatusOr<std::vector<std::unique_ptr<Device>>> Discover() { return DiscoverCpus(nullptr); }

}  // namespace

std::vector<LeafUnderTest> LeavesUnderTest() { return {{ThroughTable<&Discover>("cpu"), {1, 2}}}; }

}  // namespace oc::parity

// The devices under test. A new leaf joins with one line in leaves.cc.
#pragma once

#include <vector>

#include "openclaw/devices/device.h"

namespace oc::conformance {

struct LeafUnderTest {
  DeviceLeaf leaf;
  std::vector<int> threads;  // slices of so many threads are tested
};

std::vector<LeafUnderTest> LeavesUnderTest();

}  // namespace oc::conformance

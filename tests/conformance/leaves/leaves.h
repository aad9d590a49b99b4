// The device under test: one file a leaf implements this, and one program a leaf is built of it.
#pragma once

#include <vector>

#include "openclaw/devices/device.h"

namespace oc::parity {

struct LeafUnderTest {
  DeviceLeaf leaf;
  std::vector<int> threads;   // slices of so many threads are tested
  bool asynchronous = false;  // calls of a queue return before the work is done
};

std::vector<LeafUnderTest> LeavesUnderTest();

}  // namespace oc::parity

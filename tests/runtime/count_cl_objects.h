// What a program holds of OpenCL's objects. Linked into a test that exports its symbols
// (ENABLE_EXPORTS), these functions stand before the library's, for every module that the test
// opens: they count, and pass the call on.
#pragma once

#include <string>

namespace oc {

struct ClObjects {
  int contexts = 0, queues = 0, memories = 0, programs = 0, kernels = 0, events = 0;
  int sub_devices = 0;
  bool operator==(const ClObjects&) const = default;
};
std::string ToString(const ClObjects& objects);

// Those that were made and not yet released as often as they were made and retained.
ClObjects LiveClObjects();

}  // namespace oc

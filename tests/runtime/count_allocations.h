// Counts what a process takes from the heap through C++: linking count_allocations.cc replaces
// operator new.
#pragma once

#include <cstdint>

namespace oc::testing {

// Allocations so far, on all threads.
int64_t Allocations();

}  // namespace oc::testing

// What this machine offers to this process.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "openclaw/core/status.h"

namespace oc::cpu {

struct NumaNode {
  std::vector<int> cores;  // logical processors that this process may use, ascending; not empty
  int64_t memory_bytes = 0;
};

// Nodes with usable cores; memory is available memory, shared out by the nodes' sizes.
StatusOr<std::vector<NumaNode>> UsableNodes();

// The number in a control group's file ("max" and what cannot be read: -1).
int64_t ReadControlGroupNumber(const std::string& path);
// What is left under the memory limits of the process's control groups (version 2, and 1);
// INT64_MAX where there is none. `proc` and `sys` are the roots of the two file systems, for tests.
int64_t MemoryLeftInControlGroups(const std::string& proc = "/proc",
                                  const std::string& sys = "/sys/fs/cgroup");
// MemAvailable of PROC/meminfo in bytes.
StatusOr<int64_t> AvailableMemory(const std::string& proc = "/proc");

// See cpu.h.
std::string InstructionSet();

}  // namespace oc::cpu

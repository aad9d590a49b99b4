// What `cluster: auto` makes of a host: the devices that are found beside its processors, and how
// all of them are divided into VCUs of the host's processes.
//
//   const FoundDevices found = FindDevices(registry, /*timeout_seconds=*/30);
//   const HostDivision division = DivideHost(cpus, found, {.vcus = 2});
#pragma once

#include <map>
#include <string>
#include <vector>

#include "openclaw/devices/device.h"

namespace oc {

// A VCU that a host is to have.
struct WantedVcu {
  std::string device;        // the leaf
  int index = -1;            // which of the leaf's devices; -1: each in turn
  int cores = 0;             // compute units; 0: an even share
  int64_t memory_bytes = 0;  // 0: an even share
  std::map<std::string, std::string> options;
  int local_rank = 0;  // whose it is, among the host's processes
};

struct FoundDevice {
  DeviceInfo info;
  int index = 0;  // of its leaf's devices
};
// Of a leaf that has no device to offer: why.
struct AbsentLeaf {
  std::string leaf;
  Status why;
};
struct FoundDevices {
  std::vector<FoundDevice> devices;  // in the order of leaves
  std::vector<AbsentLeaf> absent;
};

// Asks all leaves but the first, which is the host's processors, and those that are taken by name
// only. Each is asked in a child process, so that a driver is loaded here only where its devices
// are used, and one that crashes or hangs is merely absent (kDeadlineExceeded after
// `timeout_seconds`). For a process that has not computed yet (RunInChild, core/child.h).
FoundDevices FindDevices(const DeviceRegistry& registry, double timeout_seconds);

struct HostProcesses {
  bool alone = true;  // no launcher
  int count = 1;      // on this host
  // Alone: how many VCUs are asked for; 0: one a device.
  int vcus = 0;
};
struct HostDivision {
  std::vector<WantedVcu> vcus;  // the same on every process of the host
  // One line: "cpu:0 (avx512, 3 of 4 cores), npu:0 (A2); left out: opencl:0 (..., the same cores as
  // cpu:0); none: ascend".
  std::string summary;
};

// `processors` is not empty: the devices of the first leaf. Others that compute with the same cores
// are left out; for each of the rest a core is kept free of the processors' VCUs (of which each
// keeps one), for the thread that feeds it.
// - Alone: a VCU a device. Where more are asked for, processors are split, down to a core a VCU,
//   then the other devices; where fewer are, the processors make one, and the planner chooses.
// - Under a launcher: device i is local rank i's, modulo their number; ranks beyond the devices
//   share the processors, a VCU each.
// Without other devices: as many VCUs on the processors as are asked for, or one a process.
HostDivision DivideHost(const std::vector<DeviceInfo>& processors, const FoundDevices& found,
                        const HostProcesses& processes);

}  // namespace oc

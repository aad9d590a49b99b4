// The knobs of a simulated unit, as a cluster entry gives them:
//
//   cluster: [{device: sim, memory: 1GiB, sim: {speed: 0.5, latency_us: 20, bandwidth_gbps: 8}}]
#pragma once

#include <map>
#include <string>
#include <vector>

#include "openclaw/core/dtype.h"
#include "openclaw/core/status.h"

namespace oc::sim {

struct SimOptions {
  // An op takes at least max(flops / (flops_rate * speed), bytes / (memory_rate * speed)) seconds,
  // with the flops and bytes of DefaultCost; 0: it takes what the host needs.
  double speed = 0;
  double flops = 2e8;        // operations a second at speed 1
  double memory_gbps = 0.4;  // 1e9 bytes a second at speed 1
  // A copy between host and device takes at least latency + bytes / bandwidth.
  double latency_us = 0;
  double bandwidth_gbps = 0;       // 1e9 bytes a second; 0: no limit
  std::vector<DType> dtypes;       // that ops may have; empty: all
  std::vector<std::string> lacks;  // ops that the unit has no kernel for
  // Ops of which the unit says that their results may not repeat bit by bit.
  std::vector<std::string> not_deterministic;

  // Faults, by the number of ops enqueued (from 1 on; 0: none).
  int64_t fail_at = 0;           // this op and all work after it: kUnavailable, the device is lost
  int64_t never_signal_at = 0;   // the next event recorded behind this op never becomes ready
  std::string faults_on;         // ops on queues of this name alone are counted; empty: on all
  int64_t out_of_memory_at = 0;  // bytes that can be taken, whatever the budget says; 0: no limit
};

// kInvalidArgument names an unknown key and the nearest known one, or a value and what it must be.
StatusOr<SimOptions> ParseOptions(const std::map<std::string, std::string>& options);

// What speeds and kernels depend on, without blanks or slashes: "host" where nothing is modelled,
// "2x", "2x,flops=1e+09,dtypes=f32+i32".
std::string CostName(const SimOptions& options);

}  // namespace oc::sim

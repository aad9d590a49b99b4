// Cluster files: machines that need not be there, for `ocl plan --cluster FILE`.
//
//   vcus:
//     - {device: cpu, threads: 1, memory: 4GiB, count: 2}         # named cpu:0 and cpu:1
//     - {name: big, device: sim, kind: sim/fast, memory: 80GiB, dtypes: [f32, bf16], host: b,
//        process: 1}
//   links:
//     default: {latency: 20e-6, bandwidth: 10GB}                  # seconds; bytes a second
//     pairs:
//       - {from: "cpu:0", to: "cpu:1", latency: 1e-6, bandwidth: 20GiB}   # both directions
//       - {from: "cpu:0", to: big, points: [[0, 1e-5], [1048576, 2e-4]], one_way: true}
//
// Without a name a VCU is called DEVICE:N; with `count`, NAME:N. `kind` is that by which costs are
// looked up, as a profile names it after "on" (cpu/avx2/1t); where it is not given it stays empty,
// and the VCU counts as one of this machine's. `links` may be absent with a single VCU only.
#pragma once

#include <string>

#include "openclaw/core/cluster.h"
#include "openclaw/core/status.h"

namespace oc {

// Errors as those of LoadConfig.
StatusOr<ClusterSpec> LoadCluster(const std::string& path);
StatusOr<ClusterSpec> ParseCluster(const std::string& text, const std::string& source);

}  // namespace oc

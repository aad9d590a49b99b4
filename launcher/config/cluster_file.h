// Cluster files: the machines to train on (`cluster: FILE`), or ones that need not be there, for
// `ocl plan --cluster FILE`.
//
//   vcus:
//     - {device: cpu, threads: 1, memory: 4GiB, count: 2}         # named cpu:0 and cpu:1
//     - {name: big, device: sim, kind: sim/fast, memory: 80GiB, dtypes: [f32, bf16], host: b,
//        process: 1}
//     - {device: sim, memory: 1GiB, sim: {speed: 2}}              # the device's own options
//   links:
//     default: {latency: 20e-6, bandwidth: 10GB}                  # seconds; bytes a second
//     pairs:
//       - {from: "cpu:0", to: "cpu:1", latency: 1e-6, bandwidth: 20GiB}   # both directions
//       - {from: "cpu:0", to: big, points: [[0, 1e-5], [1048576, 2e-4]], one_way: true}
//
// Without a name a VCU is called DEVICE:N; with `count`, NAME:N. `kind` is that by which costs are
// looked up, as a profile names it after "on" (cpu/avx2/1t); where it is not given it stays empty,
// and the VCU counts as one of this machine's. `host_kind` is that of the processors beside a
// device whose memory is apart from theirs (parallel.offload); of this machine's devices it is
// found. Without `threads` it has one; to train, an even share of its device. `links` may be absent
// with a single VCU, and to train, for then they are measured.
#pragma once

#include <string>
#include <vector>

#include "openclaw/core/cluster.h"
#include "openclaw/core/config.h"
#include "openclaw/core/status.h"

namespace oc {

// Errors as those of LoadConfig. need_links: every pair of VCUs must have one; else missing ones
// cost nothing.
StatusOr<ClusterSpec> LoadCluster(const std::string& path, bool need_links = true);
StatusOr<ClusterSpec> ParseCluster(const std::string& text, const std::string& source,
                                   bool need_links = true);

// The entries to train with on `host`: the VCUs of the file that name it, or no host at all.
// kInvalidArgument: there is none.
StatusOr<std::vector<ClusterEntry>> EntriesOn(const ClusterSpec& cluster, const std::string& host);

}  // namespace oc

// The plain description of the machines: VCUs and the links between them. This is all that the
// partitioner and the schedules see.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "openclaw/core/dtype.h"
#include "openclaw/core/status.h"

namespace oc {

// How strongly a slice of a device is kept to its share.
enum class Enforcement { kNone, kSoft, kHard };
const char* Name(Enforcement enforcement);

// One virtual compute unit.
struct VcuSpec {
  std::string name;    // "cpu:0", unique in the cluster
  std::string device;  // the leaf: "cpu", "reference", ...
  std::string kind;    // what costs are keyed by: device, model, threads ("cpu/avx512_bf16/1t")
  int process = 0;     // the rank of the process that holds it
  std::string host;
  int threads = 1;
  std::vector<int> cores;    // logical processors, empty: not pinned
  int64_t memory_bytes = 0;  // budget for state and step arenas
  std::vector<DType> dtypes;
  Enforcement enforcement = Enforcement::kNone;
  // The kind of the host's slice that can compute for it, where the VCU's memory is apart from the
  // host's; empty: the host touches it in place.
  std::string host_kind;
  // Of a cluster file: what only this kind of device takes, as SliceOptions::options.
  std::map<std::string, std::string> options;
};

// Seconds to move a message, piecewise linear between measured sizes, proportional above the
// largest.
struct LinkCurve {
  struct Point {
    int64_t bytes = 0;
    double seconds = 0;
  };
  std::vector<Point> points;  // ascending by bytes
  double Seconds(int64_t bytes) const;
  // Latency plus bytes over bandwidth, as two points.
  static LinkCurve Of(double latency_seconds, double bytes_per_second);
};

struct ClusterSpec {
  std::vector<VcuSpec> vcus;
  // links[from * vcus.size() + to]; the diagonal is unused.
  std::vector<LinkCurve> links;
  const LinkCurve& link(int from, int to) const { return links[from * vcus.size() + to]; }
  int size() const { return static_cast<int>(vcus.size()); }
  // Names unique, links complete, budgets positive; else kInvalidArgument.
  Status Validate() const;
};

}  // namespace oc

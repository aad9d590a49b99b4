#include "openclaw/devices/cpu/topology.h"

#include <cpuid.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>

namespace oc::cpu {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

struct TopologyCloser {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyCloser>;

StatusOr<Topology> LoadTopology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) {
    return FailedPrecondition("discover cpu: hwloc cannot start");
  }
  Topology topology(raw);
  if (hwloc_topology_load(raw) != 0) {
    return FailedPrecondition("discover cpu: hwloc cannot read this machine's topology");
  }
  return topology;
}

// hwloc leaves out processors that a cpuset forbids; the thread's own affinity narrows it further.
bool Allowed(const cpu_set_t& set, int core) { return core < CPU_SETSIZE && CPU_ISSET(core, &set); }

// What is left below one control group and its parents.
int64_t LeftUnder(const std::string& root, std::string path, const char* limit, const char* used) {
  int64_t left = kNoLimit;
  for (;;) {
    const std::string folder = root + path + "/";
    const int64_t max = ReadControlGroupNumber(folder + limit);
    // Version 1 writes a huge number for "no limit".
    if (max >= 0 && max < kNoLimit / 2) {
      const int64_t taken = std::max<int64_t>(0, ReadControlGroupNumber(folder + used));
      left = std::min(left, std::max<int64_t>(0, max - taken));
    }
    if (path.empty() || path == "/") return left;
    path.resize(path.rfind('/'));
  }
}

}  // namespace

int64_t ReadControlGroupNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t value = -1;
  return file >> value ? value : -1;
}

int64_t MemoryLeftInControlGroups(const std::string& proc, const std::string& sys) {
  // Lines read "0::/path" (version 2) or "4:memory:/path" (version 1).
  std::ifstream file(proc + "/self/cgroup");
  int64_t left = kNoLimit;
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      left = std::min(left, LeftUnder(sys, path, "memory.max", "memory.current"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      left = std::min(
          left, LeftUnder(sys + "/memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes"));
    }
  }
  return left;
}

StatusOr<int64_t> AvailableMemory(const std::string& proc) {
  std::ifstream file(proc + "/meminfo");
  std::string key, unit;
  int64_t kib = 0;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(file, unit);
  }
  return FailedPrecondition("discover cpu: ", proc, "/meminfo tells no MemAvailable");
}

StatusOr<std::vector<NumaNode>> UsableNodes() {
  OC_ASSIGN_OR_RETURN(const Topology topology, LoadTopology());
  OC_ASSIGN_OR_RETURN(int64_t memory, AvailableMemory());
  memory = std::min(memory, MemoryLeftInControlGroups());
  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  if (sched_getaffinity(0, sizeof(affinity), &affinity) != 0) {
    return FailedPrecondition("discover cpu: the system does not tell this process's affinity");
  }
  std::vector<NumaNode> nodes;
  double total = 0;
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    NumaNode usable;
    unsigned core = 0;
    hwloc_bitmap_foreach_begin(core, node->cpuset) {
      if (Allowed(affinity, static_cast<int>(core))) {
        usable.cores.push_back(static_cast<int>(core));
      }
    }
    hwloc_bitmap_foreach_end();
    if (usable.cores.empty()) continue;
    // Where a virtual machine tells no sizes, nodes count by their cores.
    usable.memory_bytes = node->attr->numanode.local_memory > 0
                              ? static_cast<int64_t>(node->attr->numanode.local_memory)
                              : static_cast<int64_t>(usable.cores.size());
    total += static_cast<double>(usable.memory_bytes);
    nodes.push_back(std::move(usable));
  }
  if (nodes.empty()) {
    return FailedPrecondition("discover cpu: no NUMA node has a core that this process may use");
  }
  for (NumaNode& node : nodes) {
    const double share = static_cast<double>(node.memory_bytes) / total;
    node.memory_bytes = static_cast<int64_t>(static_cast<double>(memory) * share);
  }
  return nodes;
}

std::string InstructionSet() {
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!avx512) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "avx2" : "baseline";
  }
  // Leaf 7: EDX bits 22 and 24 of subleaf 0 are AMX's bf16 products and tiles, EAX bit 5 of subleaf
  // 1 AVX-512's bf16.
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & (1u << 22)) && (d & (1u << 24))) {
    return "amx_bf16";
  }
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 5))) return "avx512_bf16";
  return "avx512";
}

}  // namespace oc::cpu

#include "openclaw/devices/host/host_info.h"

#include <sched.h>

#include <fstream>
#include <string>

namespace oc {

std::vector<int> AllowedCores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {0};
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

StatusOr<int64_t> AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  int64_t kib = 0;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(file, unit);
  }
  return FailedPrecondition("memory of this host: /proc/meminfo tells no MemAvailable");
}

}  // namespace oc

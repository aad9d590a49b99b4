#include "openclaw/runtime/report/memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace oc {

StatusOr<ProcessMemory> ReadProcessMemory() {
  int64_t total_pages = 0, resident_pages = 0;
  std::ifstream statm("/proc/self/statm");
  if (!(statm >> total_pages >> resident_pages)) {
    return FailedPrecondition("read /proc/self/statm: cannot; is /proc mounted?");
  }
  ProcessMemory memory;
  memory.resident_bytes = resident_pages * sysconf(_SC_PAGESIZE);
  std::ifstream status("/proc/self/status");
  std::string key;
  while (status >> key) {
    if (key == "VmHWM:") {
      int64_t kibibytes = 0;
      status >> kibibytes;
      memory.peak_bytes = kibibytes * 1024;
      break;
    }
    std::getline(status, key);
  }
  if (memory.peak_bytes == 0) return FailedPrecondition("read /proc/self/status: no VmHWM in it");
  // The kernel updates the peak lazily: it may lag behind.
  memory.peak_bytes = std::max(memory.peak_bytes, memory.resident_bytes);
  return memory;
}

Status ResetPeakMemory() {
  std::ofstream out("/proc/self/clear_refs");
  out << "5" << std::flush;
  if (!out) return FailedPrecondition("write /proc/self/clear_refs: the kernel refuses");
  return OkStatus();
}

}  // namespace oc

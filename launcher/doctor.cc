#include <cstdio>
#include <cstdlib>

#include "openclaw/comm/launcher_env.h"
#include "openclaw/core/logging.h"
#include "openclaw/devices/call_watch.h"
#include "openclaw/launcher/commands.h"
#include "openclaw/runtime/cluster.h"
#include "openclaw/runtime/doctor.h"
#include "openclaw/runtime/parity/parity.h"

namespace oc {
namespace {

Status Write(const std::string& path, const std::string& json) {
  return path.empty() ? OkStatus() : WriteFile(path, json);
}

constexpr double kCallSeconds = 60;

Status Compare(const DoctorFlags& flags) {
  const auto watch = CallWatch::Start(
      {.timeout_seconds = kCallSeconds, .slow_seconds = 4 * kCallSeconds}, [](const Status& why) {
        OC_LOG_ERROR(why.message());
        std::_Exit(1);
      });
  OC_ASSIGN_OR_RETURN(const DeviceRegistry registry, LeavesWithPlugins(flags.plugins));
  OC_ASSIGN_OR_RETURN(const parity::Report report,
                      parity::CompareDevices(registry, {.leaves = flags.devices}));
  std::fputs(parity::ToText(report).c_str(), stdout);
  OC_RETURN_IF_ERROR(Write(flags.json_path, parity::ToJson(report)));
  if (report.asked_are_absent) {
    return FailedPrecondition("doctor: a device that was asked for is absent: see above");
  }
  return report.ok()
             ? OkStatus()
             : FailedPrecondition("doctor: devices differ by more than is allowed: see above");
}

Status Examine(const DoctorFlags& flags) {
  const Diagnosis diagnosis =
      Diagnose({.plugins = flags.plugins, .devices = flags.devices, .mpi = flags.mpi});
  std::fputs(ToText(diagnosis).c_str(), stdout);
  OC_RETURN_IF_ERROR(Write(flags.json_path, ToJson(diagnosis)));
  return diagnosis.ok() ? OkStatus() : FailedPrecondition("doctor: faults were found: see above");
}

}  // namespace

Status RunDoctor(const DoctorFlags& flags) {
  if (const auto launcher = DetectLauncher()) {
    return FailedPrecondition("doctor: it examines one machine at a time: run it without mpirun (",
                              launcher->variable, " is set)");
  }
  return flags.parity ? Compare(flags) : Examine(flags);
}

}  // namespace oc

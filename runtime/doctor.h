// Examines the machine: memory, libraries, and of every device whether it is found and trains. Each
// fault comes with a remedy. `ocl doctor` prints it.
//
//   const Diagnosis diagnosis = Diagnose({.plugins = {"libnpu_plugin.so"}});
//   std::fputs(ToText(diagnosis).c_str(), stdout);
//   if (!diagnosis.ok()) ...
#pragma once

#include <string>
#include <vector>

#include "openclaw/core/status.h"

namespace oc {

struct DoctorOptions {
  std::vector<std::string> plugins;  // device plugins, by file
  // Leaves that are examined, beside the plugins', and must have a device. Empty: cpu and reference
  // must, and others are examined where they are found, but for `sim`.
  std::vector<std::string> devices;
  bool mpi = false;             // the module for MPI must be there
  double timeout_seconds = 90;  // of what is done with one leaf
};

struct Finding {
  enum class Level {
    kOk,
    kNote,   // absent, or not able to all there is; nobody asked for it
    kFault,  // found and broken, or asked for and absent
  };
  Level level = Level::kOk;
  std::string subject;  // "memory", "cpu:0", a plugin's file
  std::string what;
  std::string remedy;  // what to do; empty where all is well
};

struct Diagnosis {
  std::vector<Finding> findings;
  bool ok() const;  // no fault
};

// Every leaf is tried in a child process: one that crashes or hangs is a finding. For a process
// that has not computed yet (RunInChild, core/child.h). Blocks for seconds.
Diagnosis Diagnose(const DoctorOptions& options);

// A line a finding, its remedy below it.
std::string ToText(const Diagnosis& diagnosis);
std::string ToJson(const Diagnosis& diagnosis);

}  // namespace oc

// The live cluster: this process's VCUs, joined with those of the job's other processes.
//
//   OC_ASSIGN_OR_RETURN(Cluster cluster, Cluster::Discover({.vcus = 2}));
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "openclaw/comm/heartbeat.h"
#include "openclaw/comm/job.h"
#include "openclaw/core/config.h"
#include "openclaw/devices/call_watch.h"
#include "openclaw/devices/device.h"
#include "openclaw/devices/host/kernel.h"
#include "openclaw/runtime/vcu.h"

namespace oc {

struct DiscoverOptions {
  ClusterConfig config;  // empty: auto
  // How many VCUs a process that is alone makes of its host at least where config is auto: 0: one a
  // NUMA node and device (DivideHost, runtime/discovery.h).
  int vcus = 0;
  // The devices; null: the built-in leaves and config.plugins.
  const DeviceRegistry* registry = nullptr;
  double timeout_seconds = 30;  // of exchanges with the other processes, and of calls to devices
  // Runs of one plan file are to repeat bit by bit (docs/training.md): an op of which a device does
  // not say so is made of others, runs on the host, or is refused.
  bool deterministic = false;
  HeartbeatOptions heartbeat;
  // A call into a device's code did not return in time (CallWatch, devices/call_watch.h; setting up
  // and compiling may take four times as long). Its thread cannot be ended: the default logs why,
  // tells the other processes and ends this one with exit code 1. From a thread of its own, once
  // for a call.
  std::function<void(const Status& why)> on_stuck_call;
};

class Cluster {
 public:
  // Joins the launcher's job, if there is one; makes the VCUs. kInvalidArgument for entries that
  // name no device; kResourceExhausted for more cores or memory than there are. More VCUs than
  // cores share them: a warning.
  static StatusOr<Cluster> Discover(const DiscoverOptions& options = {});
  Cluster(Cluster&&) = default;
  Cluster& operator=(Cluster&&) = default;
  ~Cluster();

  const ClusterSpec& spec() const { return spec_; }
  // Where config was auto, in one line: the devices that were found and taken, and those left out,
  // with the reasons. Else empty. It is logged as well.
  const std::string& found() const { return found_; }
  Job& job() { return *job_; }
  bool deterministic() const { return deterministic_; }
  // This process's VCUs.
  const std::vector<std::unique_ptr<Vcu>>& vcus() const { return vcus_; }
  std::vector<Vcu*> local() const;
  // Measures the links between all VCUs into spec(); every process calls it. Nothing for one VCU.
  Status MeasureLinks(double timeout_seconds);

  // Of a dead or stopped peer: its process, and why. Ok while all live. Thread-safe.
  Status failure() const;
  // Leaves the job in order, together with all others: nobody is reported dead. After a failure the
  // job is abandoned without asking anybody.
  Status Leave(double timeout_seconds);
  // Tells the others that this process gives up, and why.
  void GiveUp(const Status& reason);

 private:
  struct Health;
  class HostSubstitutes;
  class Setup;
  Cluster() = default;
  [[noreturn]] static void EndProcess(Health& health, const Status& why);

  ClusterSpec spec_;
  bool deterministic_ = false;
  std::string found_;
  std::unique_ptr<Job> job_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::shared_ptr<HostSubstitutes> substitutes_;  // outlives the VCUs
  std::vector<std::unique_ptr<Vcu>> vcus_;
  std::shared_ptr<Health> health_;
  std::unique_ptr<CallWatch> watch_;  // its report tells the heartbeat, so it goes first
  std::unique_ptr<Heartbeat> heartbeat_;
};

// The leaves that were built in. `own`: kernels of the user's for the leaf cpu, asked before its
// own: those of ops that only the user knows (examples/own_op.cc), or better ones.
DeviceRegistry BuiltinLeaves(std::shared_ptr<const KernelRegistry> own = nullptr);
// The libraries that they compute with, with versions: "oneDNN 3.1.0".
std::vector<std::string> BuiltinLibraries();
// The same, those of plugins, by file, and those of modules beside the library (a plugin of that
// name stands before a module), which are opened when their devices are wanted. Errors of
// LoadPlugin; kInvalidArgument where two plugins, or a plugin and a built-in leaf, have one name.
StatusOr<DeviceRegistry> LeavesWithPlugins(const std::vector<std::string>& plugins,
                                           std::shared_ptr<const KernelRegistry> own = nullptr);

}  // namespace oc

// Runs Programs on the VCUs of this process: a thread a lane, which waits for what its commands
// wait for and then runs them in order. After Create, a step allocates nothing.
//
// On a device that captures (devices/device.h) the commands of the third step are captured run by
// run (runs.h), and launched from then on: the same ops on the same ranges, with one wait a run.
//
//   OC_ASSIGN_OR_RETURN(auto executor, Executor::Create(program, vcus, options));
//   OC_RETURN_IF_ERROR(executor->Run(host));
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "openclaw/core/trace.h"
#include "openclaw/partitioner/program/program.h"
#include "openclaw/runtime/replay.h"
#include "openclaw/runtime/vcu.h"

namespace oc {

// The host's side of a step. Called from lane threads, for one VCU by one thread at a time.
class StepHost {
 public:
  virtual ~StepHost() = default;
  // Writes input `name` of `micro_batch` (kNone: of the step) to `to`.
  virtual Status Feed(int vcu, const std::string& name, int micro_batch,
                      std::span<std::byte> to) = 0;
  // Takes a result; `from` is valid during the call.
  virtual Status Snapshot(int vcu, const std::string& name, int micro_batch,
                          std::span<const std::byte> from) = 0;
};

// A device that does not answer gives up before the peers that wait for it: of their timeout it has
// this share, so that the error names the device.
inline constexpr double kDeviceShare = 0.8;

struct ExecutorOptions {
  double timeout_seconds = 30;  // of every wait for a peer
  int64_t epoch = 0;            // of the groups; another for each executor that is alive at once
  // Capture what a device runs and launch it again, step by step, where the device can.
  bool capture = true;
};

struct VcuTimes {
  double step_seconds = 0;  // from the first command's start to the last one's end
  double compute_seconds = 0;
  double exposed_comm_seconds = 0;  // transfers while nothing computed
  double bubble_fraction = 0;       // 1 - compute / step
};

// How many calls each implementation of a device ran in a step, by name ("onednn", "cpu",
// "reference").
struct ImplementationCount {
  std::string op;
  std::string implementation;
  int64_t calls = 0;
};

// Where a step's values first were no finite numbers.
struct NonFinite {
  int vcu = kNone;
  int command = kNone;  // in its program
  std::string what;     // "output 0 of linear in blocks.0.mlp (parameter w)": for people
};

class Executor {
 public:
  // `vcus`: those of this process, in any order; the Program and they must outlive the executor.
  // Prepares every op, reserves nothing: Vcu::Reserve comes first. Errors of Slice::Prepare name op
  // and VCU.
  static StatusOr<std::unique_ptr<Executor>> Create(const Program& program,
                                                    const std::vector<Vcu*>& vcus,
                                                    const ExecutorOptions& options);
  virtual ~Executor() = default;

  // One step on all VCUs of this process. Blocks until every command has ended; one thread at a
  // time. The first error of any lane ends all others (transports are aborted) and is returned,
  // naming VCU and command (where a computation failed too, that instead of a transfer's error);
  // the executor is then of no further use.
  virtual Status Run(StepHost& host) = 0;

  // Run again with a look at every value between the ops, which is slow: what on this process's
  // VCUs first was not finite, in the order of each VCU's commands. Empty: nothing was. Errors of
  // Run.
  virtual StatusOr<std::vector<NonFinite>> FindNonFinite(StepHost& host) = 0;

  // Memory of the host for what travels between it and devices whose memory it cannot touch, and
  // for messages in another type: taken by Create, as large as any command needs.
  virtual int64_t host_bytes() const = 0;

  // Whether the last step left the command out, as its condition (Command::predicate) says.
  virtual bool skipped(int vcu, int command) const = 0;

  // How this process's VCU `vcu` runs its device's ops, once a step has been captured; before, and
  // where the device does not capture, one by one.
  virtual CaptureReport capture(int vcu) const = 0;

  // Of the last step. `vcu`: index in the cluster, of this process. The commands of a run that was
  // launched share its time as they took it one by one.
  virtual VcuTimes times(int vcu) const = 0;
  virtual std::vector<TraceSpan> spans() const = 0;
  virtual std::vector<ImplementationCount> implementations() const = 0;
};

// For timelines: the spans of a step with names.
std::vector<TraceEvent> NameSpans(const Program& program, const std::vector<TraceSpan>& spans);

}  // namespace oc

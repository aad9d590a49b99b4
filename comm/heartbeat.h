// Tells within seconds which process of the job died or stopped, on TCP connections of its own: a
// pending MPI receive from a killed process reports nothing, and mpirun ends the survivors a second
// or two later.
//
//   OC_ASSIGN_OR_RETURN(auto heartbeat, Heartbeat::Start(*job, {}, [&](int rank, const Status& why)
//   {
//     for (auto& t : transports) t->Abort(why);
//   }));
//   ...
//   heartbeat->Stop();
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "openclaw/comm/job.h"

namespace oc {

struct HeartbeatOptions {
  double period_seconds = 0.25;  // between beats
  double timeout_seconds = 3;    // without a beat a process counts as dead (SIGSTOP, a lost link)
  double connect_seconds = 20;   // until all connections stand
  // An IPv4 address that the other hosts reach this one by. Empty: all of the host's are tried.
  std::string address;
};

// Up to 8 processes watch each other all; beyond that each watches those at a distance of 1, 2, 4,
// 8, ... ranks, and deaths are passed on. Methods are thread-safe.
class Heartbeat {
 public:
  // `why` is kAborted and names the rank, its host and what was seen. Called from the heartbeat's
  // own thread, at most once for a rank, never after Stop has returned; it must be quick and must
  // not call Stop. A process that was itself declared dead (it was stopped, and goes on) is told
  // with its own rank.
  using OnFailure = std::function<void(int rank, const Status& why)>;

  // Every process calls it, at the same place among the job's exchanges. kDeadlineExceeded names
  // the ranks that could not be reached.
  static StatusOr<std::unique_ptr<Heartbeat>> Start(Job& job, const HeartbeatOptions& options,
                                                    OnFailure on_failure);
  virtual ~Heartbeat() = default;  // as Stop

  // Says goodbye: the others report no death. At most half a second.
  virtual void Stop() = 0;
  // As Stop, but the others report this rank as failed, with `reason`: for a process that gives up.
  virtual void Leave(const Status& reason) = 0;
  // Ranks that were reported, in the order of reporting.
  virtual std::vector<int> failed() const = 0;

  // Whom `rank` watches: for tests and reports.
  static std::vector<int> Neighbours(int rank, int world_size);
};

}  // namespace oc

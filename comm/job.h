// The processes of one run, and what they tell each other before there is a Transport: profiles,
// the plan, addresses. A process is one rank of the job; it holds any number of VCUs, which are the
// ranks of the Transports that the job makes.
//
//   OC_ASSIGN_OR_RETURN(std::unique_ptr<Job> job, OpenJob({}));
//   OC_ASSIGN_OR_RETURN(std::string plan, job->Broadcast(my_plan, 0, "plan", 30));
//   OC_ASSIGN_OR_RETURN(auto transports, job->MakeTransports({1, 1}, 30));
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "openclaw/comm/transport.h"

namespace oc {

// Calls are made by one thread at a time (where the job was opened), in the same order on every
// process. `what` names the exchange: processes that are at different ones get kInvalidArgument
// with both names; a process that does not come, kDeadlineExceeded with its rank.
class Job {
 public:
  // A job that was not finalized is abandoned.
  virtual ~Job() = default;

  virtual const char* name() const = 0;  // "single", "mpi"
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  // Among the processes of this host, in the order of rank.
  virtual int local_rank() const = 0;
  virtual int local_size() const = 0;
  virtual const std::string& host() const = 0;

  // Everybody's bytes, by rank.
  StatusOr<std::vector<std::string>> AllGather(const std::string& mine, const std::string& what,
                                               double timeout_seconds);
  // The root's bytes. Others' `bytes` are ignored.
  StatusOr<std::string> Broadcast(const std::string& bytes, int root, const std::string& what,
                                  double timeout_seconds);
  // kInvalidArgument, naming the ranks and both values, where a process has another `value`: short
  // and printable, such as a hash.
  Status Agree(const std::string& value, const std::string& what, double timeout_seconds);

  // Ends of the VCUs of this process, in order. `vcus_per_process` is the same on all processes
  // (checked); VCUs are numbered through in the order of processes. Those of one process talk
  // through memory. A call after a failure gives fresh ends: messages of older ones never match.
  // The ends must not be used after Finalize or Abandon, but may outlive them.
  StatusOr<std::vector<std::unique_ptr<Transport>>> MakeTransports(
      const std::vector<int>& vcus_per_process, double timeout_seconds);

  // Leaves in order, together with all others. After an error call Abandon.
  virtual Status Finalize(double timeout_seconds) = 0;
  // Every pending and later exchange, and every message of the job's transports, fails with `why`:
  // for who learns that a process died while this one waits for it. Thread-safe, idempotent.
  virtual void Interrupt(const Status& why) = 0;
  // Leaves without asking anybody: never blocks. The launcher may then end the other processes.
  virtual void Abandon() = 0;

 protected:
  // AllGather without names.
  virtual StatusOr<std::vector<std::string>> Exchange(const std::string& mine,
                                                      double timeout_seconds) = 0;
  virtual StatusOr<std::vector<std::unique_ptr<Transport>>> Make(
      const std::vector<int>& vcus_per_process) = 0;
};

// A world of one process.
std::unique_ptr<Job> SingleProcessJob();

struct JobOptions {
  std::string module_path;  // of the MPI module; empty: beside this library (mpi_loader.h)
};

// The launcher's job where DetectLauncher finds one (launcher_env.h), else SingleProcessJob.
StatusOr<std::unique_ptr<Job>> OpenJob(const JobOptions& options);

}  // namespace oc

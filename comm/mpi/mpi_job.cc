// The job that an MPI launcher started, and the module's entry.
#include <mpi.h>
#include <unistd.h>

#include "openclaw/comm/job.h"
#include "openclaw/comm/mpi/engine.h"
#include "openclaw/comm/mpi/mpi_status.h"
#include "openclaw/comm/mpi/mpi_transport.h"
#include "openclaw/comm/mpi_loader.h"

namespace oc {
namespace {

class MpiJob : public Job {
 public:
  static StatusOr<std::unique_ptr<Job>> Open() {
    int initialized = 0;
    MPI_Initialized(&initialized);
    if (initialized != 0) {
      return FailedPrecondition(
          "open the MPI job: MPI was initialised before, or the job opened twice");
    }
    int provided = 0;
    OC_RETURN_IF_ERROR(FromMpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided),
                               "MPI_Init_thread"));
    if (provided < MPI_THREAD_SERIALIZED) {
      return FailedPrecondition("open the MPI job: this MPI serves one thread only (level ",
                                provided, "); one built with MPI_THREAD_MULTIPLE is needed");
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    auto job = std::make_unique<MpiJob>();
    OC_ASSIGN_OR_RETURN(job->engine_, MpiEngine::Create());
    MPI_Comm host = MPI_COMM_NULL;
    OC_RETURN_IF_ERROR(FromMpi(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED,
                                                   job->engine_->rank(), MPI_INFO_NULL, &host),
                               "MPI_Comm_split_type"));
    MPI_Comm_rank(host, &job->local_rank_);
    MPI_Comm_size(host, &job->local_size_);
    MPI_Comm_free(&host);
    char name[MPI_MAX_PROCESSOR_NAME] = {};
    int length = 0;
    MPI_Get_processor_name(name, &length);
    job->host_.assign(name, length);
    return job;
  }

  ~MpiJob() override { Abandon(); }

  const char* name() const override { return "mpi"; }
  int rank() const override { return engine_->rank(); }
  int world_size() const override { return engine_->world_size(); }
  int local_rank() const override { return local_rank_; }
  int local_size() const override { return local_size_; }
  const std::string& host() const override { return host_; }

  Status Finalize(double timeout_seconds) override {
    if (left_) return OkStatus();
    // MPI_Finalize waits for all without a limit: only when all are known to be here.
    OC_RETURN_IF_ERROR(AllGather("", "finalize", timeout_seconds).status());
    left_ = true;
    engine_->Shut(absl::AbortedError("the job was finalized"));
    return FromMpi(MPI_Finalize(), "MPI_Finalize");
  }

  void Interrupt(const Status& why) override { engine_->Shut(why); }

  void Abandon() override {
    if (left_ || engine_ == nullptr) return;
    left_ = true;
    engine_->Shut(absl::AbortedError("the job was abandoned"));
  }

 protected:
  StatusOr<std::vector<std::string>> Exchange(const std::string& mine,
                                              double timeout_seconds) override {
    return engine_->Exchange(mine, timeout_seconds);
  }

  StatusOr<std::vector<std::unique_ptr<Transport>>> Make(
      const std::vector<int>& vcus_per_process) override {
    auto world = std::make_shared<MpiEngine::World>();
    world->generation = ++generations_;
    int first = 0;
    for (int process = 0; process < world_size(); ++process) {
      if (process == rank()) first = static_cast<int>(world->process_of.size());
      world->process_of.insert(world->process_of.end(), vcus_per_process[process], process);
    }
    const int mine = vcus_per_process[rank()];
    if (mine > 0) {
      world->hub = std::make_unique<InprocHub>(
          mine, InprocOptions{.first_rank = first,
                              .world_size = static_cast<int>(world->process_of.size())});
    }
    engine_->Register(world);
    std::vector<std::unique_ptr<Transport>> ends;
    for (int i = 0; i < mine; ++i) ends.push_back(NewMpiTransport(engine_, world, first + i));
    return ends;
  }

 private:
  std::shared_ptr<MpiEngine> engine_;
  int local_rank_ = 0, local_size_ = 1;
  std::string host_;
  int generations_ = 0;
  bool left_ = false;
};

}  // namespace
}  // namespace oc

extern "C" {

const char* OpenclawCommMpiVersion() { return oc::kMpiModuleVersion; }

void OpenclawCommMpiOpen(oc::StatusOr<std::unique_ptr<oc::Job>>* result) {
  *result = oc::MpiJob::Open();
}

}  // extern "C"

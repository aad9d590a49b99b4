#include "openclaw/comm/job.h"

#include <unistd.h>

#include <numeric>

#include "openclaw/comm/inproc/inproc.h"
#include "openclaw/comm/launcher_env.h"
#include "openclaw/comm/mpi_loader.h"

namespace oc {
namespace {

class SingleJob : public Job {
 public:
  SingleJob() {
    char name[256] = {};
    host_ = gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
  }
  const char* name() const override { return "single"; }
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  const std::string& host() const override { return host_; }
  Status Finalize(double) override { return OkStatus(); }
  void Interrupt(const Status&) override {}  // there is nobody to wait for
  void Abandon() override {}

 protected:
  StatusOr<std::vector<std::string>> Exchange(const std::string& mine, double) override {
    return std::vector<std::string>{mine};
  }
  StatusOr<std::vector<std::unique_ptr<Transport>>> Make(const std::vector<int>& vcus) override {
    std::vector<std::unique_ptr<Transport>> ends;
    if (vcus[0] == 0) return ends;
    const InprocHub hub(vcus[0]);
    for (int i = 0; i < vcus[0]; ++i) ends.push_back(hub.Endpoint(i));
    return ends;
  }

 private:
  std::string host_;
};

}  // namespace

StatusOr<std::vector<std::string>> Job::AllGather(const std::string& mine, const std::string& what,
                                                  double timeout_seconds) {
  // The name goes in front, ended by a zero byte.
  OC_CHECK(what.find('\0') == std::string::npos);
  auto all = Exchange(what + '\0' + mine, timeout_seconds);
  if (!all.ok()) return Annotate(all.status(), absl::StrCat("exchange '", what, "'"));
  for (int i = 0; i < world_size(); ++i) {
    std::string& theirs = (*all)[i];
    const size_t end = theirs.find('\0');
    const std::string name = theirs.substr(0, end);
    if (end == std::string::npos || name != what) {
      return InvalidArgument("rank ", i, " is at '", name, "', but rank ", rank(), " is at '", what,
                             "': the processes run different programs or configurations");
    }
    theirs.erase(0, end + 1);
  }
  return all;
}

StatusOr<std::string> Job::Broadcast(const std::string& bytes, int root, const std::string& what,
                                     double timeout_seconds) {
  if (root < 0 || root >= world_size()) {
    return InvalidArgument("broadcast '", what, "': root ", root, " of ", world_size());
  }
  OC_ASSIGN_OR_RETURN(std::vector<std::string> all,
                      AllGather(rank() == root ? bytes : std::string(), what, timeout_seconds));
  return std::move(all[root]);
}

Status Job::Agree(const std::string& value, const std::string& what, double timeout_seconds) {
  OC_ASSIGN_OR_RETURN(std::vector<std::string> all, AllGather(value, what, timeout_seconds));
  for (int i = 1; i < world_size(); ++i) {
    if (all[i] != all[0]) {
      return InvalidArgument(what, " differs: rank ", i, " has ", all[i], ", rank 0 has ", all[0]);
    }
  }
  return OkStatus();
}

StatusOr<std::vector<std::unique_ptr<Transport>>> Job::MakeTransports(
    const std::vector<int>& vcus_per_process, double timeout_seconds) {
  std::string text;
  bool negative = false;
  for (int v : vcus_per_process) {
    absl::StrAppend(&text, text.empty() ? "" : ",", v);
    negative = negative || v < 0;
  }
  OC_RETURN_IF_ERROR(Agree(text, "VCUs of each process", timeout_seconds));
  if (static_cast<int>(vcus_per_process.size()) != world_size() || negative ||
      std::accumulate(vcus_per_process.begin(), vcus_per_process.end(), 0) < 1) {
    return InvalidArgument("VCUs of each process: ", text, ", for ", world_size(), " processes");
  }
  return Make(vcus_per_process);
}

std::unique_ptr<Job> SingleProcessJob() { return std::make_unique<SingleJob>(); }

StatusOr<std::unique_ptr<Job>> OpenJob(const JobOptions& options) {
  if (!DetectLauncher().has_value()) return SingleProcessJob();
  return OpenMpiJob({.module_path = options.module_path});
}

}  // namespace oc

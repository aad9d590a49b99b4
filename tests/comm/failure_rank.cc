// One rank of mpi_failure_test: receives from rank 1, which never sends, until that is reported
// dead, and writes what it learnt. Usage: comm_failure_rank FOLDER (recv|all_reduce)
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "openclaw/comm/all_reduce.h"
#include "openclaw/comm/heartbeat.h"
#include "openclaw/comm/job.h"

namespace {

// Complete or absent: the test reads it while it comes to be.
void WriteFile(const std::string& path, const std::string& text) {
  { std::ofstream(path + ".part") << text; }
  std::rename((path + ".part").c_str(), path.c_str());
}

oc::Status Work(oc::Job& job, const std::string& folder, const std::string& mode) {
  OC_ASSIGN_OR_RETURN(auto ends, job.MakeTransports(std::vector<int>(job.world_size(), 1), 20));
  OC_ASSIGN_OR_RETURN(auto heartbeat,
                      oc::Heartbeat::Start(job, {}, [&ends](int, const oc::Status& why) {
                        for (auto& end : ends) end->Abort(why);
                      }));
  WriteFile(folder + "/pid." + std::to_string(job.rank()), std::to_string(getpid()));
  std::vector<std::byte> buffer(4 << 20);
  oc::Status status;
  if (mode == "recv") {
    // Nobody sends: rank 1 waits too.
    status = ends[0]->Recv(job.rank() == 1 ? 0 : 1, 7, buffer, 60);
  } else {
    std::vector<int> members;
    for (int i = 0; i < job.world_size(); ++i) members.push_back(i);
    oc::Group group(*ends[0], members, {.id = 1, .timeout_seconds = 60});
    while (status.ok()) status = oc::AllReduceInPlace(group, {.bytes = buffer});
  }
  WriteFile(folder + "/report." + std::to_string(job.rank()), status.ToString());
  heartbeat->Leave(status);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  // mpirun sends it to the survivors a second after a death; the report comes first anyhow, this
  // keeps the test from depending on that.
  signal(SIGTERM, SIG_IGN);
  auto job = oc::OpenJob({});
  if (!job.ok()) {
    std::fprintf(stderr, "%s\n", job.status().ToString().c_str());
    return 2;
  }
  const oc::Status status = Work(**job, argv[1], argv[2]);
  std::fprintf(stderr, "rank %d: %s\n", (*job)->rank(), status.ToString().c_str());
  (*job)->Abandon();
  WriteFile(std::string(argv[1]) + "/left." + std::to_string((*job)->rank()), "");
  return 3;
}

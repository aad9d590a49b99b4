// Kills and stops real processes under mpirun: the survivors must name the dead rank within
// seconds, with and without --enable-recovery.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "openclaw/core/clock.h"

extern char** environ;

namespace oc {
namespace {

constexpr int kRanks = 3;

struct Case {
  int signal;
  bool recovery;
  const char* mode;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << (c.signal == SIGKILL ? "kill" : "stop") << (c.recovery ? "_recovery_" : "_") << c.mode;
}

// mpirun, in a process group of its own, and the folder where its ranks leave their files.
class Launch {
 public:
  explicit Launch(const Case& c) {
    char pattern[] = "comm_failure_XXXXXX";
    folder_ = std::filesystem::absolute(mkdtemp(pattern)).string();
    std::vector<std::string> arguments = {
        OC_MPIEXEC, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
        "-np",      std::to_string(kRanks)};
    if (c.recovery) arguments.push_back("--enable-recovery");
    for (const char* a : {OC_FAILURE_RANK, folder_.c_str(), c.mode}) arguments.push_back(a);
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    EXPECT_EQ(posix_spawnp(&mpirun_, argv[0], nullptr, &attributes, argv.data(), environ), 0);
    posix_spawnattr_destroy(&attributes);
  }
  ~Launch() {
    // By number, and only what this run started. The ranks go first: mpirun has given each a
    // process group of its own.
    for (const pid_t pid : pids_) {
      if (!ended_) kill(pid, SIGKILL);
    }
    if (!WaitForEnd(5)) {
      kill(mpirun_, SIGKILL);
      waitpid(mpirun_, nullptr, 0);
    }
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  // The text of the file, or empty where it does not come in time.
  std::string Await(const std::string& name, double seconds, bool* came = nullptr) {
    const double until = NowSeconds() + seconds;
    const std::string path = folder_ + "/" + name;
    while (NowSeconds() < until) {
      if (std::filesystem::exists(path)) {
        std::ostringstream text;
        text << std::ifstream(path).rdbuf();
        if (came != nullptr) *came = true;
        return text.str();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return "";
  }
  bool ReadPids() {
    for (int r = 0; r < kRanks; ++r) {
      const std::string text = Await("pid." + std::to_string(r), 30);
      if (text.empty()) return false;
      pids_.push_back(std::stoi(text));
    }
    return true;
  }
  bool WaitForEnd(double seconds) {
    const double until = NowSeconds() + seconds;
    while (!ended_ && NowSeconds() < until) {
      ended_ = waitpid(mpirun_, nullptr, WNOHANG) == mpirun_;
      if (!ended_) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return ended_;
  }
  pid_t pid(int rank) const { return pids_[rank]; }

 private:
  std::string folder_;
  pid_t mpirun_ = -1;
  std::vector<pid_t> pids_;
  bool ended_ = false;
};

class Failure : public testing::TestWithParam<Case> {};

TEST_P(Failure, SurvivorsNameTheRank) {
  Launch run(GetParam());
  ASSERT_TRUE(run.ReadPids()) << "the ranks did not start";
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // they wait, or reduce
  const double begin = NowSeconds();
  ASSERT_EQ(kill(run.pid(1), GetParam().signal), 0);
  for (const int survivor : {0, 2}) {
    const std::string report = run.Await("report." + std::to_string(survivor), 10);
    EXPECT_THAT(report, testing::HasSubstr("rank 1 (host ")) << "survivor " << survivor;
    EXPECT_THAT(report, testing::HasSubstr("ABORTED"));
    bool left = false;
    run.Await("left." + std::to_string(survivor), 5, &left);
    EXPECT_TRUE(left) << "survivor " << survivor << " hangs in Abandon";
  }
  EXPECT_LT(NowSeconds() - begin, 10);
  if (GetParam().signal == SIGSTOP) kill(run.pid(1), SIGKILL);
  EXPECT_TRUE(run.WaitForEnd(10)) << "mpirun does not end";
}

INSTANTIATE_TEST_SUITE_P(Signals, Failure,
                         testing::Values(Case{SIGKILL, false, "recv"}, Case{SIGKILL, true, "recv"},
                                         Case{SIGKILL, true, "all_reduce"},
                                         Case{SIGSTOP, false, "recv"},
                                         Case{SIGSTOP, true, "all_reduce"}),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace oc

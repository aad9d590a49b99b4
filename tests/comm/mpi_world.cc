// The suite under mpirun: the ranks of a world are spread over the processes.
#include <memory>

#include "openclaw/comm/job.h"
#include "openclaw/comm/ring.h"
#include "world.h"

namespace oc {

Job* test_job = nullptr;  // also for the cases about the job itself

namespace {
class MpiWorld : public TestWorld {
 public:
  bool across_processes() const override { return test_job->world_size() > 1; }
  void Run(int ranks, const std::function<void(Transport&)>& body) override {
    std::vector<int> vcus;
    for (int p = 0; p < test_job->world_size(); ++p) {
      vcus.push_back(static_cast<int>(PieceOf(ranks, test_job->world_size(), p).size()));
    }
    auto ends = test_job->MakeTransports(vcus, 30);
    ASSERT_TRUE(ends.ok()) << ends.status();
    RunOnThreads(*ends, body);
  }
};
}  // namespace

TestWorld& World() {
  static MpiWorld world;
  return world;
}

}  // namespace oc

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto job = oc::OpenJob({});
  if (!job.ok()) {
    std::fprintf(stderr, "%s\n", job.status().ToString().c_str());
    return 1;
  }
  oc::test_job = job->get();
  const int result = RUN_ALL_TESTS();
  const oc::Status left = (*job)->Finalize(30);
  if (!left.ok()) std::fprintf(stderr, "%s\n", left.ToString().c_str());
  return result != 0 || !left.ok() ? 1 : 0;
}

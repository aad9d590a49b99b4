#include "openclaw/comm/job.h"

#include <cstdlib>

#include "openclaw/comm/launcher_env.h"
#include "openclaw/comm/mpi_loader.h"
#include "world.h"

namespace oc {
namespace {

TEST(Job, ASingleProcessIsAWorld) {
  const std::unique_ptr<Job> job = SingleProcessJob();
  EXPECT_EQ(job->world_size(), 1);
  EXPECT_EQ(job->rank(), 0);
  EXPECT_FALSE(job->host().empty());
  const auto all = job->AllGather(std::string("a\0b", 3), "bytes", 1);
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(*all, std::vector{std::string("a\0b", 3)});
  EXPECT_EQ(*job->Broadcast("plan", 0, "plan", 1), "plan");
  EXPECT_FALSE(job->Broadcast("plan", 1, "plan", 1).ok());
  EXPECT_OK(job->Agree("x", "hash", 1));
  auto ends = job->MakeTransports({3}, 1);
  ASSERT_TRUE(ends.ok());
  RunOnThreads(*ends, [](Transport& t) {
    std::byte out{static_cast<uint8_t>(t.rank())}, in{9};
    EXPECT_OK(t.SendRecv((t.rank() + 1) % 3, std::span(&out, 1), (t.rank() + 2) % 3,
                         std::span(&in, 1), 1, 10));
    EXPECT_EQ(static_cast<int>(in), (t.rank() + 2) % 3);
  });
  for (const auto& wrong :
       {std::vector<int>{}, std::vector{1, 1}, std::vector{0}, std::vector{-1}}) {
    EXPECT_EQ(job->MakeTransports(wrong, 1).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_OK(job->Finalize(1));
}

TEST(Job, TheEnvironmentTellsOfALauncher) {
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK"}) {
    unsetenv(name);
  }
  EXPECT_FALSE(DetectLauncher().has_value());
  setenv("PMIX_RANK", "2", 1);
  ASSERT_TRUE(DetectLauncher().has_value());
  EXPECT_EQ(DetectLauncher()->rank, 2);
  EXPECT_EQ(DetectLauncher()->world_size, -1);
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  EXPECT_EQ(DetectLauncher()->world_size, 4);
  EXPECT_EQ(DetectLauncher()->variable, "OMPI_COMM_WORLD_SIZE");
  setenv("OMPI_COMM_WORLD_SIZE", "nonsense", 1);
  EXPECT_EQ(DetectLauncher()->variable, "PMIX_RANK");
  unsetenv("PMIX_RANK");
  unsetenv("OMPI_COMM_WORLD_SIZE");
}

TEST(Job, AMissingModuleSaysWhatToDo) {
  const auto job = OpenMpiJob({.module_path = "nowhere/libnothing.so"});
  EXPECT_EQ(job.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(job.status().message()), testing::HasSubstr("nowhere/libnothing.so"));
}

}  // namespace
}  // namespace oc

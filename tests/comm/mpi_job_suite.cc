// What processes tell each other through the job. Runs under mpirun.
#include <chrono>
#include <thread>

#include "openclaw/comm/heartbeat.h"
#include "openclaw/comm/job.h"
#include "openclaw/comm/link_measure.h"
#include "openclaw/comm/mpi_loader.h"
#include "openclaw/core/clock.h"
#include "world.h"

namespace oc {

extern Job* test_job;

namespace {

using testing::HasSubstr;

TEST(MpiJob, KnowsItsPlace) {
  EXPECT_STREQ(test_job->name(), "mpi");
  EXPECT_GT(test_job->world_size(), 1);
  EXPECT_EQ(test_job->local_size(), test_job->world_size());
  EXPECT_EQ(test_job->local_rank(), test_job->rank());
  EXPECT_FALSE(test_job->host().empty());
}

TEST(MpiJob, ExchangesBytes) {
  for (const int64_t size : {0, 3, 100000}) {
    const std::string mine(size, static_cast<char>('a' + test_job->rank()));
    const auto all = test_job->AllGather(mine, "letters", 20);
    ASSERT_TRUE(all.ok()) << all.status();
    for (int i = 0; i < test_job->world_size(); ++i) {
      EXPECT_EQ((*all)[i], std::string(size, static_cast<char>('a' + i)));
    }
  }
  const auto plan = test_job->Broadcast(absl::StrCat("plan of ", test_job->rank()), 1, "plan", 20);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(*plan, "plan of 1");
}

TEST(MpiJob, DifferencesNameRanksAndValues) {
  EXPECT_OK(test_job->Agree("same", "hash of the plan", 20));
  const Status value =
      test_job->Agree(test_job->rank() == 1 ? "beef" : "cafe", "hash of the plan", 20);
  EXPECT_EQ(value.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(value.message()), HasSubstr("rank 1 has beef, rank 0 has cafe"));
  const auto name = test_job->AllGather("", test_job->rank() == 1 ? "profile" : "plan", 20);
  EXPECT_EQ(name.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(name.status().message()), HasSubstr("'profile'"));
  EXPECT_THAT(std::string(name.status().message()), HasSubstr("'plan'"));
}

TEST(MpiJob, ALateRankIsNamed) {
  if (test_job->rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(700));
  const auto all = test_job->AllGather("x", "late", test_job->rank() == 1 ? 10 : 0.2);
  if (test_job->rank() != 1) {
    EXPECT_EQ(all.status().code(), absl::StatusCode::kDeadlineExceeded) << all.status();
    EXPECT_THAT(std::string(all.status().message()), HasSubstr("rank 1 of"));
    EXPECT_THAT(std::string(all.status().message()), HasSubstr("'late'"));
  }
  // The world goes on.
  EXPECT_OK(test_job->AllGather("y", "after", 20).status());
}

TEST(MpiJob, OpensOnce) {
  EXPECT_EQ(OpenMpiJob({}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(MpiJob, TransportsInLayoutsOfAllKinds) {
  const int processes = test_job->world_size();
  for (int holder = 0; holder < processes; ++holder) {
    std::vector<int> vcus(processes, 1);  // one process has three, the next none
    vcus[holder] = 3;
    vcus[(holder + 1) % processes] = 0;
    auto ends = test_job->MakeTransports(vcus, 20);
    ASSERT_TRUE(ends.ok()) << ends.status();
    EXPECT_EQ(static_cast<int>(ends->size()), vcus[test_job->rank()]);
    RunOnThreads(*ends, [](Transport& t) {
      const int n = t.size();
      std::vector<int64_t> out(20000, t.rank()), in(20000);
      for (int i = 0; i < 20; ++i) {
        EXPECT_OK(t.SendRecv((t.rank() + 1) % n, std::as_bytes(std::span(out)),
                             (t.rank() + n - 1) % n, std::as_writable_bytes(std::span(in)), 1, 20));
        EXPECT_EQ(in[777], (t.rank() + n - 1) % n);
      }
    });
  }
  EXPECT_EQ(test_job->MakeTransports({1}, 20).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(MpiJob, LinksAreMeasured) {
  World().Run(3, [](Transport& t) {
    const auto links = MeasureLinks(t, {});
    ASSERT_TRUE(links.ok()) << links.status();
    if (t.rank() != 0) return;
    for (const auto& p : (*links)[2].points) {
      std::printf("0-2: %8ld bytes %9.1f us\n", p.bytes, p.seconds * 1e6);
    }
  });
}

TEST(MpiJob, HeartbeatSaysGoodbye) {
  for (int i = 0; i < 2; ++i) {
    auto beat = Heartbeat::Start(
        *test_job, {}, [](int rank, const Status& why) { ADD_FAILURE() << rank << ": " << why; });
    ASSERT_TRUE(beat.ok()) << beat.status();
    std::this_thread::sleep_for(std::chrono::milliseconds(test_job->rank() * 100));
    (*beat)->Stop();
    EXPECT_TRUE((*beat)->failed().empty());
  }
}

}  // namespace
}  // namespace oc

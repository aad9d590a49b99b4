#include "openclaw/devices/host/worker_pool.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <optional>
#include <thread>

namespace oc {
namespace {

TEST(SplitWork, CoversEverythingOnceInOrder) {
  for (const int64_t n : {0, 1, 5, 16, 17, 100, 1000}) {
    for (const int64_t grain : {1, 8, 16, 64}) {
      for (const int parts : {1, 2, 3, 7}) {
        int64_t next = 0;
        for (int part = 0; part < parts; ++part) {
          const WorkRange r = SplitWork(n, grain, parts, part);
          EXPECT_EQ(r.begin, next);
          EXPECT_LE(r.begin, r.end);
          if (r.end != n) {
            EXPECT_EQ(r.end % grain, 0);
          }
          next = r.end;
        }
        EXPECT_EQ(next, n) << "grain " << grain << ", parts " << parts;
      }
    }
  }
}

TEST(SplitWork, SharesDifferByOneGrainAtMost) {
  for (int part = 0; part < 3; ++part) {
    const WorkRange r = SplitWork(100, 8, 3, part);
    EXPECT_GE(r.end - r.begin, 4 * 8 - 4);  // the last grain of 100 holds 4
    EXPECT_LE(r.end - r.begin, 5 * 8);
  }
}

TEST(WorkerPool, EveryWorkerRunsOnceARound) {
  for (const int threads : {1, 2, 3, 5}) {
    WorkerPool pool(threads, {});
    pool.BindCaller();
    std::vector<int64_t> runs(threads);  // each worker writes its own
    for (int round = 0; round < 2000; ++round) {
      pool.Run([&](int worker) { ++runs[worker]; });
      // All are done when Run returns, and what they wrote is seen.
      EXPECT_EQ(std::accumulate(runs.begin(), runs.end(), int64_t{0}), (round + 1) * threads);
    }
  }
}

TEST(WorkerPool, TheCallerIsWorkerZero) {
  WorkerPool pool(3, {});
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<std::thread::id> ids(3);
  pool.Run([&](int worker) { ids[worker] = std::this_thread::get_id(); });
  EXPECT_EQ(ids[0], caller);
  EXPECT_NE(ids[1], caller);
  EXPECT_NE(ids[1], ids[2]);
}

TEST(WorkerPool, RoundsAfterALongPauseWakeSleepingWorkers) {
  WorkerPool pool(2, {});
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> runs{0};
    pool.Run([&](int) { runs.fetch_add(1); });
    EXPECT_EQ(runs.load(), 2);
  }
}

TEST(WorkerPool, AWorkerMayTakeLongerThanTheCaller) {
  WorkerPool pool(2, {});
  int done = 0;
  pool.Run([&](int worker) {
    if (worker == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      done = 1;
    }
  });
  EXPECT_EQ(done, 1);
}

TEST(WorkerPool, ParallelForVisitsEachIndexOnce) {
  for (const int threads : {1, 2, 4}) {
    WorkerPool pool(threads, {});
    for (const int64_t n : {0, 1, 7, 64, 1001}) {
      std::vector<int> visits(static_cast<size_t>(n));
      pool.ParallelFor(n, 16, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(visits, std::vector<int>(static_cast<size_t>(n), 1));
    }
  }
}

TEST(WorkerPool, SeveralPoolsRunSideBySide) {
  std::vector<std::thread> callers;
  std::vector<int64_t> sums(3);
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([c, &sums] {
      WorkerPool pool(2, {});
      pool.BindCaller();
      std::vector<int64_t> parts(2);
      for (int round = 0; round < 500; ++round) pool.Run([&](int worker) { ++parts[worker]; });
      sums[c] = parts[0] + parts[1];
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(sums, (std::vector<int64_t>{1000, 1000, 1000}));
}

TEST(WorkerPool, OpenMpIsSingleThreadedOnEveryWorker) {
  // On a thread of its own: the setting stays with the thread.
  std::thread([] {
    WorkerPool pool(3, {});
    pool.BindCaller();
    std::vector<int> threads(3);
    pool.Run([&](int worker) { threads[worker] = omp_get_max_threads(); });
    EXPECT_EQ(threads, (std::vector<int>{1, 1, 1}));
  }).join();
}

TEST(WorkerPool, WorkersArePinnedToTheirCores) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE && cores.size() < 2; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  if (cores.size() < 2) GTEST_SKIP() << "needs two cores";
  std::thread([&] {
    WorkerPool pool(3, cores);  // more workers than cores: they go round
    pool.BindCaller();
    std::vector<int> count(3), first(3);
    pool.Run([&](int worker) {
      cpu_set_t set;
      if (sched_getaffinity(0, sizeof(set), &set) != 0) return;
      count[worker] = CPU_COUNT(&set);
      for (int core : cores) {
        if (CPU_ISSET(core, &set)) first[worker] = core;
      }
    });
    EXPECT_EQ(count, (std::vector<int>{1, 1, 1}));
    EXPECT_EQ(first, (std::vector<int>{cores[0], cores[1], cores[0]}));
  }).join();
}

// A pool may have the address of one that is gone: the caller is bound to the new one's cores.
TEST(WorkerPool, ANewPoolBindsTheCallerAnew) {
  const auto cores = [] {
    cpu_set_t set;
    std::vector<int> allowed;
    if (sched_getaffinity(0, sizeof(set), &set) != 0) return allowed;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) allowed.push_back(core);
    }
    return allowed;
  };
  const std::vector<int> allowed = cores();
  if (allowed.size() < 2) GTEST_SKIP() << "needs two cores";
  std::thread([&] {
    std::optional<WorkerPool> pool;
    for (const int core : {allowed[0], allowed[1], allowed[0]}) {
      pool.emplace(1, std::vector<int>{core});
      pool->BindCaller();
      EXPECT_EQ(cores(), std::vector<int>{core});
    }
  }).join();
}

}  // namespace
}  // namespace oc

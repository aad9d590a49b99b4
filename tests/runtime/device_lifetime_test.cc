// VCUs and pipelines come and go many times in one process, on every kind of device: nothing grows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "count_cl_objects.h"
#include "openclaw/graph/models/models.h"
#include "openclaw/runtime/data/synthetic.h"
#include "openclaw/runtime/pipeline.h"
#include "openclaw/runtime/report/memory.h"

namespace oc {
namespace {

struct Held {
  int threads = 0, files = 0;
  int cores = 0;  // that this thread may run on
  ClObjects cl;
  int64_t heap_bytes = 0;      // taken from the allocator and not given back
  int64_t resident_bytes = 0;  // of the process
};

int CountThreads() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    int threads = 0;
    if (std::sscanf(line.c_str(), "Threads: %d", &threads) == 1) return threads;
  }
  return -1;
}

Held Now() {
  malloc_trim(0);
  const auto heap = mallinfo2();
  Held held{.threads = CountThreads(),
            .cl = LiveClObjects(),
            .heap_bytes = static_cast<int64_t>(heap.uordblks + heap.hblkhd)};
  cpu_set_t cores;
  EXPECT_EQ(sched_getaffinity(0, sizeof(cores), &cores), 0);
  held.cores = CPU_COUNT(&cores);
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++held.files;
  }
  const auto memory = ReadProcessMemory();
  EXPECT_TRUE(memory.ok()) << memory.status();
  if (memory.ok()) held.resident_bytes = memory->resident_bytes;
  return held;
}

class DeviceLifetimeTest : public ::testing::TestWithParam<std::string> {
 protected:
  static void SetUpTestSuite() {
    setenv("ASCEND_HOME_PATH", ASCEND_EMULATOR, 1);
    // Threads that come and go would otherwise each begin a heap of their own, whose holes look
    // like growth.
    mallopt(M_ARENA_MAX, 1);
  }

  void TearDown() override { std::filesystem::remove(profile_); }

  // A VCU on the device, a pipeline over it, two steps.
  void TrainOnce() {
    DiscoverOptions options;
    options.config = {.entries = {{.device = GetParam(), .cores = 1}}, .plugins = {PLAIN_PLUGIN}};
    auto cluster = Cluster::Discover(options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    auto pipeline = ElasticPipeline::Create(*model_, *cluster, optimizer_,
                                            {.micro_batch = 2,
                                             .global_batch = 8,
                                             .pipeline_depth = 1,
                                             .data_parallel = 1,
                                             .profile_path = profile_,
                                             .profile_seconds = 1e-3});
    ASSERT_TRUE(pipeline.ok()) << pipeline.status();
    auto batches = (*pipeline)->UseData(*data_, 2);
    ASSERT_TRUE(batches.ok()) << batches.status();
    for (const Batch& batch : *batches) ASSERT_TRUE((*pipeline)->Step(batch).ok());
  }

  StatusOr<Graph> model_ = models::Mlp({.input = {4, 4, 1}, .hidden = {12, 8}});
  std::unique_ptr<Dataset> data_ = MakeSyntheticImages({.size = 32, .height = 4, .width = 4});
  // Measured once: this is not about costs.
  const std::string profile_ =
      ::testing::TempDir() + absl::StrCat("device_lifetime_", getpid(), ".json");
  HybridOptimizer optimizer_ = {Sgd{.lr = 0.05, .momentum = 0.9}, {.clip_norm = 2}};
};

TEST_P(DeviceLifetimeTest, NothingGrowsOverAHundredPipelines) {
  constexpr int kRounds = 100, kWarmUp = 20;
  // Of what libraries cache, and of holes between what they keep, in eighty rounds.
  constexpr int64_t kHeapSlack = int64_t{256} << 10, kResidentSlack = int64_t{4} << 20;
  {
    auto registry = LeavesWithPlugins({PLAIN_PLUGIN});
    ASSERT_TRUE(registry.ok()) << registry.status();
    auto leaf = registry->Find(GetParam());
    if (!leaf.ok()) GTEST_SKIP() << leaf.status();
    auto devices = (*leaf)->discover();
    if (!devices.ok()) GTEST_SKIP() << devices.status();
  }
  ASSERT_TRUE(model_.ok()) << model_.status();
  Held warm;
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_NO_FATAL_FAILURE(TrainOnce()) << "round " << round;
    if (round + 1 == kWarmUp) warm = Now();
  }
  const Held end = Now();
  const auto mebibytes = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  std::printf("%s: %d threads, %d files, heap %.1f MiB (%+.2f), resident %.1f MiB (%+.2f), %s\n",
              GetParam().c_str(), end.threads, end.files, mebibytes(end.heap_bytes),
              mebibytes(end.heap_bytes - warm.heap_bytes), mebibytes(end.resident_bytes),
              mebibytes(end.resident_bytes - warm.resident_bytes), ToString(end.cl).c_str());
  EXPECT_EQ(end.threads, warm.threads);
  EXPECT_EQ(end.files, warm.files);
  EXPECT_EQ(end.cores, warm.cores);
  EXPECT_EQ(end.cl, warm.cl) << "after " << kWarmUp << " rounds: " << ToString(warm.cl);
  EXPECT_LE(end.heap_bytes, warm.heap_bytes + kHeapSlack);
  EXPECT_LE(end.resident_bytes, warm.resident_bytes + kResidentSlack);
  if (GetParam() == "opencl") {
    EXPECT_GT(end.cl.contexts, 0);  // that they are counted
    EXPECT_EQ(end.cl.queues + end.cl.memories + end.cl.kernels + end.cl.events, 0)
        << ToString(end.cl);
  }
}

INSTANTIATE_TEST_SUITE_P(Leaves, DeviceLifetimeTest,
                         ::testing::Values("cpu", "reference", "sim", "plain", "ascend", "opencl"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace oc

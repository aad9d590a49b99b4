#include "openclaw/devices/cpu/topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

namespace oc::cpu {
namespace {

// Files of /proc and /sys/fs/cgroup, made up.
class ControlGroups : public testing::Test {
 protected:
  ControlGroups()
      : root_(std::filesystem::path(testing::TempDir()) /
              ("control_groups_" +
               std::string(testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    std::filesystem::remove_all(root_);
  }
  ~ControlGroups() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  int64_t Left() const { return MemoryLeftInControlGroups(root_ / "proc", root_ / "sys"); }

  std::filesystem::path root_;
};

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

TEST_F(ControlGroups, NoFilesMeanNoLimit) { EXPECT_EQ(Left(), kNone); }

TEST_F(ControlGroups, VersionTwoTakesTheTightestOfTheParents) {
  Write("proc/self/cgroup", "0::/a/b");
  Write("sys/a/b/memory.max", "max");
  Write("sys/a/b/memory.current", "100");
  Write("sys/a/memory.max", "1000");
  Write("sys/a/memory.current", "300");
  EXPECT_EQ(Left(), 700);
  Write("sys/a/b/memory.max", "150");
  EXPECT_EQ(Left(), 50);
  Write("sys/a/b/memory.current", "200");  // above its limit
  EXPECT_EQ(Left(), 0);
}

TEST_F(ControlGroups, VersionTwoAtTheRootOfAContainer) {
  Write("proc/self/cgroup", "0::/");
  Write("sys/memory.max", "4096");
  Write("sys/memory.current", "96");
  EXPECT_EQ(Left(), 4000);
}

TEST_F(ControlGroups, VersionOne) {
  Write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x");
  Write("sys/memory/x/memory.limit_in_bytes", "500");
  Write("sys/memory/x/memory.usage_in_bytes", "200");
  Write("sys/memory/memory.limit_in_bytes", "9223372036854771712");  // its way to say none
  EXPECT_EQ(Left(), 300);
}

TEST(Topology, FindsThisMachine) {
  const auto nodes = UsableNodes();
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  ASSERT_FALSE(nodes->empty());
  int64_t memory = 0;
  for (const NumaNode& node : *nodes) {
    EXPECT_FALSE(node.cores.empty());
    EXPECT_GT(node.memory_bytes, 0);
    memory += node.memory_bytes;
  }
  const auto available = AvailableMemory();
  ASSERT_TRUE(available.ok()) << available.status();
  EXPECT_LT(memory, *available * 2);  // other processes come and go
  EXPECT_FALSE(InstructionSet().empty());
}

TEST_F(ControlGroups, MeminfoWithoutTheLineIsAnError) {
  Write("proc/meminfo", "MemTotal: 12 kB");
  EXPECT_EQ(AvailableMemory(root_ / "proc").status().code(), absl::StatusCode::kFailedPrecondition);
  Write("proc/meminfo", "MemTotal: 12 kB\nMemAvailable: 3 kB");
  EXPECT_EQ(*AvailableMemory(root_ / "proc"), 3 * 1024);
}

}  // namespace
}  // namespace oc::cpu

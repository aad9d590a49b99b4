#include "openclaw/devices/modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace oc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ModulesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) / absl::StrCat("modules_test_", ::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::vector<std::string> NamesIn(const std::vector<std::string>& folders) {
    std::vector<std::string> names;
    for (const DeviceLeaf& leaf : FindDeviceModules(folders)) names.push_back(leaf.name);
    return names;
  }
  void Write(const std::string& file) { std::ofstream(folder_ / file) << "no library\n"; }

  std::filesystem::path folder_;
};

TEST_F(ModulesTest, AreFoundByTheirNamesAlone) {
  for (const char* file : {"openclaw_b.so", "openclaw_a.so", "libopenclaw_c.so", "openclaw_.so",
                           "openclaw_d.so.1", "openclaw_e.txt"}) {
    Write(file);
  }
  EXPECT_THAT(NamesIn({folder_.string(), "/no/such/folder", folder_.string()}),
              ::testing::ElementsAre("a", "b"));
}

TEST_F(ModulesTest, WhatIsNoModuleIsAnErrorWhenItIsWanted) {
  Write("openclaw_a.so");
  const auto leaves = FindDeviceModules({folder_.string()});
  ASSERT_EQ(leaves.size(), 1u);
  const Status status = leaves[0].discover().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("openclaw_a.so"));
}

TEST_F(ModulesTest, AModuleIsTheLeafThatItsFileIsCalled) {
  std::filesystem::copy(PLAIN_PLUGIN, folder_ / "openclaw_plain.so");
  std::filesystem::copy(PLAIN_PLUGIN, folder_ / "openclaw_other.so");
  const auto leaves = FindDeviceModules({folder_.string()});
  ASSERT_EQ(leaves.size(), 2u);
  const Status status = leaves[0].discover().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("'plain'"), HasSubstr("'other'")));
  const auto devices = leaves[1].discover();
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_EQ(devices->size(), 1u);
}

}  // namespace
}  // namespace oc

#include "openclaw/core/cost_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace oc {
namespace {

using ::testing::HasSubstr;

CostTable Sample() {
  CostTable table;
  table.Set("matmul@1(f32[2, 3], f32[3, 4]; ; ) on cpu/1t", {1.2345678901234567e-6, 4096, {}});
  table.Set("attention@1(f32[2, 8, 96]; {heads: 4}; ) on cpu/1t", {0.25, 0, {128, 64}});
  return table;
}

void ExpectSame(const CostTable& a, const CostTable& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [key, entry] : a.entries()) {
    const CostEntry* other = b.Find(key);
    ASSERT_NE(other, nullptr) << key;
    EXPECT_EQ(other->seconds, entry.seconds);
    EXPECT_EQ(other->workspace_bytes, entry.workspace_bytes);
    EXPECT_EQ(other->opaque_bytes, entry.opaque_bytes);
  }
}

TEST(CostTable, RoundTripIsExact) {
  const CostTable table = Sample();
  const auto read = CostTable::FromJson(table.ToJson());
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(table, *read);
  EXPECT_EQ(read->ToJson(), table.ToJson());
  EXPECT_EQ(table.Find("unknown"), nullptr);
}

TEST(CostTable, FileRoundTripAndErrors) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "cost_table_test";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "profile.json").string();
  ASSERT_TRUE(Sample().Save(path).ok());
  const auto read = CostTable::Load(path);
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectSame(Sample(), *read);
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));

  EXPECT_THAT(CostTable::Load(path + ".missing").status().ToString(), HasSubstr("missing"));
  EXPECT_EQ(Sample().Save((folder / "no" / "such" / "folder").string()).code(),
            absl::StatusCode::kUnavailable);
  std::ofstream(path) << Sample().ToJson().substr(0, 60);
  const Status cut = CostTable::Load(path).status();
  EXPECT_EQ(cut.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(cut.ToString(), HasSubstr(path));
  std::filesystem::remove_all(folder);
}

TEST(CostTable, DamagedTextIsAnError) {
  for (const char* text :
       {"", "[]", "{}", "3", "{\"format\": 3}", "{\"format\": \"other\", \"entries\": {}}",
        "{\"format\": \"openclaw-profile\", \"version\": 1}",
        "{\"format\": \"openclaw-profile\", \"version\": 1, \"entries\": []}",
        "{\"format\": \"openclaw-profile\", \"version\": 1, \"entries\": {\"a\": 1}}",
        "{\"format\": \"openclaw-profile\", \"version\": 1, \"entries\": {\"a\": {}}}",
        "{\"format\": \"openclaw-profile\", \"version\": 1, \"entries\": {\"a\": {\"seconds\": "
        "\"x\", \"workspace_bytes\": 0, \"opaque_bytes\": []}}}"}) {
    EXPECT_EQ(CostTable::FromJson(text).status().code(), absl::StatusCode::kDataLoss) << text;
  }
  const std::string whole = Sample().ToJson();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(CostTable::FromJson(whole.substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace oc

#include "openclaw/core/trace.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace oc {
namespace {

using nlohmann::json;

TEST(TraceBuffer, KeepsWhatFitsAndCountsTheRest) {
  TraceBuffer buffer(2);
  for (int i = 0; i < 5; ++i) buffer.Record({.command = i});
  ASSERT_EQ(buffer.spans().size(), 2u);
  EXPECT_EQ(buffer.spans()[1].command, 1);
  EXPECT_EQ(buffer.dropped(), 3);
  buffer.Clear();
  EXPECT_TRUE(buffer.spans().empty());
  EXPECT_EQ(buffer.dropped(), 0);
  buffer.Record({});
  EXPECT_EQ(buffer.spans().size(), 1u);
}

TEST(WriteChromeTrace, IsJsonThatHoldsEveryEvent) {
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / "trace_test.json").string();
  const std::vector<TraceEvent> events = {
      {"forward \"0\"\\\n", "vcu 0", "compute", 1'000'000, 3'500'000},
      {"send", "vcu 0", "to 1", 2'000'000, 2'000'001},
      {"forward", "vcu 1", "compute", 4'000'000, 4'000'000}};
  ASSERT_TRUE(WriteChromeTrace(path, events).ok());
  std::ifstream in(path);
  const json root = json::parse(in, nullptr, false);
  ASSERT_TRUE(root.is_object());
  std::vector<json> spans;
  std::map<std::pair<int, int>, std::string> threads;
  std::map<int, std::string> processes;
  for (const json& e : root["traceEvents"]) {
    if (e["ph"] == "X") spans.push_back(e);
    if (e["name"] == "thread_name" && e["ph"] == "M") {
      threads[{e["pid"].get<int>(), e["tid"].get<int>()}] = e["args"]["name"];
    }
    if (e["name"] == "process_name" && e["ph"] == "M") {
      processes[e["pid"].get<int>()] = e["args"]["name"];
    }
  }
  ASSERT_EQ(spans.size(), events.size());
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(spans[i]["name"], events[i].name);
    EXPECT_NEAR(spans[i]["ts"].get<double>(), events[i].begin_nanos / 1e3, 1e-9);
    EXPECT_NEAR(spans[i]["dur"].get<double>(), (events[i].end_nanos - events[i].begin_nanos) / 1e3,
                1e-9);
    const int pid = spans[i]["pid"], tid = spans[i]["tid"];
    EXPECT_EQ(processes[pid], events[i].process);
    EXPECT_EQ((threads[{pid, tid}]), events[i].thread);
  }
  std::filesystem::remove(path);
  EXPECT_EQ(WriteChromeTrace("no/such/folder/trace.json", events).code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace oc

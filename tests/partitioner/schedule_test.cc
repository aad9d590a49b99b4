#include "openclaw/partitioner/schedules/schedule.h"

#include <gtest/gtest.h>

#include <absl/strings/str_cat.h>

namespace oc {
namespace {

ScheduleInput Chain(int stages, int micro_batches) {
  ScheduleInput input{.stages = stages, .micro_batches = micro_batches, .vcus = stages};
  for (int s = 0; s < stages; ++s) input.owner.emplace_back(micro_batches, s);
  return input;
}

std::string Text(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& a : actions) {
    absl::StrAppend(&text, text.empty() ? "" : " ", a.kind == Action::Kind::kForward ? "F" : "B",
                    a.micro_batch);
  }
  return text;
}

TEST(Schedules, OneForwardOneBackward) {
  const auto s = OneForwardOneBackward(Chain(3, 5));
  EXPECT_EQ(Text(s[0]), "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4");
  EXPECT_EQ(Text(s[1]), "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4");
  EXPECT_EQ(Text(s[2]), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
}

TEST(Schedules, FewerMicroBatchesThanStages) {
  const auto s = OneForwardOneBackward(Chain(4, 2));
  EXPECT_EQ(Text(s[0]), "F0 F1 B0 B1");
  EXPECT_EQ(Text(s[3]), "F0 B0 F1 B1");
}

TEST(Schedules, GPipe) {
  const auto s = GPipe(Chain(2, 3));
  EXPECT_EQ(Text(s[0]), "F0 F1 F2 B2 B1 B0");
  EXPECT_EQ(Text(s[1]), "F0 F1 F2 B2 B1 B0");
}

TEST(Schedules, UnknownNamesTheKnown) {
  const auto found = FindSchedule("zb-h1");
  EXPECT_EQ(found.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(found.status().message().find("1f1b"), absl::string_view::npos);
}

}  // namespace
}  // namespace oc

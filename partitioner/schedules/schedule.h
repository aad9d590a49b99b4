// Pipeline schedules: pure functions from stages and micro-batches to an order of work on each VCU.
// Each schedule is a file; schedules.cc is the ordered list.
#pragma once

#include <string>
#include <vector>

#include "openclaw/core/status.h"

namespace oc {

struct Action {
  enum class Kind { kForward, kBackward };
  Kind kind = Kind::kForward;
  int stage = 0;
  int micro_batch = 0;
  bool operator==(const Action&) const = default;
};

struct ScheduleInput {
  int stages = 1;
  int micro_batches = 1;
  // owner[stage][micro_batch]: the VCU.
  std::vector<std::vector<int>> owner;
  int vcus = 1;
};

// For each VCU, its actions in order.
using ScheduleFunction = std::vector<std::vector<Action>> (*)(const ScheduleInput&);

struct ScheduleEntry {
  const char* name;
  ScheduleFunction function;
};

// In the order in which planning tries them.
const std::vector<ScheduleEntry>& Schedules();
// kUnimplemented names the ones that exist.
StatusOr<ScheduleFunction> FindSchedule(const std::string& name);

// All forwards, then all backwards, last micro-batch first (Huang et al., "GPipe", 2019).
std::vector<std::vector<Action>> GPipe(const ScheduleInput& input);
// One forward, one backward, after a warm-up as deep as the stages behind (Narayanan et al.,
// "PipeDream", 2019; flushed each step as in "Memory-efficient pipeline-parallel DNN training",
// 2021).
std::vector<std::vector<Action>> OneForwardOneBackward(const ScheduleInput& input);
// Forwards alone: evaluation and generation.
std::vector<std::vector<Action>> ForwardOnly(const ScheduleInput& input);

// The micro-batches of each stage that `vcu` owns, ascending.
std::vector<int> OwnedMicroBatches(const ScheduleInput& input, int stage, int vcu);

}  // namespace oc

#include <algorithm>
#include <set>

#include "openclaw/partitioner/schedules/schedule.h"

namespace oc {
namespace {

// The classic order of one stage's replica, from the micro-batches that it owns.
std::vector<Action> OneStage(const ScheduleInput& input, int stage, int vcu) {
  const std::vector<int> owned = OwnedMicroBatches(input, stage, vcu);
  const int n = static_cast<int>(owned.size());
  // Stages behind run ahead by one micro-batch each. Where the replicas of a later stage are fewer,
  // its VCU takes micro-batches of several of ours in turn, so that ours come back later.
  int ahead = 0;
  for (int s = stage + 1; s < input.stages; ++s) {
    const std::set<int> later(input.owner[s].begin(), input.owner[s].end());
    const std::set<int> here(input.owner[stage].begin(), input.owner[stage].end());
    ahead += static_cast<int>(std::max<size_t>(1, (later.size() + here.size() - 1) / here.size()));
  }
  const int warmup = std::min(ahead, n);
  std::vector<Action> actions;
  for (int i = 0; i < warmup; ++i) actions.push_back({Action::Kind::kForward, stage, owned[i]});
  for (int i = 0; i < n; ++i) {
    if (i + warmup < n) {
      actions.push_back({Action::Kind::kForward, stage, owned[i + warmup]});
    }
    actions.push_back({Action::Kind::kBackward, stage, owned[i]});
  }
  return actions;
}

}  // namespace

std::vector<std::vector<Action>> OneForwardOneBackward(const ScheduleInput& input) {
  std::vector<std::vector<Action>> result(input.vcus);
  for (int vcu = 0; vcu < input.vcus; ++vcu) {
    std::vector<std::vector<Action>> lists;
    for (int s = 0; s < input.stages; ++s) {
      std::vector<Action> list = OneStage(input, s, vcu);
      if (!list.empty()) lists.push_back(std::move(list));
    }
    if (lists.size() == 1) {
      result[vcu] = std::move(lists[0]);
      continue;
    }
    // Several stages on one VCU: by micro-batch, forwards through the stages and backwards back,
    // which no order of the other VCUs can block (each waits only for smaller micro-batches).
    for (int g = 0; g < input.micro_batches; ++g) {
      for (int s = 0; s < input.stages; ++s) {
        if (input.owner[s][g] == vcu) result[vcu].push_back({Action::Kind::kForward, s, g});
      }
      for (int s = input.stages - 1; s >= 0; --s) {
        if (input.owner[s][g] == vcu) result[vcu].push_back({Action::Kind::kBackward, s, g});
      }
    }
  }
  return result;
}

}  // namespace oc

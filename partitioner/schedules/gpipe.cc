#include "openclaw/partitioner/schedules/schedule.h"

namespace oc {

std::vector<std::vector<Action>> ForwardOnly(const ScheduleInput& input) {
  std::vector<std::vector<Action>> result(input.vcus);
  for (int vcu = 0; vcu < input.vcus; ++vcu) {
    // By micro-batch, then stage: a VCU with several stages passes a micro-batch on at once.
    for (int g = 0; g < input.micro_batches; ++g) {
      for (int s = 0; s < input.stages; ++s) {
        if (input.owner[s][g] == vcu) result[vcu].push_back({Action::Kind::kForward, s, g});
      }
    }
  }
  return result;
}

std::vector<std::vector<Action>> GPipe(const ScheduleInput& input) {
  std::vector<std::vector<Action>> result = ForwardOnly(input);
  for (int vcu = 0; vcu < input.vcus; ++vcu) {
    for (int g = input.micro_batches - 1; g >= 0; --g) {
      for (int s = input.stages - 1; s >= 0; --s) {
        if (input.owner[s][g] == vcu) result[vcu].push_back({Action::Kind::kBackward, s, g});
      }
    }
  }
  return result;
}

}  // namespace oc

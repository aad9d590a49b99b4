// The ordered list of schedules.
#include <absl/strings/str_join.h>

#include "openclaw/partitioner/schedules/schedule.h"

namespace oc {

const std::vector<ScheduleEntry>& Schedules() {
  static const std::vector<ScheduleEntry> list = {
      {"1f1b", OneForwardOneBackward},
      {"gpipe", GPipe},
  };
  return list;
}

StatusOr<ScheduleFunction> FindSchedule(const std::string& name) {
  for (const ScheduleEntry& entry : Schedules()) {
    if (name == entry.name) return entry.function;
  }
  return Unimplemented(
      "schedule '", name, "'; there are ",
      absl::StrJoin(Schedules(), ", ",
                    [](std::string* out, const ScheduleEntry& e) { out->append(e.name); }));
}

std::vector<int> OwnedMicroBatches(const ScheduleInput& input, int stage, int vcu) {
  std::vector<int> owned;
  for (int g = 0; g < input.micro_batches; ++g) {
    if (input.owner[stage][g] == vcu) owned.push_back(g);
  }
  return owned;
}

}  // namespace oc

#include <absl/strings/str_join.h>

#include <algorithm>

#include "openclaw/launcher/config/config.h"
#include "openclaw/optim/learning_rate.h"

namespace oc {
namespace {

struct Built {
  const char* key;
  std::string (*value)(const ExperimentConfig&);
  std::vector<std::string> built;
};

// What can be run so far. A value that an experiment file may hold and that is missing here is
// refused by name.
const std::vector<Built>& BuiltValues() {
  using C = const ExperimentConfig&;
  static const std::vector<Built> kBuilt = {
      {"precision.amp_level",
       [](C c) {
         return std::string(c.precision.amp_level ? Name(*c.precision.amp_level) : "auto");
       },
       {"O0", "O1", "O2", "O3", "auto"}},
      {"parallel.schedule", [](C c) { return c.parallel.schedule; }, {"auto", "gpipe", "1f1b"}},
      {"comm_options.allreduce_algorithm",
       [](C c) { return std::string(Name(c.comm_options.allreduce_algorithm)); },
       {"auto", "ring"}},
      {"optimizer.schedule.name", [](C c) { return c.optimizer.schedule.name; }, ScheduleNames()},
  };
  return kBuilt;
}

}  // namespace

Status CheckBuilt(const ExperimentConfig& config) {
  for (const Built& entry : BuiltValues()) {
    const std::string value = entry.value(config);
    if (std::find(entry.built.begin(), entry.built.end(), value) != entry.built.end()) continue;
    return Unimplemented(entry.key, ": ", value, " is not built yet; there is ",
                         absl::StrJoin(entry.built, ", "));
  }
  return OkStatus();
}

}  // namespace oc

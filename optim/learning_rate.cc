#include "openclaw/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace oc {

Status CheckSchedule(const ScheduleConfig& schedule) {
  if (schedule.name != "constant" && schedule.name != "linear" && schedule.name != "cosine") {
    return Unimplemented("optimizer.schedule.name '", schedule.name,
                         "'; there are constant, linear, cosine");
  }
  if (schedule.warmup_steps < 0) {
    return InvalidArgument("optimizer.schedule.warmup_steps ", schedule.warmup_steps,
                           " is negative");
  }
  if (!(schedule.final_ratio >= 0 && schedule.final_ratio <= 1)) {
    return InvalidArgument("optimizer.schedule.final_ratio ", schedule.final_ratio,
                           " is not in [0, 1]");
  }
  return OkStatus();
}

double LearningRate(const ScheduleConfig& schedule, double lr, int64_t step, int64_t total_steps) {
  if (step < schedule.warmup_steps) {
    return lr * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  }
  const double span =
      static_cast<double>(std::max<int64_t>(1, total_steps - 1 - schedule.warmup_steps));
  const double done = std::clamp((step - schedule.warmup_steps) / span, 0.0, 1.0);
  const double rest = 1.0 - schedule.final_ratio;
  if (schedule.name == "linear") return lr * (1.0 - rest * done);
  if (schedule.name == "cosine") {
    return lr * (schedule.final_ratio + rest * 0.5 * (1.0 + std::cos(std::numbers::pi * done)));
  }
  return lr;
}

}  // namespace oc

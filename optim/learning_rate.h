// Learning-rate schedules: the rate of a step as a pure function, so that a resumed run needs no
// state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "openclaw/core/config.h"

namespace oc {

// Checks names and ranges: kInvalidArgument, or kUnimplemented for a schedule that is not built.
Status CheckSchedule(const ScheduleConfig& schedule);
// "constant", "linear", ...
std::vector<std::string> ScheduleNames();
// The keys that a schedule takes besides name and warmup_steps; none for an unknown one.
std::vector<std::string> ScheduleKeys(const std::string& name);

// The rate of step `step` (from 0) of `total_steps`. Linear warm-up from lr/warmup_steps to lr,
// then, where d goes from 0 after the warm-up to 1 at the last step,
//   constant    lr
//   linear      straight to lr * final_ratio
//   cosine      half a cosine to lr * final_ratio (Loshchilov and Hutter, "SGDR", 2017, without
//               restarts)
//   polynomial  to lr * final_ratio as (1 - d)^power
//   wsd         lr, and over the last decay_steps (or decay_ratio of all steps) to lr *
//   final_ratio:
//               straight, as half a cosine, or as 1 - sqrt (Hu et al., "MiniCPM", 2024; Hägele et
//               al., "Scaling laws and compute-optimal training beyond fixed training durations",
//               2024)
//   step        lr times gamma every step_size steps, or at each of the milestones: steps of the
//               run, the warm-up's included
// After the last step it stays where it is. Precondition: CheckSchedule.
double LearningRate(const ScheduleConfig& schedule, double lr, int64_t step, int64_t total_steps);

}  // namespace oc

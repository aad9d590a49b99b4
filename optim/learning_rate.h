// Learning-rate schedules: the rate of a step as a pure function, so that a resumed run needs no
// state.
#pragma once

#include <cstdint>

#include "openclaw/core/config.h"

namespace oc {

// Checks names and ranges: kInvalidArgument, or kUnimplemented for a schedule that is not built.
Status CheckSchedule(const ScheduleConfig& schedule);

// The rate of step `step` (from 0) of `total_steps`. Linear warm-up from lr/warmup_steps to lr,
// then
//   constant  lr
//   linear    straight to lr * final_ratio at the last step
//   cosine    half a cosine to lr * final_ratio (Loshchilov and Hutter, "SGDR", 2017, without
//   restarts)
// Precondition: CheckSchedule.
double LearningRate(const ScheduleConfig& schedule, double lr, int64_t step, int64_t total_steps);

}  // namespace oc

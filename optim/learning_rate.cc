#include "openclaw/optim/learning_rate.h"

#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace oc {
namespace {

// Where a run is when `step` is done.
struct Progress {
  int64_t step, total_steps, warmup_steps;

  // From 0 at step `begin` to 1 at the last one.
  double From(int64_t begin) const {
    const auto span = static_cast<double>(std::max<int64_t>(1, total_steps - 1 - begin));
    return std::clamp(static_cast<double>(step - begin) / span, 0.0, 1.0);
  }
  double AfterWarmup() const { return From(warmup_steps); }
};

// 1 at `done` 0, 0 at 1.
double HalfCosine(double done) { return 0.5 * (1.0 + std::cos(std::numbers::pi * done)); }

// Between final_ratio and 1.
double Between(const ScheduleConfig& s, double high) {
  return s.final_ratio + (1.0 - s.final_ratio) * high;
}

double Constant(const ScheduleConfig&, const Progress&) { return 1; }
double Linear(const ScheduleConfig& s, const Progress& p) {
  return Between(s, 1.0 - p.AfterWarmup());
}
double Cosine(const ScheduleConfig& s, const Progress& p) {
  return Between(s, HalfCosine(p.AfterWarmup()));
}
double Polynomial(const ScheduleConfig& s, const Progress& p) {
  return Between(s, std::pow(1.0 - p.AfterWarmup(), s.power));
}
// The last steady step is decay_steps before the last one.
double Wsd(const ScheduleConfig& s, const Progress& p) {
  const int64_t decay_steps =
      s.decay_steps.value_or(std::llround(s.decay_ratio * static_cast<double>(p.total_steps)));
  const int64_t begin = std::max(p.warmup_steps, p.total_steps - 1 - decay_steps);
  if (p.step <= begin) return 1;
  const double done = p.From(begin);
  if (s.decay_shape == "cosine") return Between(s, HalfCosine(done));
  return Between(s, 1.0 - (s.decay_shape == "sqrt" ? std::sqrt(done) : done));
}
double Step(const ScheduleConfig& s, const Progress& p) {
  const auto passed = s.step_size ? p.step / *s.step_size
                                  : std::count_if(s.milestones->begin(), s.milestones->end(),
                                                  [&](int64_t m) { return m <= p.step; });
  return std::pow(s.gamma, static_cast<double>(passed));
}

Status CheckPolynomial(const ScheduleConfig& s) {
  if (!(s.power > 0 && std::isfinite(s.power))) {
    return InvalidArgument("optimizer.schedule.power ", s.power, " is not a positive number");
  }
  return OkStatus();
}

Status CheckWsd(const ScheduleConfig& s) {
  if (s.decay_steps && *s.decay_steps < 0) {
    return InvalidArgument("optimizer.schedule.decay_steps ", *s.decay_steps, " is negative");
  }
  if (!(s.decay_ratio >= 0 && s.decay_ratio <= 1)) {
    return InvalidArgument("optimizer.schedule.decay_ratio ", s.decay_ratio, " is not in [0, 1]");
  }
  if (s.decay_shape != "linear" && s.decay_shape != "cosine" && s.decay_shape != "sqrt") {
    return InvalidArgument("optimizer.schedule.decay_shape '", s.decay_shape,
                           "'; there are linear, cosine, sqrt");
  }
  return OkStatus();
}

Status CheckStep(const ScheduleConfig& s) {
  if (s.step_size.has_value() == s.milestones.has_value()) {
    return InvalidArgument("optimizer.schedule: step takes one of step_size and milestones, ",
                           s.step_size ? "both were" : "none was", " given");
  }
  if (s.step_size && *s.step_size < 1) {
    return InvalidArgument("optimizer.schedule.step_size ", *s.step_size, " is not positive");
  }
  if (s.milestones && (!std::is_sorted(s.milestones->begin(), s.milestones->end()) ||
                       (!s.milestones->empty() && s.milestones->front() < 0))) {
    return InvalidArgument("optimizer.schedule.milestones [", absl::StrJoin(*s.milestones, ", "),
                           "] are not steps in ascending order");
  }
  if (!(s.gamma > 0 && std::isfinite(s.gamma))) {
    return InvalidArgument("optimizer.schedule.gamma ", s.gamma, " is not a positive number");
  }
  return OkStatus();
}

Status CheckNothing(const ScheduleConfig&) { return OkStatus(); }

struct Schedule {
  const char* name;
  double (*factor)(const ScheduleConfig& s, const Progress& p);
  Status (*check)(const ScheduleConfig& s);
  std::vector<std::string> keys;
};

// To add one: a line here and in learning_rate.h.
const std::vector<Schedule>& Schedules() {
  static const std::vector<Schedule> kSchedules = {
      {"constant", Constant, CheckNothing, {}},
      {"linear", Linear, CheckNothing, {"final_ratio"}},
      {"cosine", Cosine, CheckNothing, {"final_ratio"}},
      {"polynomial", Polynomial, CheckPolynomial, {"final_ratio", "power"}},
      {"wsd", Wsd, CheckWsd, {"final_ratio", "decay_steps", "decay_ratio", "decay_shape"}},
      {"step", Step, CheckStep, {"step_size", "milestones", "gamma"}},
  };
  return kSchedules;
}

const Schedule* Find(const std::string& name) {
  for (const Schedule& s : Schedules()) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> ScheduleNames() {
  std::vector<std::string> names;
  for (const Schedule& s : Schedules()) names.push_back(s.name);
  return names;
}

std::vector<std::string> ScheduleKeys(const std::string& name) {
  const Schedule* schedule = Find(name);
  return schedule == nullptr ? std::vector<std::string>() : schedule->keys;
}

Status CheckSchedule(const ScheduleConfig& schedule) {
  const Schedule* found = Find(schedule.name);
  if (found == nullptr) {
    return Unimplemented("optimizer.schedule.name '", schedule.name, "'; there are ",
                         absl::StrJoin(ScheduleNames(), ", "));
  }
  if (schedule.warmup_steps < 0) {
    return InvalidArgument("optimizer.schedule.warmup_steps ", schedule.warmup_steps,
                           " is negative");
  }
  if (!(schedule.final_ratio >= 0 && schedule.final_ratio <= 1)) {
    return InvalidArgument("optimizer.schedule.final_ratio ", schedule.final_ratio,
                           " is not in [0, 1]");
  }
  return found->check(schedule);
}

double LearningRate(const ScheduleConfig& schedule, double lr, int64_t step, int64_t total_steps) {
  // The steps of a step schedule are the run's: a warm-up and its factor may meet.
  const bool warming = step < schedule.warmup_steps;
  const double warmup =
      warming ? static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps) : 1.0;
  const bool in_warmup = schedule.name == "step";
  if (warming && !in_warmup) return lr * warmup;
  const Progress progress = {step, total_steps, schedule.warmup_steps};
  return lr * warmup * Find(schedule.name)->factor(schedule, progress);
}

}  // namespace oc

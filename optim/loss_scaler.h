// The factor that a loss is multiplied by before the backward, so that small gradients do not
// become zero in a half type. Dynamic: halved whenever a gradient overflows, doubled after a long
// run of steps without (Micikevicius et al., "Mixed precision training", 2018, section 3.2).
//
// Every rank holds one and tells it the same: what the squared norm of all gradients, which is
// summed over all VCUs, came to. So all agree without a word.
#pragma once

#include <cstdint>

#include "openclaw/core/config.h"

namespace oc {

class LossScaler {
 public:
  // All of it that a resumed run needs.
  struct State {
    double scale = 1;
    int64_t good_steps = 0;  // since the scale last changed
    int64_t skipped = 0;     // steps whose update was left out, in all
    int64_t halvings = 0;    // in a row
    bool operator==(const State&) const = default;
  };
  // That many in a row and no step is good: something else is wrong.
  static constexpr int64_t kMostHalvings = 24;

  // kInvalidArgument: a scale that is no positive finite number, an interval below 1.
  static StatusOr<LossScaler> Create(const LossScaleConfig& config);

  // After a step. `finite`: whether the gradients' norm was. Of a fixed scale only the counts
  // change. kFailedPrecondition with advice after kMostHalvings in a row, or where a fixed scale
  // overflows as often.
  Status Update(bool finite);

  double scale() const { return state_.scale; }
  const State& state() const { return state_; }
  // kInvalidArgument where its scale is no positive finite number.
  Status Restore(const State& state);

 private:
  explicit LossScaler(const LossScaleConfig& config) : config_(config) {}
  LossScaleConfig config_;
  State state_;
};

}  // namespace oc

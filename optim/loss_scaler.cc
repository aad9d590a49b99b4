#include "openclaw/optim/loss_scaler.h"

#include <algorithm>

namespace oc {
namespace {

constexpr double kLargest = 0x1p100;  // times a gradient still within f32
constexpr double kSmallest = 0x1p-100;

Status CheckScale(double scale) {
  if (scale >= kSmallest && scale <= kLargest) return OkStatus();
  return InvalidArgument("precision.loss_scale is ", scale, ", wants a number from ", kSmallest,
                         " to ", kLargest);
}

}  // namespace

StatusOr<LossScaler> LossScaler::Create(const LossScaleConfig& config) {
  OC_RETURN_IF_ERROR(CheckScale(config.value));
  if (config.growth_interval < 1) {
    return InvalidArgument("precision.growth_interval is ", config.growth_interval,
                           ", wants at least 1");
  }
  LossScaler scaler(config);
  scaler.state_.scale = config.value;
  return scaler;
}

Status LossScaler::Update(bool finite) {
  const bool dynamic = config_.mode == LossScaleConfig::Mode::kDynamic;
  if (finite) {
    state_.halvings = 0;
    if (++state_.good_steps >= config_.growth_interval && dynamic) {
      state_.scale = std::min(2 * state_.scale, kLargest);
      state_.good_steps = 0;
    }
    return OkStatus();
  }
  state_.good_steps = 0;
  ++state_.skipped;
  ++state_.halvings;
  if (state_.halvings >= kMostHalvings || state_.scale / 2 < kSmallest) {
    return FailedPrecondition(
        "the gradients overflow in every step, ", state_.halvings,
        " in a row, with the loss scale ", dynamic ? "lowered to " : "fixed at ", state_.scale,
        ": it is not the scale. Lower the learning rate, set optimizer.clip_norm, look for values "
        "beyond the range of the half type in the data, or train with precision.dtype=bf16");
  }
  if (dynamic) state_.scale /= 2;
  return OkStatus();
}

Status LossScaler::Restore(const State& state) {
  OC_RETURN_IF_ERROR(CheckScale(state.scale));
  const double configured = config_.value;
  state_ = state;
  if (config_.mode == LossScaleConfig::Mode::kFixed) state_.scale = configured;
  return OkStatus();
}

}  // namespace oc

// Which op is of which class at mixed precision. Every op of the registry stands here (a test).
#include <map>

#include "openclaw/graph/amp.h"

namespace oc {
namespace {

const std::map<std::string, AmpClass>& Classes() {
  using enum AmpClass;
  static const std::map<std::string, AmpClass> kClasses = {
      // Accumulated in f32 by every kernel, whatever the operands.
      {"matmul", kHalf},
      {"linear", kHalf},
      {"conv2d", kHalf},
      {"attention", kHalf},

      {"exp", kFull},
      {"log", kFull},
      {"sqrt", kFull},
      {"reciprocal", kFull},
      {"reduce_sum", kFull},

      {"layer_norm", kStatistics},
      {"rms_norm", kStatistics},
      {"batch_norm", kStatistics},
      {"softmax", kStatistics},
      {"cross_entropy", kStatistics},
      {"reduce_mean", kStatistics},

      {"add", kFollow},
      {"sub", kFollow},
      {"mul", kFollow},
      {"div", kFollow},
      {"equal", kFollow},
      {"less", kFollow},
      {"greater", kFollow},
      {"where", kFollow},
      {"scale", kFollow},
      {"relu", kFollow},
      {"silu", kFollow},
      {"tanh", kFollow},
      {"sigmoid", kFollow},
      {"gelu", kFollow},
      {"dropout", kFollow},
      {"embedding", kFollow},
      {"rope", kFollow},
      {"transpose", kFollow},
      {"reshape", kFollow},
      {"broadcast_to", kFollow},
      {"slice", kFollow},
      {"pad", kFollow},
      {"concat", kFollow},
      {"copy", kFollow},
      {"reduce_max", kFollow},
      {"max_pool2d", kFollow},
      {"avg_pool2d", kFollow},

      {"cast", kKeep},
      {"count_valid", kKeep},
      {"count_correct", kKeep},
      {"unbiased_var", kKeep},
      // Made by gradient rules, in the types of what they belong to.
      {"relu_grad", kKeep},
      {"silu_grad", kKeep},
      {"tanh_grad", kKeep},
      {"sigmoid_grad", kKeep},
      {"sqrt_grad", kKeep},
      {"gelu_grad", kKeep},
      {"linear_grad_input", kKeep},
      {"linear_grad_weight", kKeep},
      {"linear_grad_input_gelu", kKeep},
      {"linear_gelu", kKeep},
      {"softmax_grad", kKeep},
      {"conv2d_grad_input", kKeep},
      {"conv2d_grad_weight", kKeep},
      {"batch_norm_grad", kKeep},
      {"layer_norm_grad_input", kKeep},
      {"layer_norm_grad_weight", kKeep},
      {"add_layer_norm", kKeep},
      {"layer_norm_grad", kKeep},
      {"rms_norm_grad_input", kKeep},
      {"rms_norm_grad_weight", kKeep},
      {"max_pool2d_grad", kKeep},
      {"avg_pool2d_grad", kKeep},
      {"cross_entropy_grad", kKeep},
      {"embedding_grad", kKeep},
      {"attention_grad", kKeep},
      // Of the update graph, which is made for the types that parameters have.
      {"accumulate", kKeep},
      {"lerp", kKeep},
      {"ema", kKeep},
      {"sum_squares", kKeep},
      {"sum_partials", kKeep},
      {"clip_factor", kKeep},
      {"sgd", kKeep},
      {"adam", kKeep},
      {"adamw", kKeep},
      {"lion", kKeep},
      {"lamb_moments", kKeep},
      {"lamb_step", kKeep},
      {"adafactor", kKeep},
      {"muon_momentum", kKeep},
      {"decayed_step", kKeep},
  };
  return kClasses;
}

}  // namespace

const char* Name(AmpClass amp_class) {
  switch (amp_class) {
    case AmpClass::kHalf:
      return "half";
    case AmpClass::kFull:
      return "full";
    case AmpClass::kStatistics:
      return "statistics";
    case AmpClass::kFollow:
      return "follow";
    case AmpClass::kKeep:
      return "keep";
  }
  return "?";
}

bool HasAmpClass(const std::string& op) { return Classes().count(op) != 0; }

AmpClass AmpClassOf(const std::string& op) {
  const auto it = Classes().find(op);
  return it == Classes().end() ? AmpClass::kFollow : it->second;
}

}  // namespace oc

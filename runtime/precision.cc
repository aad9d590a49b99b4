#include "openclaw/runtime/precision.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>

#include "openclaw/partitioner/compute_types.h"

namespace oc {

const std::vector<AmpLevel>& ComparedLevels() {
  static const std::vector<AmpLevel> kLevels = {AmpLevel::kO0, AmpLevel::kO1, AmpLevel::kO2,
                                                AmpLevel::kO3};
  return kLevels;
}

const std::vector<AmpLevel>& OpenLevels() {
  static const std::vector<AmpLevel> kLevels = {AmpLevel::kO0, AmpLevel::kO1, AmpLevel::kO2};
  return kLevels;
}

Status CheckComputeTypes(const Graph& joint, const ClusterSpec& cluster) {
  const std::optional<DType> half = HalfTypeOf(joint);
  if (!half.has_value()) return OkStatus();
  bool any = false;
  for (const VcuSpec& v : cluster.vcus) {
    OC_ASSIGN_OR_RETURN(const DType dtype, ComputeTypeFor(joint, v));
    any |= dtype != DType::kF32;
    for (const auto* list : {&joint.parameters, &joint.states}) {
      for (const Variable& variable : *list) {
        const Value& value = joint.value(variable.value);
        if (value.type.dtype != *half || dtype == *half) continue;
        return InvalidArgument("precision: ", value.name, " is ", value.type.ToString(),
                               " at amp_level O3, and VCU ", v.name, " (", v.kind, ") has no ",
                               Name(*half), ": use O2, which keeps parameters in f32");
      }
    }
  }
  if (any) return OkStatus();
  std::string kinds;
  for (const VcuSpec& v : cluster.vcus) {
    absl::StrAppend(&kinds, kinds.empty() ? "" : ", ", v.name, " (", v.kind, ")");
  }
  return InvalidArgument("precision.dtype ", Name(*half), ": no VCU computes in it or in another ",
                         "half type: ", kinds, "; use amp_level O0");
}

double SamplesPerSecond(const Plan& plan) {
  return static_cast<double>(plan.micro_batch) * plan.micro_batches / plan.predicted_step_seconds;
}

bool IsFasterLevel(double rate, double wider) {
  constexpr double kGain = 0.002;
  return rate > wider * (1 + kGain);
}

StatusOr<PlanAlternative> LevelRow(AmpLevel level, const TrainingGraphs& graphs,
                                   const ClusterSpec& cluster, const CostTable& costs,
                                   const PartitionOptions& options) {
  const std::string name = absl::StrCat("amp_level ", Name(level));
  const auto row = [&](const Plan& plan, bool fits) {
    PlanAlternative a = AlternativeOf("amp_level", name, plan, cluster);
    a.fits = fits;
    a.by_request = std::find(OpenLevels().begin(), OpenLevels().end(), level) == OpenLevels().end();
    return a;
  };
  const auto planned =
      DynamicGraphPartitioner(graphs.joint, &graphs.update, cluster, costs).Partition(options);
  if (planned.ok()) return row(planned->plan, true);
  if (!absl::IsResourceExhausted(planned.status())) return planned.status();
  ClusterSpec endless = cluster;
  for (VcuSpec& v : endless.vcus) v.memory_bytes = int64_t{1} << 60;
  PartitionOptions without = options;
  without.recompute.activations = {};
  OC_ASSIGN_OR_RETURN(
      const PlannedProgram wanted,
      DynamicGraphPartitioner(graphs.joint, &graphs.update, endless, costs).Partition(without));
  return row(wanted.plan, false);
}

}  // namespace oc

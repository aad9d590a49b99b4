#include "openclaw/partitioner/compute_types.h"

#include <algorithm>

#include "openclaw/graph/amp.h"

namespace oc {

StatusOr<DType> ComputeTypeFor(const Graph& graph, const VcuSpec& vcu) {
  const std::optional<DType> half = HalfTypeOf(graph);
  if (!half.has_value()) return DType::kF32;
  std::vector<DType> order = {*half};
  if (*half == DType::kF16) {
    order.push_back(DType::kBF16);
  } else if (graph.FindValue("loss_scale") != kNone) {
    order.push_back(DType::kF16);
  }
  order.push_back(DType::kF32);
  for (DType dtype : order) {
    const bool has = vcu.dtypes.empty() ||
                     std::find(vcu.dtypes.begin(), vcu.dtypes.end(), dtype) != vcu.dtypes.end();
    if (has) return dtype;
  }
  return InvalidArgument("plan: VCU ", vcu.name, " has neither ", Name(*half),
                         ", which precision.dtype asks for, nor f32: leave it out of the cluster");
}

TypedGraphs::TypedGraphs(const Graph& graph) : graph_(graph), half_(HalfTypeOf(graph)) {}

StatusOr<const Graph*> TypedGraphs::In(DType dtype) {
  if (!half_.has_value() || *half_ == dtype) return &graph_;
  std::unique_ptr<const Graph>& entry = others_[dtype];
  if (entry == nullptr) {
    OC_ASSIGN_OR_RETURN(Graph graph, WithHalfType(graph_, *half_, dtype));
    entry = std::make_unique<const Graph>(std::move(graph));
  }
  return entry.get();
}

}  // namespace oc

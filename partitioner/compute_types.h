// In which type each VCU computes what the graph has in a half type: that one where the device has
// it, else the best that it has. On the wire between VCUs values keep the graph's type.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "openclaw/core/cluster.h"
#include "openclaw/graph/graph.h"

namespace oc {

// bf16 stays, or becomes f16 (only in a graph whose loss is scaled), or f32; f16 stays, or becomes
// bf16, or f32. A graph without a half type: f32. A VCU that lists no types is taken to have all.
// kInvalidArgument: it has none of them.
StatusOr<DType> ComputeTypeFor(const Graph& graph, const VcuSpec& vcu);

// A graph as VCUs of several compute types run it. The graph must outlive it.
class TypedGraphs {
 public:
  explicit TypedGraphs(const Graph& graph);
  // The same graph for its own half type, and always where it has none; else one node for node the
  // same (WithHalfType), made once. Errors of WithHalfType.
  StatusOr<const Graph*> In(DType dtype);

 private:
  const Graph& graph_;
  std::optional<DType> half_;
  std::map<DType, std::unique_ptr<const Graph>> others_;
};

}  // namespace oc

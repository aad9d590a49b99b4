// A graph as the bytes of a .oc file's graph section (graph.proto).
#pragma once

#include <memory>
#include <string>

#include "openclaw/graph/graph.h"

namespace oc {

// kInvalidArgument where the graph is not verified, or larger than 2 GiB.
StatusOr<std::string> EncodeGraph(const Graph& graph);

// The verified graph. kDataLoss: no graph message; kInvalidArgument: what it says is wrong (an
// unknown op or one that is newer than the registry's, an unknown dtype, a cycle, a wrong type).
StatusOr<Graph> DecodeGraph(const std::string& bytes, std::shared_ptr<const OpRegistry> ops);

}  // namespace oc

// A graph as the bytes of a .oc file's graph section (graph.proto).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "openclaw/graph/graph.h"

namespace oc {

// kInvalidArgument where the graph is not verified, or larger than 2 GiB.
StatusOr<std::string> EncodeGraph(const Graph& graph);

// The verified graph. kDataLoss: no graph message; kInvalidArgument: what it says is wrong (an
// unknown op or one that is newer than the registry's, an unknown dtype, a cycle, a wrong type).
// `without_init`, unless it is null, gets the parameters and states for which the message has no
// initial value (EncodeGraph writes one for each).
StatusOr<Graph> DecodeGraph(const std::string& bytes, std::shared_ptr<const OpRegistry> ops,
                            std::vector<std::string>* without_init = nullptr);

}  // namespace oc

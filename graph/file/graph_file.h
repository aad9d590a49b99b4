// Graphs as .oc files: the magic "OPENCLAW", then sections with length and checksum: the graph as
// protobuf (graph.proto) and, where there are any, weights as safetensors. docs/graph.md has the
// layout.
//
//   OC_RETURN_IF_ERROR(SaveGraph("model.oc", graph, {{"fc1.weight", w}}));
//   OC_ASSIGN_OR_RETURN(LoadedGraph model, LoadGraph("model.oc"));
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "openclaw/core/safetensors.h"
#include "openclaw/graph/graph.h"

namespace oc {

// Writes a temporary file, syncs and renames it: the file is whole or not there. Weights are named
// as the graph's parameters and states and have their shapes; the dtype may differ.
// kInvalidArgument: a graph that is not verified, or weights that do not fit; errors of the disk as
// core/file.h has them.
Status SaveGraph(const std::string& path, const Graph& graph,
                 const std::vector<std::pair<std::string, Tensor>>& weights = {});

struct LoadedGraph {
  Graph graph;
  // Reads the weights, one at a time; empty where the file has none. They may be of some variables
  // only: the others begin as their initial values say.
  std::optional<SafetensorsReader> weights;
};

// The verified graph, and the weights, whose checksum was compared. All errors name the file.
// kDataLoss: cut off, or a checksum that differs; kInvalidArgument: no .oc file, a version that is
// not known here, an op that is unknown (the nearest is named) or newer than the registry's, a
// cycle, a wrong type, a parameter or state with neither an initial value nor a weight.
StatusOr<LoadedGraph> LoadGraph(const std::string& path,
                                std::shared_ptr<const OpRegistry> ops = BuiltinOps());

}  // namespace oc

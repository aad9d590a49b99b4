// The readable text form of a graph; docs/graph.md describes it. It holds everything that a Graph
// holds: Print(*ParseGraph(Print(g), ops)) == Print(g).
//
//   graph mlp {
//     data %images: f32[B, 784]
//     parameter %fc.weight: f32[10, 784] = normal(0.0, 0.02)
//     %2 = linear(%images, %fc.weight) {activation: "relu"} : f32[B, 10] in fc
//     output logits = %2
//   }
#pragma once

#include <string>

#include "openclaw/graph/graph.h"

namespace oc {

// Also of a graph that Verify would reject: what does not exist is printed as "?".
std::string Print(const Graph& graph);
// One line of it: "%2 = linear(%images, %fc.weight) ...".
std::string Print(const Graph& graph, const Node& node);

}  // namespace oc

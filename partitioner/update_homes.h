// Which parameter each part of an update belongs to.
#pragma once

#include <string>
#include <vector>

#include "openclaw/graph/graph.h"

namespace oc {

// For each value of the update graph the name of the parameter (or running statistic) of `joint`
// that it is, is the gradient of, or is computed from and for; empty where it is of none or of
// several, as the step's scalars are.
std::vector<std::string> UpdateHomes(const Graph& joint, const Graph& update);

}  // namespace oc

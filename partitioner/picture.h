// Plans for people: a table as text, and the simulated step as an SVG timeline.
#pragma once

#include <string>
#include <vector>

#include "openclaw/partitioner/partition.h"

namespace oc {

// Stages, shares, schedule, and predicted time, bubble and memory a VCU.
std::string PlanText(const PlannedProgram& planned, const Graph& graph, const ClusterSpec& cluster);

// What each VCU's memory holds when its arenas are fullest, in MiB, a row a VCU: the uses add up to
// the arenas. Besides it the most that activations take at any time, and memory of the host for ops
// that the device lacks.
std::string MemoryText(const Plan& plan);

// What memory and time a plan takes with each choice of an option, whether it fits, and why one
// was chosen.
std::string AlternativesText(const std::vector<PlanAlternative>& alternatives);

// A row a VCU and lane that is used, a box a command, to scale; forward, backward, update,
// communication and host work in colours of their own.
std::string TimelineSvg(const PlannedProgram& planned);

}  // namespace oc

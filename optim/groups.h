// Groups of parameters by the patterns of their names.
#pragma once

#include <string>
#include <vector>

#include "openclaw/core/config.h"

namespace oc {

// For each name the index of its group, -1 for none: the first that it matches. kInvalidArgument:
// a setting out of range; a pattern that matches nothing (names the nearest parameters); a group
// whose parameters all belong to groups before it.
StatusOr<std::vector<int>> AssignGroups(const std::vector<ParameterGroup>& groups,
                                        const std::vector<std::string>& names);
// The settings alone.
Status CheckGroups(const std::vector<ParameterGroup>& groups);

}  // namespace oc

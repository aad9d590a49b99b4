// What somebody who misspelt a name may have meant: for error messages.
//
//   const std::string nearest = NearestName("reluu", {"gelu", "relu"});  // "relu"
#pragma once

#include <string>
#include <vector>

namespace oc {

// The name of `known` with the smallest edit distance to `name`, the first of several; empty where
// none is near (more than a third of the letters of `name`, at least two, differ).
std::string NearestName(const std::string& name, const std::vector<std::string>& known);

}  // namespace oc

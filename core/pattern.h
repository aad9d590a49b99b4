// Patterns of names, as configuration files have them.
//
//   MatchesPattern("blocks.*.attention", "blocks.11.attention")  // true
#pragma once

#include <string>

namespace oc {

// Whether the whole name fits: * is any text, dots included, ? any one character.
bool MatchesPattern(const std::string& pattern, const std::string& name);

}  // namespace oc

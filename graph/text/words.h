// What printer and parser share.
#pragma once

#include <string>

#include "openclaw/graph/graph.h"

namespace oc {

// Letters, digits, '_', '.' and '-' make a word; any other name is printed as a quoted, escaped
// string.
bool IsWordChar(char c);
std::string QuoteWord(const std::string& name);

// The scope of an input for which none is printed.
Scope DefaultScope(ValueKind kind);

}  // namespace oc

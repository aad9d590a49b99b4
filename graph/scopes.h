// Modules of a graph by name. A node's scope is the path of modules that built it, as
// "blocks.0.attention"; each of its prefixes that end at a dot is a module that the node is in.
#pragma once

#include <string>

#include "openclaw/graph/graph.h"

namespace oc {

// The outermost module on the way to `scope` that a pattern (core/pattern.h) fits; empty: none.
std::string ModuleOf(const std::string& scope, const std::string& pattern);

// kInvalidArgument that no module of the graph's forward nodes fits what `key` names; says the
// nearest.
Status NoSuchModule(const Graph& graph, const std::string& key, const std::string& pattern);

}  // namespace oc

// Reads the text form of a graph (printer.h).
#pragma once

#include <memory>
#include <string>

#include "openclaw/graph/graph.h"

namespace oc {

// The verified graph. kInvalidArgument names line and column, what stands there and what was
// expected; an unknown op comes with the nearest known one.
StatusOr<Graph> ParseGraph(const std::string& text,
                           std::shared_ptr<const OpRegistry> ops = BuiltinOps());

}  // namespace oc

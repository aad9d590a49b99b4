// The experiment's optimizer section. Internal to launcher/config.
#pragma once

#include "openclaw/core/config.h"
#include "openclaw/launcher/config/section.h"

namespace oc::config {

// Keys that the method takes have its own defaults; a key of another method, or of another
// schedule, is an error that says whose it is. `value` may be null.
void ReadOptimizer(const YamlValue* value, Errors* errors, OptimizerConfig* optimizer);

}  // namespace oc::config

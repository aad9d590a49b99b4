// The texts of kernels/*.cl, which the build turns into constants.
#pragma once

#include <string>

#include "openclaw/core/status.h"

namespace oc::opencl {

// prelude.cl and the file of that name (without ".cl"). kInternal where there is none.
StatusOr<std::string> SourceOf(const std::string& file);

}  // namespace oc::opencl

// MPI's error codes as statuses.
#pragma once

#include <mpi.h>

#include "openclaw/core/status.h"

namespace oc {

// Ok for MPI_SUCCESS; else kInternal with MPI's text after "`call`: ".
Status FromMpi(int code, const char* call);

}  // namespace oc

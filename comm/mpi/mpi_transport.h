// The end of one VCU in a job over MPI: messages to VCUs of the same process go through memory
// (inproc), the others over the process's MpiEngine.
#pragma once

#include <memory>

#include "openclaw/comm/mpi/engine.h"
#include "openclaw/comm/transport.h"

namespace oc {

std::unique_ptr<Transport> NewMpiTransport(std::shared_ptr<MpiEngine> engine,
                                           std::shared_ptr<MpiEngine::World> world, int rank);

}  // namespace oc

// Opens the module of comm/mpi: the rest of the system is linked without MPI.
#pragma once

#include <memory>
#include <string>

#include "openclaw/comm/job.h"

namespace oc {

struct MpiJobOptions {
  // The module's file. Empty: libopenclaw_comm_mpi.so in the folder of this library, or in ../lib
  // of the program's folder.
  std::string module_path;
};

// Joins the job of the MPI launcher; MPI_Init_thread happens here, once in a process. Finalize must
// come from the same thread. kFailedPrecondition where the module or MPI is missing, of another
// version, or without support for threads.
StatusOr<std::unique_ptr<Job>> OpenMpiJob(const MpiJobOptions& options);

// Opens the module as OpenMpiJob does, but starts no MPI: its path, or the same errors.
StatusOr<std::string> CheckMpiModule(const MpiJobOptions& options);

// What the module exports under these names.
inline constexpr const char* kMpiModuleVersionSymbol = "OpenclawCommMpiVersion";
inline constexpr const char* kMpiModuleOpenSymbol = "OpenclawCommMpiOpen";
inline constexpr const char* kMpiModuleVersion = "openclaw comm_mpi 1";
using MpiModuleVersionFunction = const char*();
using MpiModuleOpenFunction = void(StatusOr<std::unique_ptr<Job>>* result);

}  // namespace oc

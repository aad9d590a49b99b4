// Whether this process is one rank of a job that an MPI launcher started, from the environment.
#pragma once

#include <optional>
#include <string>

namespace oc {

struct LauncherEnvironment {
  std::string variable;  // what told it: "OMPI_COMM_WORLD_SIZE"
  int rank = -1;         // -1 where the launcher does not say
  int world_size = -1;
};

// Open MPI, PMI (MPICH, Slurm) and PMIx are known. Empty: started alone.
std::optional<LauncherEnvironment> DetectLauncher();

}  // namespace oc

#include "openclaw/comm/mpi/mpi_status.h"

namespace oc {

Status FromMpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return OkStatus();
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  return Internal(call, ": ",
                  length > 0 ? std::string(text, length) : absl::StrCat("error ", code));
}

}  // namespace oc

// Libraries of NVIDIA's that are loaded when they are first wanted, not linked: the module then
// opens on every machine, and what is missing is an error of the op that wants it.
//
//   OC_ASSIGN_OR_RETURN(const Library* dnn, CudnnLibrary());
//   auto create = dnn->Get<decltype(&cudnnCreate)>("cudnnCreate");
#pragma once

#include <string>
#include <vector>

#include "openclaw/core/status.h"

namespace oc::cuda {

class Library {
 public:
  // Tries the loader's own search (LD_LIBRARY_PATH, ld.so.conf), then OPENCLAW_CUDA_LIBRARIES (a
  // list of folders, as PATH is), then CUDA_HOME and the usual folder of the toolkit. `what` and
  // `remedy` are of the error, kFailedPrecondition, which names the file and what the loader said.
  static StatusOr<Library> Open(const std::string& file, const std::string& what,
                                const std::string& remedy);
  // Null where the library has no such function.
  void* Find(const char* name) const;
  template <typename F>
  F Get(const char* name) const {
    return reinterpret_cast<F>(Find(name));
  }
  const std::string& path() const { return path_; }

 private:
  void* handle_ = nullptr;  // open for the life of the process
  std::string path_;
};

}  // namespace oc::cuda

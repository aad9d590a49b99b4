#include "openclaw/devices/cuda/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <sstream>

namespace oc::cuda {
namespace {

std::vector<std::string> Candidates(const std::string& file) {
  std::vector<std::string> paths = {file};
  if (const char* folders = std::getenv("OPENCLAW_CUDA_LIBRARIES"); folders != nullptr) {
    std::istringstream list(folders);
    for (std::string folder; std::getline(list, folder, ':');) paths.push_back(folder + "/" + file);
  }
  if (const char* home = std::getenv("CUDA_HOME"); home != nullptr) {
    paths.push_back(std::string(home) + "/lib64/" + file);
  }
  paths.push_back("/usr/local/cuda/lib64/" + file);
  return paths;
}

}  // namespace

StatusOr<Library> Library::Open(const std::string& file, const std::string& what,
                                const std::string& remedy) {
  std::string said;
  for (const std::string& path : Candidates(file)) {
    Library library;
    library.handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library.handle_ != nullptr) {
      library.path_ = path;
      return library;
    }
    if (said.empty()) said = dlerror();
  }
  return FailedPrecondition(what, " cannot be loaded: ", said, "; ", remedy,
                            ", or name its folder in OPENCLAW_CUDA_LIBRARIES");
}

void* Library::Find(const char* name) const { return dlsym(handle_, name); }

}  // namespace oc::cuda

#include "openclaw/comm/mpi_loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <vector>

namespace oc {
namespace {

constexpr const char* kFile = "libopenclaw_comm_mpi.so";

std::vector<std::filesystem::path> Candidates() {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&OpenMpiJob), &info) != 0 && info.dli_fname != nullptr) {
    const auto self = std::filesystem::weakly_canonical(info.dli_fname, error);
    found.push_back(self.parent_path() / kFile);
  }
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) found.push_back(program.parent_path().parent_path() / "lib" / kFile);
  if (found.size() == 2 && found[0] == found[1]) found.pop_back();
  return found;
}

StatusOr<std::string> FindModule(const MpiJobOptions& options) {
  if (!options.module_path.empty()) return options.module_path;
  std::string tried;
  std::error_code error;
  for (const auto& path : Candidates()) {
    if (std::filesystem::exists(path, error)) return path.string();
    absl::StrAppend(&tried, tried.empty() ? "" : ", ", path.string());
  }
  return FailedPrecondition(
      "the module for MPI is missing (looked for ", tried,
      "): build the target openclaw_comm_mpi, which needs Open MPI's development package, or start "
      "without mpirun");
}

struct Module {
  std::string path;
  MpiModuleOpenFunction* open = nullptr;
};

StatusOr<Module> OpenModule(const MpiJobOptions& options) {
  Module module;
  OC_ASSIGN_OR_RETURN(module.path, FindModule(options));
  // Open MPI opens plugins of its own, which look for its symbols globally. Never closed: MPI
  // leaves threads and handlers behind.
  void* library = dlopen(module.path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* why = dlerror();
    return FailedPrecondition("open the module for MPI: ",
                              why != nullptr ? why : module.path.c_str());
  }
  const auto version =
      reinterpret_cast<MpiModuleVersionFunction*>(dlsym(library, kMpiModuleVersionSymbol));
  module.open = reinterpret_cast<MpiModuleOpenFunction*>(dlsym(library, kMpiModuleOpenSymbol));
  if (version == nullptr || module.open == nullptr) {
    return FailedPrecondition("open the module for MPI: ", module.path,
                              " is no module of OpenClaw");
  }
  if (std::strcmp(version(), kMpiModuleVersion) != 0) {
    return FailedPrecondition("open the module for MPI: ", module.path, " is '", version(),
                              "', wanted '", kMpiModuleVersion,
                              "': build both from the same sources");
  }
  return module;
}

}  // namespace

StatusOr<std::string> CheckMpiModule(const MpiJobOptions& options) {
  OC_ASSIGN_OR_RETURN(const Module module, OpenModule(options));
  return module.path;
}

StatusOr<std::unique_ptr<Job>> OpenMpiJob(const MpiJobOptions& options) {
  auto module = OpenModule(options);
  OC_RETURN_IF_ERROR(Annotate(module.status(), "this process was started by an MPI launcher"));
  StatusOr<std::unique_ptr<Job>> job = absl::UnknownError("no job");
  module->open(&job);
  return job;
}

}  // namespace oc

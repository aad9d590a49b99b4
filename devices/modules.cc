#include "openclaw/devices/modules.h"

#include <dlfcn.h>

#include <filesystem>
#include <map>

#include "openclaw/devices/plugin.h"

namespace oc {
namespace {

constexpr const char* kPrefix = "openclaw_";
constexpr const char* kSuffix = ".so";

std::vector<std::string> Folders() {
  std::vector<std::string> folders;
  std::error_code error;
  Dl_info info;
  using Find = std::vector<DeviceLeaf> (*)();
  const Find self = &FindDeviceModules;
  if (dladdr(reinterpret_cast<void*>(self), &info) != 0 && info.dli_fname != nullptr) {
    const auto library = std::filesystem::weakly_canonical(info.dli_fname, error);
    folders.push_back(library.parent_path().string());
  }
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back((program.parent_path().parent_path() / "lib").string());
  return folders;
}

// "opencl" of "openclaw_opencl.so"; empty where the file is none.
std::string LeafOf(const std::filesystem::path& file) {
  const std::string name = file.filename().string(), prefix = kPrefix, suffix = kSuffix;
  if (name.size() <= prefix.size() + suffix.size() || name.rfind(prefix, 0) != 0 ||
      name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0) {
    return "";
  }
  return name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
}

StatusOr<std::vector<std::unique_ptr<Device>>> Open(const std::string& name,
                                                    const std::string& path) {
  OC_ASSIGN_OR_RETURN(const DeviceLeaf leaf, LoadPlugin(path));
  if (leaf.name != name) {
    return FailedPrecondition("module ", path, " is the leaf '", leaf.name, "', wanted '", name,
                              "': build it from the same sources");
  }
  return leaf.discover();
}

}  // namespace

std::vector<DeviceLeaf> FindDeviceModules(const std::vector<std::string>& folders) {
  std::map<std::string, std::string> paths;
  for (const std::string& folder : folders) {
    std::error_code error;
    for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
         it.increment(error)) {
      const std::string leaf = LeafOf(it->path());
      if (!leaf.empty()) paths.emplace(leaf, it->path().string());
    }
  }
  std::vector<DeviceLeaf> leaves;
  for (const auto& [name, path] : paths) {
    leaves.push_back({name, [name = name, path = path] { return Open(name, path); }});
  }
  return leaves;
}

std::vector<DeviceLeaf> FindDeviceModules() { return FindDeviceModules(Folders()); }

}  // namespace oc

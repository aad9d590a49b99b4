#include "openclaw/devices/opencl/device.h"

#include <algorithm>
#include <cctype>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "openclaw/devices/host/host_info.h"
#include "openclaw/devices/opencl/cl.h"
#include "openclaw/devices/opencl/slice.h"

namespace oc::opencl {
namespace {

template <typename T>
T Get(cl_device_id device, cl_device_info what) {
  T value{};
  clGetDeviceInfo(device, what, sizeof(value), &value, nullptr);
  return value;
}

std::string GetText(cl_device_id device, cl_device_info what) {
  size_t size = 0;
  if (clGetDeviceInfo(device, what, 0, nullptr, &size) != CL_SUCCESS) return "";
  std::string text(size, '\0');
  clGetDeviceInfo(device, what, size, text.data(), nullptr);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

// Without blanks or slashes: a part of the slice's kind.
std::string ModelOf(cl_device_id device) {
  std::string model;
  for (char c : GetText(device, CL_DEVICE_NAME)) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_';
    if (plain) {
      model += c;
    } else if (!model.empty() && model.back() != '-') {
      model += '-';
    }
  }
  while (!model.empty() && model.back() == '-') model.pop_back();
  return model.empty() ? "unnamed" : model;
}

bool IsCpu(cl_device_id device) {
  return (Get<cl_device_type>(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0;
}

bool Usable(cl_device_id device) {
  // "OpenCL 1.2 ...": sub-devices, markers with events and buffers that are filled came with it.
  const std::string version = GetText(device, CL_DEVICE_VERSION);
  if (version.rfind("OpenCL 1.0", 0) == 0 || version.rfind("OpenCL 1.1", 0) == 0) return false;
  return Get<cl_bool>(device, CL_DEVICE_AVAILABLE) == CL_TRUE &&
         Get<cl_bool>(device, CL_DEVICE_COMPILER_AVAILABLE) == CL_TRUE &&
         Get<cl_bool>(device, CL_DEVICE_ENDIAN_LITTLE) == CL_TRUE &&
         Get<size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE) >= static_cast<size_t>(kFlat);
}

bool CanPartition(cl_device_id device) {
  size_t size = 0;
  clGetDeviceInfo(device, CL_DEVICE_PARTITION_PROPERTIES, 0, nullptr, &size);
  std::vector<cl_device_partition_property> properties(size / sizeof(properties[0]));
  clGetDeviceInfo(device, CL_DEVICE_PARTITION_PROPERTIES, size, properties.data(), nullptr);
  return std::count(properties.begin(), properties.end(), CL_DEVICE_PARTITION_BY_COUNTS) != 0;
}

// How many slices use each compute unit of a device.
class Units {
 public:
  explicit Units(int count) : users_(static_cast<size_t>(count), 0) {}
  // The first of `count` units in a row that are used least.
  int Take(int count) {
    std::lock_guard<std::mutex> lock(mutex_);
    int best = 0, fewest = Users(0, count);
    for (int first = 1; first + count <= static_cast<int>(users_.size()); ++first) {
      if (const int users = Users(first, count); users < fewest) {
        best = first;
        fewest = users;
      }
    }
    Add(best, count, 1);
    return best;
  }
  void Give(int first, int count) {
    std::lock_guard<std::mutex> lock(mutex_);
    Add(first, count, -1);
  }

 private:
  int Users(int first, int count) const {
    int users = 0;
    for (int i = 0; i < count; ++i) users += users_[static_cast<size_t>(first + i)];
    return users;
  }
  void Add(int first, int count, int n) {
    for (int i = 0; i < count; ++i) users_[static_cast<size_t>(first + i)] += n;
  }
  std::mutex mutex_;
  std::vector<int> users_;
};

// The part of `count` units that begins at `first`.
StatusOr<ClDevice> SubDevice(cl_device_id device, int first, int count, const std::string& what) {
  std::vector<cl_device_partition_property> wanted = {CL_DEVICE_PARTITION_BY_COUNTS};
  if (first > 0) wanted.push_back(first);
  wanted.insert(wanted.end(), {count, CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0});
  cl_device_id parts[2] = {nullptr, nullptr};
  cl_uint made = 0;
  OC_RETURN_IF_ERROR(ToStatus(clCreateSubDevices(device, wanted.data(), 2, parts, &made),
                              "clCreateSubDevices", what));
  const cl_uint own = first > 0 ? 1 : 0;
  if (made <= own) return Internal("clCreateSubDevices: ", made, " parts (", what, ")");
  if (own > 0) clReleaseDevice(parts[0]);
  return ClDevice(parts[own]);
}

using Contexts = std::map<std::pair<int, int>, std::shared_ptr<const OpenClContext>>;

// For one device. Never freed: the leaf's devices go when the process ends, where a driver may be
// gone already.
Contexts* KeptContexts() {
  static std::mutex mutex;
  static auto* const all = new std::list<Contexts>;
  std::lock_guard<std::mutex> lock(mutex);
  return &all->emplace_back();
}

class OpenClDevice : public Device {
 public:
  OpenClDevice(cl_device_id device, const std::string& name)
      : device_(device),
        info_{
            .name = name,
            .leaf = "opencl",
            .model = ModelOf(device),
            .threads =
                std::max(1, static_cast<int>(Get<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS))),
            .memory_bytes = static_cast<int64_t>(Get<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE))},
        units_(std::make_shared<Units>(info_.threads)) {
    if (IsCpu(device)) info_.cores = AllowedCores();
  }

  const DeviceInfo& info() const override { return info_; }

  StatusOr<std::unique_ptr<Slice>> CreateSlice(const SliceOptions& options) override {
    if (options.threads < 1 || options.threads > info_.threads) {
      return InvalidArgument("slice of ", info_.name, ": ", options.threads,
                             " compute units, it has ", info_.threads);
    }
    if (!options.options.empty()) {
      return InvalidArgument("slice of ", info_.name, ": option '", options.options.begin()->first,
                             "' is not known; it has none");
    }
    SliceParts parts;
    int first = 0, units = info_.threads;
    if (options.threads < info_.threads && CanPartition(device_)) {
      units = options.threads;
      first = units_->Take(units);
      parts.units = std::shared_ptr<void>(
          nullptr, [all = units_, first, units](void*) { all->Give(first, units); });
      parts.enforcement = Enforcement::kHard;
    }
    parts.kind = absl::StrCat("opencl/", info_.model, "/", units, "u");
    parts.where = parts.kind;
    parts.memory_bytes = options.memory_bytes;
    OC_ASSIGN_OR_RETURN(parts.context, ContextOf(first, units, parts.where));
    return Finish(std::move(parts));
  }

 private:
  // The context of `units` compute units from `first` on.
  StatusOr<std::shared_ptr<const OpenClContext>> ContextOf(int first, int units,
                                                           const std::string& where) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<const OpenClContext>& context = (*contexts_)[{first, units}];
    if (context == nullptr) {
      ClDevice part(device_);  // a root device counts no references
      if (units < info_.threads) {
        OC_ASSIGN_OR_RETURN(part, SubDevice(device_, first, units, info_.name));
      }
      OC_ASSIGN_OR_RETURN(context, OpenClContext::Create(std::move(part), where));
    }
    return context;
  }

  StatusOr<std::unique_ptr<Slice>> Finish(SliceParts parts) const {
    const cl_device_id device = parts.context->device();
    parts.allocation_bytes =
        static_cast<int64_t>(Get<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
    parts.scratch_align =
        std::max<int64_t>(64, Get<cl_uint>(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8);
    parts.limits.local_bytes =
        static_cast<int64_t>(Get<cl_ulong>(device, CL_DEVICE_LOCAL_MEM_SIZE));
    parts.limits.is_cpu = IsCpu(device);
    parts.limits.has_doubles = Get<cl_device_fp_config>(device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
    cl_int code = CL_SUCCESS;
    parts.setup = ClQueue(clCreateCommandQueue(parts.context->get(), device, 0, &code));
    OC_RETURN_IF_ERROR(ToStatus(code, "clCreateCommandQueue", parts.where));
    return std::unique_ptr<Slice>(std::make_unique<OpenClSlice>(std::move(parts)));
  }

  cl_device_id device_;
  DeviceInfo info_;
  std::shared_ptr<Units> units_;
  std::mutex mutex_;
  Contexts* const contexts_ = KeptContexts();
};

StatusOr<std::vector<cl_device_id>> UsableDevices() {
  cl_uint count = 0;
  const cl_int code = clGetPlatformIDs(0, nullptr, &count);
  if (code != CL_SUCCESS || count == 0) {
    return FailedPrecondition("opencl: clGetPlatformIDs: ", ErrorName(code),
                              ": no OpenCL driver is installed; for the CPU install PoCL (Debian: "
                              "pocl-opencl-icd), for another device its vendor's driver");
  }
  std::vector<cl_platform_id> platforms(count);
  OC_RETURN_IF_ERROR(
      ToStatus(clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs", "opencl"));
  std::vector<cl_device_id> usable;
  for (cl_platform_id platform : platforms) {
    cl_uint n = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &n) != CL_SUCCESS) continue;
    std::vector<cl_device_id> devices(n);
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, n, devices.data(), nullptr) != CL_SUCCESS) {
      continue;
    }
    std::copy_if(devices.begin(), devices.end(), std::back_inserter(usable), Usable);
  }
  return usable;
}

}  // namespace

StatusOr<std::vector<std::unique_ptr<Device>>> Discover() {
  OC_ASSIGN_OR_RETURN(std::vector<cl_device_id> usable, UsableDevices());
  if (usable.empty()) {
    return FailedPrecondition(
        "opencl: no device of the installed drivers is available with OpenCL 1.2 and a compiler "
        "(clinfo -l lists what is there)");
  }
  std::stable_partition(usable.begin(), usable.end(), [](cl_device_id d) { return !IsCpu(d); });
  std::vector<std::unique_ptr<Device>> devices;
  for (cl_device_id d : usable) {
    devices.push_back(std::make_unique<OpenClDevice>(d, absl::StrCat("opencl:", devices.size())));
  }
  return devices;
}

}  // namespace oc::opencl

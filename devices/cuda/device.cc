#include "openclaw/devices/cuda/device.h"

#include <cctype>

#include "openclaw/core/logging.h"
#include "openclaw/devices/cuda/partition.h"
#include "openclaw/devices/cuda/slice.h"

namespace oc::cuda {
namespace {

// Without blanks or slashes: a part of the slice's kind.
std::string ModelOf(const char* name) {
  std::string model;
  for (const char* c = name; *c != 0; ++c) {
    if (std::isalnum(static_cast<unsigned char>(*c)) != 0 || *c == '.' || *c == '_') {
      model += *c;
    } else if (!model.empty() && model.back() != '-') {
      model += '-';
    }
  }
  while (!model.empty() && model.back() == '-') model.pop_back();
  return model.empty() ? "unnamed" : model;
}

StatusOr<bool> BoolOption(const std::string& device, const std::string& key,
                          const std::string& value) {
  if (value == "true" || value == "false") return value == "true";
  return InvalidArgument("slice of ", device, ": option '", key, "' is '", value,
                         "', it is true or false");
}

class CudaDevice : public Device {
 public:
  CudaDevice(int ordinal, const cudaDeviceProp& properties)
      : ordinal_(ordinal),
        info_{.name = absl::StrCat("gpu:", ordinal),
              .leaf = "cuda",
              .model = ModelOf(properties.name),
              .threads = properties.multiProcessorCount,
              .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem)},
        partition_(std::make_shared<Partition>(ordinal)) {
    traits_.ordinal = ordinal;
    traits_.units = properties.multiProcessorCount;
    traits_.capability = properties.major * 10 + properties.minor;
    traits_.shared_bytes = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
    traits_.l2_bytes = properties.l2CacheSize;
  }

  const DeviceInfo& info() const override { return info_; }
  int ordinal() const { return ordinal_; }

  StatusOr<std::unique_ptr<Slice>> CreateSlice(const SliceOptions& options) override {
    if (options.threads < 1 || options.threads > info_.threads) {
      return InvalidArgument("slice of ", info_.name, ": ", options.threads,
                             " multiprocessors, it has ", info_.threads);
    }
    SliceParts parts{.traits = traits_, .memory_bytes = options.memory_bytes};
    for (const auto& [key, value] : options.options) {
      if (key != "tf32") {
        return InvalidArgument("slice of ", info_.name, ": option '", key,
                               "' is not known; there is tf32");
      }
      OC_ASSIGN_OR_RETURN(parts.traits.tf32, BoolOption(info_.name, key, value));
    }
    if (options.threads < info_.threads) TakeShare(options.threads, parts);
    parts.kind = absl::StrCat("cuda/", info_.model, "/", parts.traits.units, "sm",
                              parts.traits.tf32 ? "/tf32" : "");
    parts.where = absl::StrCat(parts.kind, " on ", info_.name);
    return CudaSlice::Create(std::move(parts));
  }

 private:
  // Where the driver cannot divide the device the slice has all of it, with others: kSoft.
  void TakeShare(int units, SliceParts& parts) {
    auto share = partition_->Take(units, info_.name);
    if (!share.ok()) {
      OC_LOG_WARNING(absl::StrCat(info_.name, " is not divided: ", share.status().message()));
      return;
    }
    parts.share = *std::move(share);
    parts.traits.units = parts.share->units();
    if (parts.share->exclusive()) parts.enforcement = Enforcement::kHard;
  }

  const int ordinal_;
  const DeviceInfo info_;
  Traits traits_;
  std::shared_ptr<Partition> partition_;
};

}  // namespace

int OrdinalOf(const Device& device) { return static_cast<const CudaDevice&>(device).ordinal(); }

StatusOr<std::vector<std::unique_ptr<Device>>> Discover() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorInsufficientDriver) {
    cudaGetLastError();
    int driver = 0;
    cudaDriverGetVersion(&driver);
    if (driver == 0) {
      return FailedPrecondition(
          "cuda: no NVIDIA driver is installed (libcuda.so.1 was not found); install one of CUDA "
          "13.0 or later (580)");
    }
    return FailedPrecondition("cuda: the driver is of CUDA ", driver / 1000, ".",
                              driver % 1000 / 10, ", this build wants ", CUDART_VERSION / 1000, ".",
                              CUDART_VERSION % 1000 / 10, ": update the driver");
  }
  OC_RETURN_IF_ERROR(ToStatus(code, "cudaGetDeviceCount", "find the GPUs"));
  std::vector<std::unique_ptr<Device>> devices;
  std::string refused;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    OC_RETURN_IF_ERROR(ToStatus(cudaGetDeviceProperties(&properties, i), "cudaGetDeviceProperties",
                                absl::StrCat("gpu:", i)));
    if (properties.major < 8) {
      absl::StrAppend(&refused, "; gpu:", i, " (", properties.name, ") is of compute capability ",
                      properties.major, ".", properties.minor);
      continue;
    }
    devices.push_back(std::make_unique<CudaDevice>(i, properties));
  }
  if (devices.empty()) {
    return FailedPrecondition("cuda: no GPU of compute capability 8.0 or later", refused);
  }
  return devices;
}

}  // namespace oc::cuda

#include "openclaw/devices/ascend/device.h"

#include <cctype>

#include "openclaw/devices/ascend/slice.h"

namespace oc::ascend {
namespace {

// Without blanks or slashes: a part of the slice's kind.
std::string ModelOf(const char* soc) {
  std::string model;
  for (const char* c = soc == nullptr ? "" : soc; *c != 0; ++c) {
    const bool plain = std::isalnum(static_cast<unsigned char>(*c)) != 0 || *c == '.' || *c == '_';
    model += plain ? *c : '-';
  }
  return model.empty() ? "unnamed" : model;
}

class AscendDevice : public Device {
 public:
  AscendDevice(std::shared_ptr<const Api> api, int index, DeviceInfo info)
      : api_(std::move(api)), index_(index), info_(std::move(info)) {}

  const DeviceInfo& info() const override { return info_; }

  StatusOr<std::unique_ptr<Slice>> CreateSlice(const SliceOptions& options) override {
    if (options.threads < 1 || options.threads > info_.threads) {
      return InvalidArgument("slice of ", info_.name, ": ", options.threads, " cores, it has ",
                             info_.threads);
    }
    if (!options.options.empty()) {
      return InvalidArgument("slice of ", info_.name, ": option '", options.options.begin()->first,
                             "' is not known; it has none");
    }
    return std::unique_ptr<Slice>(std::make_unique<AscendSlice>(
        SliceParts{.api = api_,
                   .device = index_,
                   .kind = absl::StrCat("ascend/", info_.model, "/", info_.threads, "u"),
                   .memory_bytes = options.memory_bytes}));
  }

 private:
  const std::shared_ptr<const Api> api_;
  const int index_;
  const DeviceInfo info_;
};

StatusOr<DeviceInfo> InfoOf(const Api& api, int index) {
  DeviceInfo info{.name = absl::StrCat("ascend:", index),
                  .leaf = "ascend",
                  .model = ModelOf(api.aclrtGetSocName())};
  OC_RETURN_IF_ERROR(api.UseDevice(index));
  int64_t cores = 0;
  OC_RETURN_IF_ERROR(
      api.ToStatus(api.aclGetDeviceCapability(static_cast<uint32_t>(index), kInfoAiCores, &cores),
                   "aclGetDeviceCapability", info.name));
  info.threads = std::max(1, static_cast<int>(cores));
  size_t free = 0, total = 0;
  OC_RETURN_IF_ERROR(
      api.ToStatus(api.aclrtGetMemInfo(kHbmMemory, &free, &total), "aclrtGetMemInfo", info.name));
  info.memory_bytes = static_cast<int64_t>(total);
  return info;
}

}  // namespace

StatusOr<std::vector<std::unique_ptr<Device>>> Discover() {
  OC_ASSIGN_OR_RETURN(const std::shared_ptr<const Api> api, Api::Load());
  uint32_t count = 0;
  OC_RETURN_IF_ERROR(
      api->ToStatus(api->aclrtGetDeviceCount(&count), "aclrtGetDeviceCount", "ascend"));
  if (count == 0) {
    return FailedPrecondition("ascend: no device: npu-smi info lists what the driver sees");
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < static_cast<int>(count); ++i) {
    OC_ASSIGN_OR_RETURN(DeviceInfo info, InfoOf(*api, i));
    devices.push_back(std::make_unique<AscendDevice>(api, i, std::move(info)));
  }
  // The same bits each time: sums have one order.
  OC_RETURN_IF_ERROR(api->ToStatus(api->aclrtSetSysParamOpt(kOptDeterministic, 1),
                                   "aclrtSetSysParamOpt", "ascend"));
  return devices;
}

}  // namespace oc::ascend

#include "openclaw/devices/ascend/api.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

namespace oc::ascend {
namespace {

// Opened for good: the runtime has threads of its own, and nothing may unload under them.
void* Open(const std::string& library, std::string& errors) {
  std::vector<std::string> places;
  if (const char* home = std::getenv("ASCEND_HOME_PATH"); home != nullptr && *home != 0) {
    places.push_back(absl::StrCat(home, "/lib64/", library));
  }
  places.push_back(library);
  for (const std::string& place : places) {
    if (void* handle = dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL); handle != nullptr) {
      return handle;
    }
    absl::StrAppend(&errors, errors.empty() ? "" : "; ", dlerror());
  }
  return nullptr;
}

StatusOr<void*> OpenOrSay(const std::string& library) {
  std::string errors;
  void* handle = Open(library, errors);
  if (handle != nullptr) return handle;
  return FailedPrecondition("ascend: ", library, " cannot be opened (", errors,
                            "): install the CANN toolkit and its kernels, and source its "
                            "set_env.sh, which sets ASCEND_HOME_PATH and LD_LIBRARY_PATH");
}

template <typename F>
Status Find(const std::vector<void*>& libraries, const char* name, F** function) {
  for (void* library : libraries) {
    if (void* symbol = dlsym(library, name); symbol != nullptr) {
      *function = reinterpret_cast<F*>(symbol);
      return OkStatus();
    }
  }
  return FailedPrecondition("ascend: the CANN libraries have no ", name,
                            ": install CANN 8.0 or newer");
}

Status FindAll(const std::vector<void*>& libraries, Api& api) {
#define OC_ASCEND_FIND_(name, ...) OC_RETURN_IF_ERROR(Find(libraries, #name, &api.name));
  OC_ASCEND_RUNTIME(OC_ASCEND_FIND_)
  OC_ASCEND_OPERATOR_BASE(OC_ASCEND_FIND_)
#undef OC_ASCEND_FIND_
  // An operator that is missing is found out by the op that wants it.
  for (int i = 0; i < kNumOperators; ++i) {
    const std::string name = NameOf(static_cast<Operator>(i));
    void* launch = nullptr;
    if (!Find(libraries, (name + "GetWorkspaceSize").c_str(), &api.sizes[i]).ok() ||
        !Find(libraries, name.c_str(), &launch).ok()) {
      api.sizes[i] = nullptr;
    }
    api.launches[i] = reinterpret_cast<LaunchFunction*>(launch);
  }
  return OkStatus();
}

}  // namespace

const char* NameOf(Operator op) {
  static const char* const kNames[] = {
#define OC_ASCEND_NAME_(name, ...) "aclnn" #name,
      OC_ASCEND_OPERATORS(OC_ASCEND_NAME_)
#undef OC_ASCEND_NAME_
  };
  return kNames[static_cast<int>(op)];
}

StatusOr<std::shared_ptr<const Api>> Api::Load() {
  std::vector<void*> libraries;
  for (const char* library : {"libascendcl.so", "libnnopbase.so", "libopapi.so"}) {
    OC_ASSIGN_OR_RETURN(void* const handle, OpenOrSay(library));
    libraries.push_back(handle);
  }
  // Newer toolkits divide the operators.
  std::string ignored;
  for (const char* library : {"libopapi_math.so", "libopapi_nn.so"}) {
    if (void* handle = Open(library, ignored); handle != nullptr) libraries.push_back(handle);
  }
  auto api = std::make_shared<Api>();
  OC_RETURN_IF_ERROR(FindAll(libraries, *api));
  // Another part of the process may have initialised it.
  const int32_t code = api->aclInit(nullptr);
  if (code != kAclRepeatInitialize) OC_RETURN_IF_ERROR(api->ToStatus(code, "aclInit", "ascend"));
  return api;
}

StatusOr<const HcclApi*> Api::Collectives() const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (hccl_ != nullptr) return hccl_.get();
  OC_ASSIGN_OR_RETURN(void* const handle, OpenOrSay("libhccl.so"));
  auto hccl = std::make_unique<HcclApi>();
#define OC_ASCEND_FIND_(name, ...) OC_RETURN_IF_ERROR(Find({handle}, #name, &hccl->name));
  OC_ASCEND_COLLECTIVES(OC_ASCEND_FIND_)
#undef OC_ASCEND_FIND_
  hccl_ = std::move(hccl);
  return hccl_.get();
}

Status Api::UseDevice(int device) const {
  int32_t now = -1;
  if (aclrtGetDevice(&now) == kAclSuccess && now == device) return OkStatus();
  return ToStatus(aclrtSetDevice(device), "aclrtSetDevice", absl::StrCat("ascend:", device));
}

Status Api::ToStatus(int32_t code, const char* function, const std::string& where) const {
  if (code == kAclSuccess) return OkStatus();
  const char* text = aclGetRecentErrMsg();
  const std::string message =
      absl::StrCat(function, ": code ", code, text == nullptr ? "" : absl::StrCat(" (", text, ")"),
                   " (", where, ")");
  switch (code) {
    case kRtMemoryAllocation:
    case kRtDeviceOom:
      return ResourceExhausted(message);
    case kAclUninitialized:
    case kRtNoDevice:
    case kRtInvalidDeviceId:
      return FailedPrecondition(message, ": npu-smi info lists the devices that are there");
    case kRtWaitTimeout:
    case kRtStreamSyncTimeout:
    case kRtEventSyncTimeout:
      return absl::DeadlineExceededError(message);
    // The arguments of an operator: not of a type or shape that it takes on this device.
    case kAclnnParamInvalid:
      return Unimplemented(message);
    // The device, or what runs on it, has failed.
    case kRtLostHeartbeat:
    case kRtAicoreTimeout:
    case kRtAicoreException:
    case kRtAicpuTimeout:
    case kRtAicpuException:
    case kRtVectorCoreTimeout:
    case kRtVectorCoreException:
    case kRtVectorCoreTrapException:
    case kRtDeviceMemoryError:
    case kRtHbmEccError:
    case kRtLinkError:
    case kRtDrvInternalError:
      return absl::UnavailableError(message);
    default:
      return Internal(message);
  }
}

Status Api::HcclStatus(int32_t result, const char* function, const std::string& where) const {
  if (result == kHcclSuccess) return OkStatus();
  const char* text = aclGetRecentErrMsg();
  const std::string message =
      absl::StrCat(function, ": result ", result,
                   text == nullptr ? "" : absl::StrCat(" (", text, ")"), " (", where, ")");
  switch (result) {
    case kHcclTimeout:
      return absl::DeadlineExceededError(message);
    case kHcclNotSupported:
      return Unimplemented(message);
    case kHcclParameter:
      return InvalidArgument(message);
    case kHcclMemory:
    case kHcclOutOfMemory:
      return ResourceExhausted(message);
    // Another rank, or the way to it, has failed.
    case kHcclNetwork:
    case kHcclRemote:
      return absl::AbortedError(message);
    case kHcclUnavailable:
      return absl::UnavailableError(message);
    default:
      return Internal(message);
  }
}

}  // namespace oc::ascend

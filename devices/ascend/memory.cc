#include "openclaw/devices/ascend/memory.h"

#include <algorithm>

#include "openclaw/core/logging.h"

namespace oc::ascend {
namespace {

constexpr int32_t kFreeTimeoutMs = 60000;

}  // namespace

StatusOr<std::unique_ptr<DeviceMemory>> DeviceMemory::Create(std::shared_ptr<const Api> api,
                                                             int device, int64_t bytes,
                                                             const std::string& where) {
  OC_RETURN_IF_ERROR(api->UseDevice(device));
  const auto capacity = static_cast<size_t>(std::max<int64_t>(64, (bytes + 63) / 64 * 64));
  void* data = nullptr;
  OC_RETURN_IF_ERROR(
      api->ToStatus(api->aclrtMalloc(&data, capacity, kMallocHugeFirst), "aclrtMalloc", where));
  std::unique_ptr<DeviceMemory> memory(new DeviceMemory(api, device, static_cast<char*>(data)));
  OC_RETURN_IF_ERROR(
      api->ToStatus(api->aclrtMemset(data, capacity, 0, capacity), "aclrtMemset", where));
  return memory;
}

// The runtime frees at once, under whatever still runs.
DeviceMemory::~DeviceMemory() {
  Status status = api_->UseDevice(device_);
  if (status.ok()) {
    (void)api_->aclrtSynchronizeDeviceWithTimeout(kFreeTimeoutMs);
    status = api_->ToStatus(api_->aclrtFree(data_), "aclrtFree", absl::StrCat("ascend:", device_));
  }
  if (!status.ok()) OC_LOG_WARNING(status.message());
}

Staging::~Staging() {
  if (!api_->UseDevice(device_).ok()) return;
  for (const auto& [size, chunk] : free_) (void)api_->aclrtFreeHost(chunk);
}

StatusOr<std::shared_ptr<char>> Staging::Get(int64_t bytes) {
  int64_t size = 256;
  while (size < bytes) size *= 2;
  char* chunk = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (const auto found = free_.find(size); found != free_.end()) {
      chunk = found->second;
      free_.erase(found);
    }
  }
  if (chunk == nullptr) {
    OC_RETURN_IF_ERROR(api_->UseDevice(device_));
    void* made = nullptr;
    OC_RETURN_IF_ERROR(api_->ToStatus(api_->aclrtMallocHost(&made, static_cast<size_t>(size)),
                                      "aclrtMallocHost", absl::StrCat("ascend:", device_)));
    chunk = static_cast<char*>(made);
  }
  return std::shared_ptr<char>(chunk, [pool = shared_from_this(), size](char* c) {
    std::lock_guard<std::mutex> lock(pool->mutex_);
    pool->free_.emplace(size, c);
  });
}

}  // namespace oc::ascend

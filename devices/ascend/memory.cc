#include "openclaw/devices/ascend/memory.h"

#include <algorithm>

#include "openclaw/core/logging.h"

namespace oc::ascend {
namespace {

constexpr int32_t kFreeTimeoutMs = 60000;

}  // namespace

Status Budget::Take(int64_t bytes, const std::string& what) {
  const int64_t before = taken_.fetch_add(bytes);
  if (bytes_ == 0 || before + bytes <= bytes_) return OkStatus();
  taken_.fetch_sub(bytes);
  return ResourceExhausted(what, ": the budget is ", bytes_, ", of which ", before, " are taken");
}

StatusOr<std::unique_ptr<DeviceMemory>> DeviceMemory::Create(std::shared_ptr<const Api> api,
                                                             int device,
                                                             std::shared_ptr<Budget> budget,
                                                             int64_t bytes,
                                                             const std::string& what) {
  OC_RETURN_IF_ERROR(api->UseDevice(device));
  OC_RETURN_IF_ERROR(budget->Take(bytes, what));
  std::unique_ptr<DeviceMemory> memory(new DeviceMemory(api, device, std::move(budget), bytes));
  const auto capacity = static_cast<size_t>(std::max<int64_t>(64, (bytes + 63) / 64 * 64));
  void* data = nullptr;
  OC_RETURN_IF_ERROR(
      api->ToStatus(api->aclrtMalloc(&data, capacity, kMallocHugeFirst), "aclrtMalloc", what));
  memory->data_ = static_cast<char*>(data);
  OC_RETURN_IF_ERROR(
      api->ToStatus(api->aclrtMemset(data, capacity, 0, capacity), "aclrtMemset", what));
  return memory;
}

DeviceMemory::~DeviceMemory() {
  const Status status = Free();
  if (status.ok()) {
    budget_->Give(bytes_);
  } else {
    OC_LOG_WARNING(bytes_, " bytes are not freed: ", status.message());
  }
}

// The runtime frees at once, under whatever still runs.
Status DeviceMemory::Free() {
  if (data_ == nullptr) return OkStatus();
  const std::string where = absl::StrCat("ascend:", device_);
  OC_RETURN_IF_ERROR(api_->UseDevice(device_));
  const Status ended = api_->ToStatus(api_->aclrtSynchronizeDeviceWithTimeout(kFreeTimeoutMs),
                                      "aclrtSynchronizeDeviceWithTimeout", where);
  // What failed has ended too.
  if (absl::IsDeadlineExceeded(ended)) return ended;
  return api_->ToStatus(api_->aclrtFree(data_), "aclrtFree", where);
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

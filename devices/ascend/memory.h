// Memory of a device, and pages of the host that it copies to and from by itself.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "openclaw/devices/ascend/api.h"

namespace oc::ascend {

// What a slice may take of its device's memory. Thread-safe.
class Budget {
 public:
  // 0: as much as there is.
  explicit Budget(int64_t bytes) : bytes_(bytes) {}
  // kResourceExhausted, of `what`, where that is beyond it.
  Status Take(int64_t bytes, const std::string& what);
  void Give(int64_t bytes) { taken_.fetch_sub(bytes); }

 private:
  const int64_t bytes_;
  std::atomic<int64_t> taken_{0};
};

// Freed with the object, once the device has ended what it runs. Where it does not end, the memory
// is left as it is, for what runs may write there: it stays taken, and a warning says so.
class DeviceMemory {
 public:
  // Zeroed. kResourceExhausted where the budget or the device has no more. `what`: for messages.
  static StatusOr<std::unique_ptr<DeviceMemory>> Create(std::shared_ptr<const Api> api, int device,
                                                        std::shared_ptr<Budget> budget,
                                                        int64_t bytes, const std::string& what);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  char* data() const { return data_; }

 private:
  DeviceMemory(std::shared_ptr<const Api> api, int device, std::shared_ptr<Budget> budget,
               int64_t bytes)
      : api_(std::move(api)), device_(device), budget_(std::move(budget)), bytes_(bytes) {}
  Status Free();

  const std::shared_ptr<const Api> api_;
  const int device_;
  const std::shared_ptr<Budget> budget_;
  const int64_t bytes_;  // taken of the budget
  char* data_ = nullptr;
};

// Pinned host memory in chunks that are used again. A copy between a device and other memory of the
// host holds up its caller until the stream comes to it, so all go through chunks. Thread-safe.
class Staging : public std::enable_shared_from_this<Staging> {
 public:
  Staging(std::shared_ptr<const Api> api, int device) : api_(std::move(api)), device_(device) {}
  ~Staging();
  Staging(const Staging&) = delete;

  // At least so many bytes; back in the pool with its last holder.
  StatusOr<std::shared_ptr<char>> Get(int64_t bytes);

 private:
  const std::shared_ptr<const Api> api_;
  const int device_;
  std::mutex mutex_;
  std::multimap<int64_t, char*> free_;  // by size; guarded by mutex_
};

}  // namespace oc::ascend

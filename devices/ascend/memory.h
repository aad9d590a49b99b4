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

// Freed with the object, once the device has ended what it runs.
class DeviceMemory {
 public:
  // Zeroed. kResourceExhausted where the device has no more.
  static StatusOr<std::unique_ptr<DeviceMemory>> Create(std::shared_ptr<const Api> api, int device,
                                                        int64_t bytes, const std::string& where);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  char* data() const { return data_; }

 private:
  DeviceMemory(std::shared_ptr<const Api> api, int device, char* data)
      : api_(std::move(api)), device_(device), data_(data) {}
  const std::shared_ptr<const Api> api_;
  const int device_;
  char* const data_;
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

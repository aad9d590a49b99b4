// The other direction of plugin.h: devices written in C++ as a table of the C interface. Leaves of
// the tree are made so, and a plugin out of tree may be.
//
//   extern "C" const oc_device_api* openclaw_device_query(uint32_t version, const oc_host_api*) {
//     return oc::ExportTable<&Discover>("npu", version);
//   }
//
// The devices are discovered once a process and live as long as it.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "openclaw/devices/device.h"
#include "openclaw/devices/openclaw_device.h"
#include "openclaw/devices/plugin.h"

namespace oc {

using DiscoverFunction = StatusOr<std::vector<std::unique_ptr<Device>>> (*)();

// The devices of one exported leaf.
class ExportedDevices {
 public:
  explicit ExportedDevices(DiscoverFunction discover) : discover_(discover) {}
  int32_t Count(int32_t* devices, oc_error* error);
  int32_t Open(int32_t index, oc_device** device, oc_error* error);

 private:
  Status Find();  // with mutex_ held

  DiscoverFunction discover_;
  std::mutex mutex_;
  bool found_ = false;
  std::vector<std::unique_ptr<Device>> devices_;
};

// A table whose count and open are left null; `leaf` must be a constant.
oc_device_api TableWithoutDevices(const char* leaf);

// What handles of an exported table stand for, for the optional tables that a leaf adds to it
// (collectives); and a status as the interface passes it, with its message in `error` (may be
// null).
Device& DeviceOf(oc_device* device);
Slice& SliceOf(oc_slice* slice);
Queue& QueueOf(oc_queue* queue);
Event& EventOf(oc_event* event);
BufferRange RangeOf(const oc_range& range);
int32_t GiveStatus(const Status& status, oc_error* error);

// Null where the host is of another major version.
template <DiscoverFunction discover>
const oc_device_api* ExportTable(const char* leaf, uint32_t host_abi_version) {
  static ExportedDevices devices(discover);
  static const oc_device_api table = [&] {
    oc_device_api t = TableWithoutDevices(leaf);
    t.count = [](int32_t* n, oc_error* error) { return devices.Count(n, error); };
    t.open = [](int32_t index, oc_device** d, oc_error* error) {
      return devices.Open(index, d, error);
    };
    return t;
  }();
  return host_abi_version >> 16 == OC_DEVICE_ABI_MAJOR ? &table : nullptr;
}

// The same devices, seen through the interface: what the leaves of the tree are registered by.
template <DiscoverFunction discover>
DeviceLeaf ThroughTable(const char* leaf) {
  static const char* const name = leaf;
  auto made = LeafOfTable(
      [](uint32_t version, const oc_host_api*) { return ExportTable<discover>(name, version); },
      leaf);
  OC_CHECK(made.ok(), made.status().ToString());
  return *std::move(made);
}

}  // namespace oc

// The symbol by which the host opens the leaf.
#include "openclaw/devices/cuda/device.h"
#include "openclaw/devices/cuda/tables.h"
#include "openclaw/devices/export.h"

extern "C" __attribute__((visibility("default"))) const oc_device_api* openclaw_device_query(
    uint32_t host_abi_version, const oc_host_api*) {
  const oc_device_api* exported = oc::ExportTable<&oc::cuda::Discover>("cuda", host_abi_version);
  if (exported == nullptr) return nullptr;
  static const oc_device_api table = [exported] {
    oc_device_api t = *exported;
    t.links = oc::cuda::LinkTable();
    t.profile = oc::cuda::ProfileTable();
    return t;
  }();
  return &table;
}

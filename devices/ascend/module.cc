// The symbol by which the host opens the leaf.
#include "openclaw/devices/ascend/collectives.h"
#include "openclaw/devices/ascend/device.h"
#include "openclaw/devices/export.h"

extern "C" __attribute__((visibility("default"))) const oc_device_api* openclaw_device_query(
    uint32_t host_abi_version, const oc_host_api*) {
  const oc_device_api* exported =
      oc::ExportTable<&oc::ascend::Discover>("ascend", host_abi_version);
  if (exported == nullptr) return nullptr;
  static const oc_device_api table = [exported] {
    oc_device_api t = *exported;
    t.collectives = oc::ascend::CollectiveTable();
    return t;
  }();
  return &table;
}

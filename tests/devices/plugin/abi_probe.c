/* A library whose one function reaches every type of the interface: what abidiff compares. */
#include "openclaw/devices/openclaw_device.h"

const oc_device_api* openclaw_device_query(uint32_t host_abi_version, const oc_host_api* host);

const oc_device_api* openclaw_device_query(uint32_t host_abi_version, const oc_host_api* host) {
  (void)host_abi_version, (void)host;
  return 0;
}

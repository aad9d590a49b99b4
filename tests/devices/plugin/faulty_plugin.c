/* Plugins that do what a plugin must not, one fault a build: -DFAULT_...; for plugin_test.cc. */
#include <stdlib.h>
#include <unistd.h>

#include "openclaw/devices/openclaw_device.h"

#if defined(FAULT_CRASH)
static void __attribute__((constructor)) Crash(void) { abort(); }
#elif defined(FAULT_EXIT)
static void __attribute__((constructor)) Exit(void) { _exit(0); }
#endif

#if !defined(FAULT_NO_SYMBOL)
const oc_device_api* openclaw_device_query(uint32_t version, const oc_host_api* host) {
  static oc_device_api api;
  (void)version, (void)host;
#if defined(FAULT_HANG)
  for (;;) sleep(1);
#elif defined(FAULT_VERSION)
  return NULL;
#elif defined(FAULT_OTHER_MAJOR)
  api.struct_size = sizeof(api);
  api.abi_version = OC_DEVICE_ABI_VERSION_OF(7, 2);
#else
  api.struct_size = sizeof(api);
  api.abi_version = OC_DEVICE_ABI_VERSION;
  api.leaf = "faulty";
#endif
  return &api;
}
#endif

#include "openclaw/devices/cuda/tables.h"

#include "openclaw/devices/cuda/device.h"
#include "openclaw/devices/cuda/queue.h"
#include "openclaw/devices/export.h"

namespace oc::cuda {
namespace {

// What the driver says of the way between two devices. Rates are those of the hardware's kind; the
// host measures them.
Status Link(int from, int to, oc_link_info& info) {
  const std::string where = absl::StrCat("link from gpu:", from, " to gpu:", to);
  info.kind = OC_LINK_HOST;
  info.needs_staging = 1;
  info.bytes_per_second = 20e9;
  info.latency_seconds = 20e-6;
  if (from == to) {
    info.kind = OC_LINK_PEER;
    info.needs_staging = 0;
    info.bytes_per_second = 1e12;
    info.latency_seconds = 5e-6;
    return OkStatus();
  }
  int can = 0;
  OC_RETURN_IF_ERROR(
      ToStatus(cudaDeviceCanAccessPeer(&can, from, to), "cudaDeviceCanAccessPeer", where));
  if (can == 0) return OkStatus();
  info.needs_staging = 0;
  info.latency_seconds = 10e-6;
  // Atomics of a peer run over NVLink, not over PCIe.
  int atomics = 0;
  OC_RETURN_IF_ERROR(
      ToStatus(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, from, to),
               "cudaDeviceGetP2PAttribute", where));
  info.kind = atomics != 0 ? OC_LINK_FABRIC : OC_LINK_PEER;
  info.bytes_per_second = atomics != 0 ? 350e9 : 25e9;
  return OkStatus();
}

int32_t GetLink(oc_device* from, oc_device* to, oc_link_info* info, oc_error* error) {
  return GiveStatus(Link(OrdinalOf(DeviceOf(from)), OrdinalOf(DeviceOf(to)), *info), error);
}

Status Elapsed(Event& from, Event& to, double& seconds) {
  const auto begin = static_cast<CudaEvent&>(from).point();
  const auto end = static_cast<CudaEvent&>(to).point();
  if (begin == nullptr || end == nullptr || !begin->Ready() || !end->Ready()) {
    return FailedPrecondition("time between two events: one is not ready");
  }
  OC_RETURN_IF_ERROR(begin->status());
  OC_RETURN_IF_ERROR(end->status());
  float milliseconds = 0;
  OC_RETURN_IF_ERROR(ToStatus(cudaEventElapsedTime(&milliseconds, begin->event(), end->event()),
                              "cudaEventElapsedTime", "time between two events"));
  seconds = milliseconds / 1e3;
  return OkStatus();
}

int32_t GetElapsed(oc_event* from, oc_event* to, double* seconds, oc_error* error) {
  return GiveStatus(Elapsed(EventOf(from), EventOf(to), *seconds), error);
}

}  // namespace

const oc_link_api* LinkTable() {
  static constexpr oc_link_api table = {sizeof(oc_link_api), GetLink};
  return &table;
}
const oc_profile_api* ProfileTable() {
  static constexpr oc_profile_api table = {sizeof(oc_profile_api), GetElapsed};
  return &table;
}

}  // namespace oc::cuda

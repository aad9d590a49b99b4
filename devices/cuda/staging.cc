#include "openclaw/devices/cuda/staging.h"

#include <algorithm>
#include <cstring>

namespace oc::cuda {
namespace {

struct Delivery {
  std::byte* to;
  const std::byte* from;
  size_t bytes;
};

void CUDART_CB Deliver(void* data) {
  std::unique_ptr<Delivery> d(static_cast<Delivery*>(data));
  std::memcpy(d->to, d->from, d->bytes);
}

}  // namespace

StatusOr<std::unique_ptr<Staging>> Staging::Create(const std::string& where) {
  std::unique_ptr<Staging> made(new Staging);
  const auto pin = [&](std::byte*& memory) {
    return ToStatus(cudaHostAlloc(reinterpret_cast<void**>(&memory), kChunk, cudaHostAllocPortable),
                    "cudaHostAlloc", absl::StrCat("pin memory for copies, ", where));
  };
  for (Chunk& chunk : made->up_) {
    OC_RETURN_IF_ERROR(pin(chunk.memory));
    OC_RETURN_IF_ERROR(ToStatus(cudaEventCreateWithFlags(&chunk.free, cudaEventDisableTiming),
                                "cudaEventCreate", where));
  }
  OC_RETURN_IF_ERROR(pin(made->down_));
  return made;
}

Staging::~Staging() {
  for (Chunk& chunk : up_) {
    if (chunk.free != nullptr) cudaEventDestroy(chunk.free);
    if (chunk.memory != nullptr) cudaFreeHost(chunk.memory);
  }
  if (down_ != nullptr) cudaFreeHost(down_);
}

Status Staging::FromHost(cudaStream_t stream, void* to, std::span<const std::byte> from,
                         const std::string& where) {
  for (size_t at = 0; at < from.size(); at += kChunk) {
    const size_t bytes = std::min(kChunk, from.size() - at);
    Chunk& chunk = up_[next_];
    next_ = 1 - next_;
    OC_RETURN_IF_ERROR(ToStatus(cudaEventSynchronize(chunk.free), "cudaEventSynchronize", where));
    std::memcpy(chunk.memory, from.data() + at, bytes);
    OC_RETURN_IF_ERROR(ToStatus(cudaMemcpyAsync(static_cast<std::byte*>(to) + at, chunk.memory,
                                                bytes, cudaMemcpyHostToDevice, stream),
                                "cudaMemcpyAsync", where));
    OC_RETURN_IF_ERROR(ToStatus(cudaEventRecord(chunk.free, stream), "cudaEventRecord", where));
  }
  return OkStatus();
}

Status Staging::ToHost(cudaStream_t stream, std::span<std::byte> to, const void* from,
                       const std::string& where) {
  for (size_t at = 0; at < to.size(); at += kChunk) {
    const size_t bytes = std::min(kChunk, to.size() - at);
    OC_RETURN_IF_ERROR(ToStatus(cudaMemcpyAsync(down_, static_cast<const std::byte*>(from) + at,
                                                bytes, cudaMemcpyDeviceToHost, stream),
                                "cudaMemcpyAsync", where));
    auto delivery = std::make_unique<Delivery>(Delivery{to.data() + at, down_, bytes});
    OC_RETURN_IF_ERROR(
        ToStatus(cudaLaunchHostFunc(stream, Deliver, delivery.get()), "cudaLaunchHostFunc", where));
    (void)delivery.release();  // Deliver's
  }
  return OkStatus();
}

}  // namespace oc::cuda

// Copies between pageable memory of the host and a device, through pinned memory: the calls return
// before the copy is done, as CUDA's own would not.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "openclaw/devices/cuda/api.h"

namespace oc::cuda {

// Of one queue at a time, and used by one thread at a time.
class Staging {
 public:
  static StatusOr<std::unique_ptr<Staging>> Create(const std::string& where);
  // Precondition, also of another queue's use: the streams that used it have come to their ends.
  ~Staging();
  // Returns once `from` has been read. Blocks while the chunks are on their way.
  Status FromHost(cudaStream_t stream, void* to, std::span<const std::byte> from,
                  const std::string& where);
  // `to` is written when the stream has come to it.
  Status ToHost(cudaStream_t stream, std::span<std::byte> to, const void* from,
                const std::string& where);

 private:
  static constexpr size_t kChunk = size_t{4} << 20;
  struct Chunk {
    std::byte* memory = nullptr;
    cudaEvent_t free = nullptr;  // once it may be written again
  };
  Staging() = default;

  Chunk up_[2];
  std::byte* down_ = nullptr;  // the stream uses it in order
  int next_ = 0;
};

}  // namespace oc::cuda

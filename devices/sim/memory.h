// Memory of a simulated unit. Nobody can touch it but work of the unit while it runs: its pages are
// without access otherwise, and those behind it always are. A host that reaches into it, or a
// kernel that keeps a pointer, faults.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "openclaw/core/status.h"
#include "openclaw/devices/device.h"

namespace oc::sim {

// Thread-safe. Lives as long as its buffer and what is enqueued on it.
class SimMemory {
 public:
  // Zeroed. Free lowers `used` by `bytes`.
  // kResourceExhausted where the system refuses.
  static StatusOr<std::shared_ptr<SimMemory>> Create(int64_t bytes,
                                                     std::shared_ptr<std::atomic<int64_t>> used);
  ~SimMemory();
  SimMemory(const SimMemory&) = delete;

  int64_t bytes() const { return bytes_; }
  // Makes the pages accessible until as many calls of Release. kFailedPrecondition once it is
  // freed.
  StatusOr<std::byte*> Acquire();
  void Release();
  // Once. Waits until nothing enqueued uses it; but not for ever for work behind an event that does
  // not come: such work fails when its turn comes.
  void Free();
  // The memory, kept and counted as used until the last copy goes.
  static std::shared_ptr<SimMemory> Use(std::shared_ptr<SimMemory> memory);
  // Bytes [.., end) were written.
  void Wrote(int64_t end);
  int64_t high_water() const { return high_water_.load(); }

 private:
  SimMemory(std::byte* data, int64_t bytes, std::shared_ptr<std::atomic<int64_t>> used)
      : data_(data), bytes_(bytes), used_(std::move(used)) {}

  std::byte* const data_;
  const int64_t bytes_;
  const std::shared_ptr<std::atomic<int64_t>> used_;
  std::atomic<int64_t> high_water_{0};
  std::mutex mutex_;
  std::condition_variable idle_;
  // All guarded by mutex_.
  int users_ = 0;  // that have access
  int uses_ = 0;   // of Use
  bool freed_ = false;
};

// The object that the host holds: frees the memory when it goes.
class SimBuffer : public Buffer {
 public:
  explicit SimBuffer(std::shared_ptr<SimMemory> memory) : memory_(std::move(memory)) {}
  ~SimBuffer() override { memory_->Free(); }
  int64_t bytes() const override { return memory_->bytes(); }
  const std::shared_ptr<SimMemory>& memory() const { return memory_; }

 private:
  std::shared_ptr<SimMemory> memory_;
};

// A range of work that is enqueued: it keeps its memory from being unmapped, or freed.
struct SimRange {
  std::shared_ptr<SimMemory> memory;  // from Use; null: no bytes
  int64_t offset = 0;
  int64_t bytes = 0;
};
// kInvalidArgument where it does not lie in the buffer.
StatusOr<SimRange> ToSimRange(const BufferRange& range);

}  // namespace oc::sim

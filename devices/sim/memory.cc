#include "openclaw/devices/sim/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace oc::sim {
namespace {

// That Free waits for work to end.
constexpr std::chrono::seconds kLongestUse{30};

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
// Whole pages for the bytes; at least one.
size_t MappedBytes(int64_t bytes) {
  const size_t page = PageBytes();
  return (static_cast<size_t>(std::max<int64_t>(bytes, 1)) + page - 1) / page * page;
}

}  // namespace

StatusOr<std::shared_ptr<SimMemory>> SimMemory::Create(int64_t bytes,
                                                       std::shared_ptr<std::atomic<int64_t>> used) {
  // One page more, that nobody may touch.
  void* data = mmap(nullptr, MappedBytes(bytes) + PageBytes(), PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return ResourceExhausted("allocate ", bytes, " bytes for a simulated unit: the system refused");
  }
  return std::shared_ptr<SimMemory>(
      new SimMemory(static_cast<std::byte*>(data), bytes, std::move(used)));
}

SimMemory::~SimMemory() { munmap(data_, MappedBytes(bytes_) + PageBytes()); }

StatusOr<std::byte*> SimMemory::Acquire() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (freed_) {
    return FailedPrecondition("a buffer of ", bytes_,
                              " bytes was freed before the work on it had run");
  }
  if (users_ == 0 && mprotect(data_, MappedBytes(bytes_), PROT_READ | PROT_WRITE) != 0) {
    return ResourceExhausted("a buffer of ", bytes_, " bytes: the system refused access");
  }
  ++users_;
  return data_;
}

void SimMemory::Release() {
  std::lock_guard<std::mutex> lock(mutex_);
  OC_CHECK(users_ > 0, "released more often than acquired");
  if (--users_ > 0) return;
  OC_CHECK(mprotect(data_, MappedBytes(bytes_), PROT_NONE) == 0, "take access away");
  idle_.notify_all();
}

void SimMemory::Free() {
  std::unique_lock<std::mutex> lock(mutex_);
  idle_.wait_for(lock, kLongestUse, [&] { return uses_ == 0; });
  freed_ = true;
  idle_.wait(lock, [&] { return users_ == 0; });
  // The addresses stay taken as long as work that is enqueued names them; the pages go now.
  madvise(data_, MappedBytes(bytes_), MADV_DONTNEED);
  used_->fetch_sub(bytes_);
}

std::shared_ptr<SimMemory> SimMemory::Use(std::shared_ptr<SimMemory> memory) {
  SimMemory* const used = memory.get();
  {
    std::lock_guard<std::mutex> lock(used->mutex_);
    ++used->uses_;
  }
  return std::shared_ptr<SimMemory>(used, [keep = std::move(memory)](SimMemory* m) {
    // Notified under the lock: whoever waits may go away afterwards.
    std::lock_guard<std::mutex> lock(m->mutex_);
    --m->uses_;
    m->idle_.notify_all();
  });
}

void SimMemory::Wrote(int64_t end) {
  int64_t highest = high_water_.load();
  while (highest < end && !high_water_.compare_exchange_weak(highest, end)) {
  }
}

StatusOr<SimRange> ToSimRange(const BufferRange& range) {
  if (range.buffer == nullptr || range.bytes == 0) return SimRange{};
  if (range.offset < 0 || range.bytes < 0 || range.bytes > range.buffer->bytes() - range.offset) {
    return InvalidArgument("bytes ", range.offset, " to ", range.offset + range.bytes,
                           " of a buffer of ", range.buffer->bytes());
  }
  return SimRange{SimMemory::Use(static_cast<SimBuffer*>(range.buffer)->memory()), range.offset,
                  range.bytes};
}

}  // namespace oc::sim

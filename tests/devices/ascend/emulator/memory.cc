#include "memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace ascend_emulator {
namespace {

constexpr size_t kPage = 4096;
// Of addresses, none of which is used twice.
constexpr size_t kReserved = size_t{256} << 30;
// Not zero: rt 11-01, aclrtMalloc does not initialise what it gives.
constexpr int kGarbage = 0xA5;

struct Space {
  std::mutex mutex;
  char* begin = nullptr;
  size_t next = 0;
  std::map<const char*, std::shared_ptr<Block>> blocks;
  std::map<int, size_t> used;
  std::map<const char*, size_t> pinned;
};

Space& TheSpace() {
  static Space* space = [] {
    auto* s = new Space;
    void* at =
        mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at != MAP_FAILED) s->begin = static_cast<char*>(at);
    return s;
  }();
  return *space;
}

}  // namespace

int32_t Allocate(int device, size_t bytes, void** address) {
  // rt 11-01, aclrtMalloc: the size is not 0.
  if (address == nullptr || bytes == 0) return Fail(kRtParamInvalid, "aclrtMalloc of 0 bytes");
  Space& s = TheSpace();
  std::lock_guard<std::mutex> lock(s.mutex);
  // rt 11-01, aclrtMalloc: rounded up to 32 bytes, and 32 more. Pages here, and one between blocks.
  const size_t taken = ((bytes + 31) / 32 * 32 + 32 + kPage - 1) / kPage * kPage;
  if (s.begin == nullptr || s.next + taken + kPage > kReserved ||
      s.used[device] + taken > kDeviceBytes) {
    return Fail(kRtMemoryAllocation, "aclrtMalloc: out of memory");
  }
  auto block = std::make_shared<Block>();
  block->device = device;
  block->bytes = bytes;
  block->data = std::make_unique<std::byte[]>(bytes);
  std::memset(block->data.get(), kGarbage, bytes);
  char* at = s.begin + s.next;
  s.next += taken + kPage;
  s.used[device] += taken;
  s.blocks[at] = std::move(block);
  *address = at;
  return kAclSuccess;
}

int32_t Free(void* address) {
  Space& s = TheSpace();
  std::lock_guard<std::mutex> lock(s.mutex);
  // rt 11-01, aclrtFree: a null address is an error, and so is what aclrtMalloc did not give. It
  // waits for nobody: work that still names the memory fails.
  const auto found = s.blocks.find(static_cast<char*>(address));
  if (found == s.blocks.end()) return Fail(kRtParamInvalid, "aclrtFree of an unknown address");
  const size_t bytes = found->second->bytes;
  s.used[found->second->device] -= ((bytes + 31) / 32 * 32 + 32 + kPage - 1) / kPage * kPage;
  s.blocks.erase(found);
  return kAclSuccess;
}

size_t FreeBytes(int device) {
  Space& s = TheSpace();
  std::lock_guard<std::mutex> lock(s.mutex);
  return kDeviceBytes - s.used[device];
}

Piece Find(const void* address, size_t bytes) {
  Space& s = TheSpace();
  std::lock_guard<std::mutex> lock(s.mutex);
  const auto* at = static_cast<const char*>(address);
  auto after = s.blocks.upper_bound(at);
  if (after == s.blocks.begin()) return {};
  --after;
  const auto offset = static_cast<size_t>(at - after->first);
  if (offset > after->second->bytes || bytes > after->second->bytes - offset) return {};
  return {after->second, after->second->data.get() + offset};
}

bool IsDeviceAddress(const void* address) {
  const Space& s = TheSpace();
  const auto* at = static_cast<const char*>(address);
  return s.begin != nullptr && at >= s.begin && at < s.begin + kReserved;
}

int32_t AllocatePinned(size_t bytes, void** address) {
  if (address == nullptr || bytes == 0) return Fail(kRtParamInvalid, "aclrtMallocHost of 0 bytes");
  void* at = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (at == nullptr) return Fail(kRtMemoryAllocation, "aclrtMallocHost: out of memory");
  Space& s = TheSpace();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.pinned[static_cast<char*>(at)] = bytes;
  *address = at;
  return kAclSuccess;
}

int32_t FreePinned(void* address) {
  Space& s = TheSpace();
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    // rt 11-02, aclrtFreeHost: only what aclrtMallocHost gave.
    if (s.pinned.erase(static_cast<char*>(address)) == 0) {
      return Fail(kRtParamInvalid, "aclrtFreeHost of memory that aclrtMallocHost did not give");
    }
  }
  std::free(address);
  return kAclSuccess;
}

bool IsPinned(const void* address, size_t bytes) {
  Space& s = TheSpace();
  std::lock_guard<std::mutex> lock(s.mutex);
  const auto* at = static_cast<const char*>(address);
  auto after = s.pinned.upper_bound(at);
  if (after == s.pinned.begin()) return false;
  --after;
  const auto offset = static_cast<size_t>(at - after->first);
  return offset <= after->second && bytes <= after->second - offset;
}

}  // namespace ascend_emulator

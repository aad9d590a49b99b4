// In the steady state messages and collectives allocate nothing.
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "openclaw/comm/all_gather.h"
#include "openclaw/comm/all_reduce.h"
#include "openclaw/comm/barrier.h"
#include "openclaw/comm/broadcast.h"
#include "openclaw/comm/reduce_scatter.h"
#include "world.h"

namespace {
thread_local bool counting = false;
std::atomic<int64_t> allocations{0};

void* Allocate(size_t size) {
  if (counting) allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace oc {
namespace {

Status Round(Group& group, std::span<std::byte> small, std::span<std::byte> large,
             std::span<std::byte> scratch) {
  OC_RETURN_IF_ERROR(AllReduceInPlace(group, {.bytes = small, .scratch = scratch}));
  OC_RETURN_IF_ERROR(AllReduceInPlace(group, {.bytes = large, .scratch = scratch}));
  OC_RETURN_IF_ERROR(ReduceScatter(group, {.bytes = large, .scratch = scratch}));
  OC_RETURN_IF_ERROR(AllGather(group, {.bytes = large}));
  OC_RETURN_IF_ERROR(Broadcast(group, {.bytes = large}));
  OC_RETURN_IF_ERROR(Barrier(group));
  Transport& t = group.transport();
  if (t.rank() == 0) return t.Send(1, 5, large, 10);
  if (t.rank() == 1) return t.Recv(0, 5, large, 10);
  return OkStatus();
}

TEST(NoAllocation, CountsAllocations) {
  counting = true;
  std::vector<int> probe(3);
  counting = false;
  EXPECT_GT(allocations.exchange(0), 0);
}

TEST(NoAllocation, SteadyState) {
  for (const int n : {2, 3}) {
    allocations = 0;
    World().Run(n, [n](Transport& t) {
      std::vector<int> members;
      for (int i = 0; i < n; ++i) members.push_back(i);
      Group group(t, members, {.id = 1});
      std::vector<std::byte> small(400), large(3 << 20);
      std::vector<std::byte> scratch(AllReduceScratchBytes(n, large.size(), DType::kF32));
      EXPECT_OK(Round(group, small, large, scratch));  // the group agrees, tags become known
      counting = true;
      Status status;
      for (int i = 0; i < 5 && status.ok(); ++i) status = Round(group, small, large, scratch);
      counting = false;
      EXPECT_OK(status);
    });
    EXPECT_EQ(allocations.load(), 0) << n << " ranks";
  }
}

}  // namespace
}  // namespace oc

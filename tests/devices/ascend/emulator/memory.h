// Memory of the emulated devices. An address names bytes that lie elsewhere: nobody reads or writes
// them but tasks of streams, copies and aclrtMemset.
#pragma once

#include <cstddef>
#include <memory>

#include "machine.h"

namespace ascend_emulator {

// What aclrtMalloc gave; a task that runs on it keeps it from vanishing.
struct Block {
  int device = 0;
  size_t bytes = 0;
  std::unique_ptr<std::byte[]> data;
};

// Bytes of device memory as a task sees them.
struct Piece {
  std::shared_ptr<Block> block;  // null: not device memory, or beyond what was allocated
  std::byte* data = nullptr;
};

constexpr size_t kDeviceBytes = size_t{2} << 30;

int32_t Allocate(int device, size_t bytes, void** address);
int32_t Free(void* address);
size_t FreeBytes(int device);
Piece Find(const void* address, size_t bytes);
// Whether it lies in any device's range, allocated or not.
bool IsDeviceAddress(const void* address);

int32_t AllocatePinned(size_t bytes, void** address);
int32_t FreePinned(void* address);
bool IsPinned(const void* address, size_t bytes);

}  // namespace ascend_emulator

// CRC-32C (Castagnoli), as checkpoints and TensorBoard's files use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace oc {

// Of the bytes, going on from `crc`, the value of what came before (0 at the start).
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace oc

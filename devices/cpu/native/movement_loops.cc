#include "openclaw/devices/cpu/native/movement_loops.h"

#include "openclaw/devices/cpu/native/transpose8.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

template <typename T>
void Transpose(const void* x_bytes, void* y_bytes, int64_t rows, int64_t columns, int64_t xs,
               int64_t ys) {
  const T* x = static_cast<const T*>(x_bytes);
  T* y = static_cast<T*>(y_bytes);
  int64_t r = 0;
  // Tiles of whole cache lines: rows may lie a power of two apart, and then share a few sets of the
  // cache.
  for (; r + 16 <= rows; r += 16) {
    int64_t c = 0;
    for (; c + 16 <= columns; c += 16) {
      const T* from = x + r * xs + c;
      T* to = y + c * ys + r;
      Block8(from, to, xs, ys);
      Block8(from + 8 * xs, to + 8, xs, ys);
      Block8(from + 8, to + 8 * ys, xs, ys);
      Block8(from + 8 * xs + 8, to + 8 * ys + 8, xs, ys);
    }
    for (; c + 8 <= columns; c += 8) {
      Block8(x + r * xs + c, y + c * ys + r, xs, ys);
      Block8(x + (r + 8) * xs + c, y + c * ys + r + 8, xs, ys);
    }
    for (; c < columns; ++c) {
      for (int64_t i = r; i < r + 16; ++i) y[c * ys + i] = x[i * xs + c];
    }
  }
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) y[c * ys + r] = x[r * xs + c];
  }
}

template <typename T>
void Fill(const void* x, void* y_bytes, int64_t n) {
  const T value = *static_cast<const T*>(x);
  T* y = static_cast<T*>(y_bytes);
  for (int64_t i = 0; i < n; ++i) y[i] = value;
}

}  // namespace

const MovementLoops kMovementLoops = {
    .transpose = {Transpose<uint8_t>, Transpose<uint16_t>, Transpose<uint32_t>,
                  Transpose<uint64_t>},
    .fill = {Fill<uint8_t>, Fill<uint16_t>, Fill<uint32_t>, Fill<uint64_t>},
};

}  // namespace oc::cpu::OC_CPU_ISA

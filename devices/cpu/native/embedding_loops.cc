#include "openclaw/devices/cpu/native/embedding_loops.h"

#include "openclaw/devices/cpu/native/isa.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

template <int kVectors, typename T, typename S, typename P>
OC_INLINE void GradPiece(const T* dy, int32_t first, const int32_t* next, S* row, int64_t n,
                         bool accumulate, P part) {
  vf sum[kVectors] = {};
  for (int32_t t = first; t >= 0; t = next[t]) {
    const T* from = dy + t * n;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[v] += Load(from + v * kLanes, part);
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    if (accumulate) sum[v] = Load(row + v * kLanes, part) + sum[v];
    Store(row + v * kLanes, sum[v], part);
  }
}

// Most rows of a large table get nothing, and it is not read again soon: past the caches.
OC_INLINE void StreamZeros(void* to, uint64_t bytes) {
  char* p = static_cast<char*>(to);
  if ((reinterpret_cast<uint64_t>(p) | bytes) % 32 != 0) {
    __builtin_memset(p, 0, bytes);
    return;
  }
  for (uint64_t i = 0; i < bytes; i += 32) {
    _mm256_stream_ps(reinterpret_cast<float*>(p + i), _mm256_setzero_ps());
  }
}

template <typename T, typename S = T>
void Grad(const void* dy_bytes, const int32_t* head, const int32_t* next, void* table_bytes,
          int64_t vocabulary, int64_t n, int64_t begin, int64_t end, bool accumulate) {
  const T* dy = static_cast<const T*>(dy_bytes) + begin;
  S* row = static_cast<S*>(table_bytes) + begin;
  const int64_t count = end - begin;
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(S);
  const bool streamed = static_cast<uint64_t>(vocabulary) * bytes > (1u << 24);
  for (int64_t id = 0; id < vocabulary; ++id, row += n) {
    const int32_t first = head[id];
    if (first < 0) {
      if (accumulate) continue;
      if (streamed) {
        StreamZeros(row, bytes);
      } else {
        __builtin_memset(row, 0, bytes);
      }
      continue;
    }
    int64_t c = 0;
    for (; c + 4 * kLanes <= count; c += 4 * kLanes) {
      GradPiece<4>(dy + c, first, next, row + c, n, accumulate, Full{});
    }
    ForVectors(count - c, [&](int64_t j, auto part) OC_LAMBDA {
      GradPiece<1>(dy + c + j, first, next, row + c + j, n, accumulate, part);
    });
  }
  if (streamed) _mm_sfence();
}

template <typename T>
void Rope(const void* x_bytes, void* y_bytes, const float* cosine, const float* sine, int64_t heads,
          int64_t half, bool inverse) {
  const T* x = static_cast<const T*>(x_bytes);
  T* y = static_cast<T*>(y_bytes);
  const float sign = inverse ? -1.0f : 1.0f;
  for (int64_t h = 0; h < heads; ++h, x += 2 * half, y += 2 * half) {
    ForVectors(half, [&](int64_t i, auto part) OC_LAMBDA {
      const vf c = Load(cosine + i, part), s = Load(sine + i, part) * sign;
      const vf a = Load(x + i, part), b = Load(x + half + i, part);
      Store(y + i, a * c - b * s, part);
      Store(y + half + i, b * c + a * s, part);
    });
  }
}

}  // namespace

const EmbeddingLoops kEmbeddingLoops = {
    .grad = {Grad<float>, Grad<bf16>, Grad<f16>},
    .grad_f32 = {Grad<float>, Grad<bf16, float>, Grad<f16, float>},
    .rope = {Rope<float>, Rope<bf16>, Rope<f16>},
};

}  // namespace oc::cpu::OC_CPU_ISA

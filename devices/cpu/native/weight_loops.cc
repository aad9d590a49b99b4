#include "openclaw/devices/cpu/native/weight_loops.h"

#include "openclaw/devices/cpu/native/nine_taps.h"
#include "openclaw/devices/cpu/native/transpose16.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

constexpr int64_t kBlock = 16;

// Block by block, so that what is written lies together: row by row took twice as long.
void BlockFloats(const void* weights, void* blocks, int64_t in, int64_t taps, int64_t begin,
                 int64_t end) {
  float* to = static_cast<float*>(blocks) + begin * kBlock * in * taps;
  for (int64_t ob = begin; ob < end; ++ob) {
    for (int64_t ib = 0; ib < in / kBlock; ++ib, to += taps * kBlock * kBlock) {
      for (int64_t o = 0; o < kBlock; ++o) {
        const float* from =
            static_cast<const float*>(weights) + ((ob * kBlock + o) * in + ib * kBlock) * taps;
        float* line = to + o * kBlock;
        if (taps != kNine) {
          for (int64_t tap = 0; tap < taps; ++tap, line += kBlock * kBlock) {
            for (int64_t i = 0; i < kBlock; ++i) line[i] = from[i * taps + tap];
          }
          continue;
        }
        for (int64_t i = 0; i < kBlock; i += kLanes) {
          vf v[kNine];
          LoadNine(from + i * kNine, v);
#pragma GCC unroll 9
          for (int t = 0; t < kNine; ++t) Store(line + t * kBlock * kBlock + i, v[t]);
        }
      }
    }
  }
}

// A number of one output channel and the next one's, as they lie in a block.
OC_INLINE vf LoadPairs(const bf16* even, const bf16* odd) {
  vh a, b;
  __builtin_memcpy(&a, even, sizeof(a));
  __builtin_memcpy(&b, odd, sizeof(b));
  return Bits(__builtin_convertvector(a, vu) | __builtin_convertvector(b, vu) << 16);
}

void BlockHalves(const void* weights, void* blocks, int64_t in, int64_t taps, int64_t begin,
                 int64_t end) {
  bf16* to = static_cast<bf16*>(blocks) + begin * kBlock * in * taps;
  for (int64_t ob = begin; ob < end; ++ob) {
    for (int64_t ib = 0; ib < in / kBlock; ++ib, to += taps * kBlock * kBlock) {
      for (int64_t o = 0; o < kBlock; o += 2) {
        const bf16* even =
            static_cast<const bf16*>(weights) + ((ob * kBlock + o) * in + ib * kBlock) * taps;
        const bf16* odd = even + in * taps;
        bf16* line = to + o * kBlock;
        if (taps != kNine) {
          for (int64_t tap = 0; tap < taps; ++tap, line += kBlock * kBlock) {
            for (int64_t i = 0; i < kBlock; ++i) {
              line[2 * i] = even[i * taps + tap];
              line[2 * i + 1] = odd[i * taps + tap];
            }
          }
          continue;
        }
        for (int64_t i = 0; i < kBlock; i += kLanes) {
          vf x[kNine], v[kNine];
#pragma GCC unroll 9
          for (int q = 0; q < kNine; ++q) {
            const int64_t at = i * kNine + q * kLanes;
            x[q] = LoadPairs(even + at, odd + at);
          }
          Deinterleave<kNine>(x, v);
#pragma GCC unroll 9
          for (int t = 0; t < kNine; ++t) {
            __builtin_memcpy(line + t * kBlock * kBlock + 2 * i, &v[t], sizeof(vf));
          }
        }
      }
    }
  }
}

// Per tap, a square of kBlock outputs and inputs: rows of outputs, of the words that hold inputs.
template <typename T>
struct Square {
  static constexpr int64_t kWords = kBlock * static_cast<int64_t>(sizeof(T)) / 4;  // a row
  alignas(64) uint32_t words[kNine][kBlock * kWords];
};

// rows[w][o] of `width` words, from the words w of outputs o.
OC_INLINE void Transpose(const Square<float>& square, int64_t tap, uint32_t* rows, int64_t width) {
  Block16(square.words[tap], rows, kBlock, width);
}
OC_INLINE void Transpose(const Square<bf16>& square, int64_t tap, uint32_t* rows, int64_t width) {
  for (int64_t o = 0; o < kBlock; o += 8) {
    Block8(square.words[tap] + o * square.kWords, rows + o, square.kWords, width);
  }
}

template <typename T>
OC_INLINE void LoadSquare(const T* weights, int64_t in, Square<T>& square) {
  for (int64_t o = 0; o < kBlock; ++o, weights += in * kNine) {
    for (int64_t i = 0; i < kBlock; i += kLanes) {
      vf v[kNine];
      LoadNine(weights + i * kNine, v);
#pragma GCC unroll 9
      for (int t = 0; t < kNine; ++t) {
        Store(reinterpret_cast<T*>(square.words[t]) + o * kBlock + i, v[t]);
      }
    }
  }
}

template <typename T>
void Columns(const void* weights_bytes, void* columns_bytes, int64_t in, int64_t taps,
             int64_t width, int64_t begin, int64_t end) {
  constexpr int64_t kWord = 4 / static_cast<int64_t>(sizeof(T));  // inputs
  const T* weights = static_cast<const T*>(weights_bytes) + begin * kBlock * in * taps;
  for (int64_t o = begin * kBlock; o < end * kBlock; o += kBlock, weights += kBlock * in * taps) {
    T* const to = static_cast<T*>(columns_bytes) + o / width * width * in * taps;
    const int64_t column = o % width;
    if (taps == kNine) {
      for (int64_t i = 0; i < in; i += kBlock) {
        Square<T> square;
        LoadSquare(weights + i * kNine, in, square);
        for (int64_t t = 0; t < kNine; ++t) {
          T* const rows = to + ((t * in + i) / kWord * width + column) * kWord;
          Transpose(square, t, reinterpret_cast<uint32_t*>(rows), width);
        }
      }
      continue;
    }
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t i = 0; i < in; ++i) {
        T* const row = to + ((t * in + i) / kWord * width + column) * kWord + i % kWord;
        for (int64_t j = 0; j < kBlock; ++j) row[j * kWord] = weights[(j * in + i) * taps + t];
      }
    }
  }
}

// squares[tap] = the sum of the blocks at the same place in all partial sums, inputs along a row.
OC_INLINE void SumBlock(const PartialSums& partial, int64_t at, int64_t taps,
                        float (*square)[kBlock * kBlock]) {
  alignas(64) float sum[kBlock * kBlock];
  for (int64_t t = 0; t < taps; ++t) {
    const float* const first = partial.first + at + t * kBlock * kBlock;
    for (int64_t i = 0; i < kBlock * kBlock; i += kLanes) {
      vf x = Load(first + i);
      for (int64_t p = 1; p < partial.count; ++p) x += Load(first + p * partial.stride + i);
      Store(sum + i, x);
    }
    Block16(reinterpret_cast<const uint32_t*>(sum), reinterpret_cast<uint32_t*>(square[t]), kBlock,
            kBlock);
  }
}

template <typename T>
OC_INLINE void AddOrSet(T* to, vf x, bool accumulate) {
  Store(to, accumulate ? x + Load(to) : x);
}

constexpr int64_t kMostTaps = 9;

template <typename T>
void Collect(const PartialSums& partial, void* weights_bytes, int64_t in, int64_t taps,
             int64_t begin, int64_t end, bool accumulate) {
  alignas(64) float square[kMostTaps][kBlock * kBlock];
  for (int64_t o = begin; o < end; ++o) {
    for (int64_t i = 0; i < in; i += kBlock) {
      const int64_t at = (o * in + i) * kBlock * taps;
      SumBlock(partial, at, taps, square);
      for (int64_t row = 0; row < kBlock; ++row) {
        T* const to = static_cast<T*>(weights_bytes) + ((o * kBlock + row) * in + i) * taps;
        for (int64_t j = 0; j < kBlock; j += kLanes) {
          const int64_t from = row * kBlock + j;
          if (taps == 1) {
            AddOrSet(to + j, Load(square[0] + from), accumulate);
            continue;
          }
          vf v[kNine], x[kNine];
#pragma GCC unroll 9
          for (int t = 0; t < kNine; ++t) v[t] = Load(square[t] + from);
          Interleave<kNine>(v, x);
#pragma GCC unroll 9
          for (int q = 0; q < kNine; ++q) {
            AddOrSet(to + j * kNine + q * kLanes, x[q], accumulate);
          }
        }
      }
    }
  }
}

}  // namespace

const WeightLoops kWeightLoops = {
    {BlockFloats, BlockHalves}, {Columns<float>, Columns<bf16>}, {Collect<float>, Collect<bf16>}};

}  // namespace oc::cpu::OC_CPU_ISA

#include "openclaw/devices/cpu/native/patch_loops.h"

#include "openclaw/devices/cpu/native/isa.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

template <typename T>
void Gather(const PatchSizes& s, const void* x_bytes, void* rows_bytes, int64_t begin,
            int64_t end) {
  const T* x = static_cast<const T*>(x_bytes);
  T* row = static_cast<T*>(rows_bytes) + begin * s.h.kernel * s.w.kernel * s.channels;
  const size_t bytes = static_cast<size_t>(s.channels) * sizeof(T);
  for (int64_t p = begin; p < end; ++p) {
    const int64_t ow = p % s.w.output, oh = p / s.w.output % s.h.output;
    const T* image = x + p / (s.w.output * s.h.output) * s.h.input * s.w.input * s.channels;
    for (int64_t kh = 0; kh < s.h.kernel; ++kh) {
      const int64_t h = oh * s.h.stride - s.h.before + kh * s.h.dilation;
      for (int64_t kw = 0; kw < s.w.kernel; ++kw, row += s.channels) {
        const int64_t w = ow * s.w.stride - s.w.before + kw * s.w.dilation;
        if (h < 0 || h >= s.h.input || w < 0 || w >= s.w.input) {
          __builtin_memset(row, 0, bytes);
        } else {
          __builtin_memcpy(row, image + (h * s.w.input + w) * s.channels, bytes);
        }
      }
    }
  }
}

// kTaps: the number of taps, where it is known; 0: any.
template <typename T, int kTaps>
void PackTaps(const T* weights, T* rows, int64_t in, int64_t any_taps, int64_t begin, int64_t end) {
  const int64_t taps = kTaps > 0 ? kTaps : any_taps;
  for (int64_t o = begin; o < end; ++o) {
    const T* from = weights + o * in * taps;
    T* to = rows + o * in * taps;
    for (int64_t tap = 0; tap < taps; ++tap, to += in) {
      for (int64_t i = 0; i < in; ++i) to[i] = from[i * taps + tap];
    }
  }
}

template <typename T>
void Pack(const void* weights, void* rows, int64_t in, int64_t taps, int64_t begin, int64_t end) {
  const auto loop = taps == 9 ? PackTaps<T, 9> : PackTaps<T, 0>;
  loop(static_cast<const T*>(weights), static_cast<T*>(rows), in, taps, begin, end);
}

template <typename T, int kTaps, bool kAccumulate>
void UnpackTaps(const T* rows, T* weights, int64_t in, int64_t any_taps, int64_t begin,
                int64_t end) {
  const int64_t taps = kTaps > 0 ? kTaps : any_taps;
  for (int64_t o = begin; o < end; ++o) {
    const T* from = rows + o * in * taps;
    T* to = weights + o * in * taps;
    for (int64_t i = 0; i < in; ++i, to += taps) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        if constexpr (kAccumulate) {
          StoreScalar(to + tap, LoadScalar(to + tap) + LoadScalar(from + tap * in + i));
        } else {
          to[tap] = from[tap * in + i];
        }
      }
    }
  }
}

template <typename T>
void Unpack(const void* rows, void* weights, int64_t in, int64_t taps, int64_t begin, int64_t end,
            bool accumulate) {
  const auto known = accumulate ? UnpackTaps<T, 9, true> : UnpackTaps<T, 9, false>;
  const auto any = accumulate ? UnpackTaps<T, 0, true> : UnpackTaps<T, 0, false>;
  (taps == 9 ? known : any)(static_cast<const T*>(rows), static_cast<T*>(weights), in, taps, begin,
                            end);
}

template <int kTaps>
void BlockTaps(const float* weights, float* blocks, int64_t in, int64_t any_taps, int64_t begin,
               int64_t end) {
  constexpr int64_t kBlock = 16;
  const int64_t taps = kTaps > 0 ? kTaps : any_taps;
  for (int64_t ob = begin; ob < end; ++ob) {
    for (int64_t o = 0; o < kBlock; ++o) {
      const float* from = weights + (ob * kBlock + o) * in * taps;
      float* to = blocks + (ob * in * taps + o) * kBlock;
      for (int64_t ib = 0; ib < in / kBlock; ++ib) {
        for (int64_t tap = 0; tap < taps; ++tap, to += kBlock * kBlock) {
          for (int64_t i = 0; i < kBlock; ++i) to[i] = from[i * taps + tap];
        }
        from += kBlock * taps;
      }
    }
  }
}

void Block(const float* weights, float* blocks, int64_t in, int64_t taps, int64_t begin,
           int64_t end) {
  (taps == 9 ? BlockTaps<9> : BlockTaps<0>)(weights, blocks, in, taps, begin, end);
}

}  // namespace

const PatchLoops kPatchLoops = {{Gather<float>, Gather<bf16>, Gather<f16>},
                                {Pack<float>, Pack<bf16>, Pack<f16>},
                                {Unpack<float>, Unpack<bf16>, Unpack<f16>},
                                Block};

}  // namespace oc::cpu::OC_CPU_ISA

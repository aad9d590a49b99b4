#include "openclaw/devices/cpu/native/patch_loops.h"

#include "openclaw/devices/cpu/native/nine_taps.h"

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

template <typename T>
void Pack(const void* weights, void* rows, int64_t in, int64_t taps, int64_t begin, int64_t end) {
  for (int64_t o = begin; o < end; ++o) {
    const T* from = static_cast<const T*>(weights) + o * in * taps;
    T* to = static_cast<T*>(rows) + o * in * taps;
    int64_t done = 0;
    for (; taps == kNine && done + kLanes <= in; done += kLanes) {
      vf v[kNine];
      LoadNine(from + done * kNine, v);
#pragma GCC unroll 9
      for (int t = 0; t < kNine; ++t) Store(to + t * in + done, v[t]);
    }
    for (int64_t tap = 0; tap < taps; ++tap, to += in) {
      for (int64_t i = done; i < in; ++i) to[i] = from[i * taps + tap];
    }
  }
}

template <typename T, bool kAccumulate>
void UnpackTo(const T* rows, T* weights, int64_t in, int64_t weights_in, int64_t taps,
              int64_t begin, int64_t end) {
  for (int64_t o = begin; o < end; ++o) {
    const T* from = rows + o * in * taps;
    T* to = weights + o * weights_in * taps;
    int64_t done = 0;
    for (; taps == kNine && done + kLanes <= in; done += kLanes) {
      vf v[kNine], x[kNine];
#pragma GCC unroll 9
      for (int t = 0; t < kNine; ++t) v[t] = Load(from + t * in + done);
      Interleave<kNine>(v, x);
      T* const part = to + done * kNine;
#pragma GCC unroll 9
      for (int q = 0; q < kNine; ++q) {
        if constexpr (kAccumulate) x[q] += Load(part + q * kLanes);
        Store(part + q * kLanes, x[q]);
      }
    }
    for (int64_t i = done; i < in; ++i) {
      for (int64_t tap = 0; tap < taps; ++tap) {
        T* const one = to + i * taps + tap;
        if constexpr (kAccumulate) {
          StoreScalar(one, LoadScalar(one) + LoadScalar(from + tap * in + i));
        } else {
          *one = from[tap * in + i];
        }
      }
    }
  }
}

template <typename T>
void Unpack(const void* rows, void* weights, int64_t in, int64_t weights_in, int64_t taps,
            int64_t begin, int64_t end, bool accumulate) {
  const auto unpack = accumulate ? UnpackTo<T, true> : UnpackTo<T, false>;
  unpack(static_cast<const T*>(rows), static_cast<T*>(weights), in, weights_in, taps, begin, end);
}

// What one output pixel gives to the taps' pixels, which begin at targets[tap]; null: outside.
void FoldPixel(const float* product, float* const* targets, int64_t channels, int64_t taps) {
  int64_t done = 0;
  for (; taps == kNine && done + kLanes <= channels; done += kLanes) {
    vf v[kNine];
    LoadNine(product + done * kNine, v);
#pragma GCC unroll 9
    for (int t = 0; t < kNine; ++t) {
      if (targets[t] != nullptr) Store(targets[t] + done, Load(targets[t] + done) + v[t]);
    }
  }
  for (int64_t tap = 0; tap < taps; ++tap) {
    if (targets[tap] == nullptr) continue;
    for (int64_t i = done; i < channels; ++i) targets[tap][i] += product[i * taps + tap];
  }
}

constexpr int64_t kMostTaps = 64;

template <typename T>
void Fold(const PatchSizes& s, const float* product, int64_t row, float* sums, void* image_bytes,
          int64_t pixel) {
  const int64_t pixels = s.h.input * s.w.input, taps = s.h.kernel * s.w.kernel;
  __builtin_memset(sums, 0, static_cast<size_t>(pixels * s.channels) * sizeof(float));
  for (int64_t oh = 0; oh < s.h.output; ++oh) {
    for (int64_t ow = 0; ow < s.w.output; ++ow, product += row) {
      float* targets[kMostTaps];
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t h = oh * s.h.stride - s.h.before + tap / s.w.kernel * s.h.dilation;
        const int64_t w = ow * s.w.stride - s.w.before + tap % s.w.kernel * s.w.dilation;
        const bool inside = h >= 0 && h < s.h.input && w >= 0 && w < s.w.input;
        targets[tap] = inside ? sums + (h * s.w.input + w) * s.channels : nullptr;
      }
      FoldPixel(product, targets, s.channels, taps);
    }
  }
  T* image = static_cast<T*>(image_bytes);
  for (int64_t p = 0; p < pixels; ++p) {
    const float* from = sums + p * s.channels;
    ForVectors(s.channels, [&](int64_t i, auto part) OC_LAMBDA {
      Store(image + p * pixel + i, Load(from + i, part), part);
    });
  }
}

}  // namespace

const PatchLoops kPatchLoops = {{Gather<float>, Gather<bf16>},
                                {Pack<float>, Pack<bf16>},
                                {Unpack<float>, Unpack<bf16>},
                                {Fold<float>, Fold<bf16>}};

}  // namespace oc::cpu::OC_CPU_ISA

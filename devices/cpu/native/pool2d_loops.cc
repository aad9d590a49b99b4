#include "openclaw/devices/cpu/native/pool2d_loops.h"

#include "openclaw/devices/cpu/native/isa.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

typedef uint8_t vb __attribute__((vector_size(kLanes)));

OC_INLINE vi LoadIndex(const uint8_t* p, Full) {
  vb b;
  __builtin_memcpy(&b, p, sizeof(b));
  return __builtin_convertvector(b, vi);
}
OC_INLINE vi LoadIndex(const uint8_t* p, Part part) {
  vb b = {};
  for (int i = 0; i < part.n; ++i) b[i] = p[i];
  return __builtin_convertvector(b, vi);
}
OC_INLINE void StoreIndex(uint8_t* p, vi index, Full) {
  const vb b = __builtin_convertvector(index, vb);
  __builtin_memcpy(p, &b, sizeof(b));
}
OC_INLINE void StoreIndex(uint8_t* p, vi index, Part part) {
  const vb b = __builtin_convertvector(index, vb);
  for (int i = 0; i < part.n; ++i) p[i] = b[i];
}

struct Range {
  int64_t begin, end;
};
// Positions of window o that lie within the image.
OC_INLINE Range Positions(const PoolAxis& a, int64_t o) {
  const int64_t start = o * a.stride - a.before;
  const int64_t end = a.input - start;
  return {start < 0 ? -start : 0, end < a.kernel ? end : a.kernel};
}
// Windows that read input position i.
OC_INLINE Range Windows(const PoolAxis& a, int64_t i) {
  const int64_t reach = i + a.before;
  const int64_t first = reach < a.kernel ? 0 : (reach - a.kernel) / a.stride + 1;
  const int64_t end = reach / a.stride + 1;
  return {first, end < a.output ? end : a.output};
}

OC_INLINE float Divisor(const PoolSizes& s, int64_t oh, int64_t ow) {
  if (s.count_padding) return static_cast<float>(s.h.kernel * s.w.kernel);
  const Range h = Positions(s.h, oh), w = Positions(s.w, ow);
  return static_cast<float>((h.end - h.begin) * (w.end - w.begin));
}

// One output pixel of all channels; `base` is where its window begins, which may lie outside of the
// image.
template <typename T>
OC_INLINE void MaxPixel(const PoolSizes& s, const T* base, Range h, Range w, T* y, uint8_t* index) {
  const int64_t row = s.w.input * s.channels;
  ForVectors(s.channels, [&](int64_t c, auto part) OC_LAMBDA {
    vf best = Load(base + h.begin * row + w.begin * s.channels + c, part);
    vi where = vi{} + static_cast<int32_t>(h.begin * s.w.kernel + w.begin);
    for (int64_t kh = h.begin; kh < h.end; ++kh) {
      for (int64_t kw = w.begin; kw < w.end; ++kw) {
        const vf v = Load(base + kh * row + kw * s.channels + c, part);
        const vi better = ~(v <= best) & (best == best);
        best = better ? v : best;
        where = better ? vi{} + static_cast<int32_t>(kh * s.w.kernel + kw) : where;
      }
    }
    Store(y + c, best, part);
    StoreIndex(index + c, where, part);
  });
}

template <typename T>
void MaxRows(const PoolSizes& s, const void* x_bytes, void* y_bytes, uint8_t* index, int64_t begin,
             int64_t end) {
  const T* x = static_cast<const T*>(x_bytes);
  T* y = static_cast<T*>(y_bytes);
  for (int64_t row = begin; row < end; ++row) {
    const int64_t image = row / s.h.output, oh = row % s.h.output;
    const Range h = Positions(s.h, oh);
    for (int64_t ow = 0; ow < s.w.output; ++ow) {
      const int64_t pixel = (image * s.h.input + oh * s.h.stride - s.h.before) * s.w.input +
                            ow * s.w.stride - s.w.before;
      const int64_t out = (row * s.w.output + ow) * s.channels;
      MaxPixel(s, x + pixel * s.channels, h, Positions(s.w, ow), y + out, index + out);
    }
  }
}

template <typename T>
void AvgRows(const PoolSizes& s, const void* x_bytes, void* y_bytes, int64_t begin, int64_t end) {
  const T* x = static_cast<const T*>(x_bytes);
  T* y = static_cast<T*>(y_bytes);
  const int64_t input_row = s.w.input * s.channels;
  for (int64_t row = begin; row < end; ++row) {
    const int64_t image = row / s.h.output, oh = row % s.h.output;
    const Range h = Positions(s.h, oh);
    for (int64_t ow = 0; ow < s.w.output; ++ow) {
      const Range w = Positions(s.w, ow);
      const int64_t pixel = (image * s.h.input + oh * s.h.stride - s.h.before) * s.w.input +
                            ow * s.w.stride - s.w.before;
      const T* base = x + pixel * s.channels;
      T* out = y + (row * s.w.output + ow) * s.channels;
      const vf divisor = Set(Divisor(s, oh, ow));
      ForVectors(s.channels, [&](int64_t c, auto part) OC_LAMBDA {
        vf sum = {};
        for (int64_t kh = h.begin; kh < h.end; ++kh) {
          for (int64_t kw = w.begin; kw < w.end; ++kw) {
            sum += Load(base + kh * input_row + kw * s.channels + c, part);
          }
        }
        Store(out + c, sum / divisor, part);
      });
    }
  }
}

// Every dx of the rows: the sum over the windows that read it of term(output pixel's offset, oh,
// ow, position, c, part).
template <typename T, typename Term>
OC_INLINE void SumOverWindows(const PoolSizes& s, T* dx, int64_t begin, int64_t end,
                              const Term& term) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t image = row / s.h.input, i = row % s.h.input;
    const Range h = Windows(s.h, i);
    for (int64_t j = 0; j < s.w.input; ++j) {
      const Range w = Windows(s.w, j);
      T* out = dx + (row * s.w.input + j) * s.channels;
      ForVectors(s.channels, [&](int64_t c, auto part) OC_LAMBDA {
        vf sum = {};
        for (int64_t oh = h.begin; oh < h.end; ++oh) {
          const int64_t kh = i + s.h.before - oh * s.h.stride;
          for (int64_t ow = w.begin; ow < w.end; ++ow) {
            const int64_t kw = j + s.w.before - ow * s.w.stride;
            const int64_t pixel = (image * s.h.output + oh) * s.w.output + ow;
            sum += term(pixel * s.channels + c, oh, ow, kh * s.w.kernel + kw, part);
          }
        }
        Store(out + c, sum, part);
      });
    }
  }
}

template <typename T>
void MaxGradRows(const PoolSizes& s, const void* dy_bytes, const uint8_t* index, void* dx,
                 int64_t begin, int64_t end) {
  const T* dy = static_cast<const T*>(dy_bytes);
  SumOverWindows(s, static_cast<T*>(dx), begin, end,
                 [&](int64_t at, int64_t, int64_t, int64_t position, auto part) OC_LAMBDA {
                   const vi taken = LoadIndex(index + at, part) == static_cast<int32_t>(position);
                   return taken ? Load(dy + at, part) : vf{};
                 });
}

template <typename T>
void AvgGradRows(const PoolSizes& s, const void* dy_bytes, void* dx, int64_t begin, int64_t end) {
  const T* dy = static_cast<const T*>(dy_bytes);
  SumOverWindows(s, static_cast<T*>(dx), begin, end,
                 [&](int64_t at, int64_t oh, int64_t ow, int64_t, auto part)
                     OC_LAMBDA { return Load(dy + at, part) / Set(Divisor(s, oh, ow)); });
}

}  // namespace

const Pool2dLoops kPool2dLoops = {{MaxRows<float>, MaxRows<bf16>, MaxRows<f16>},
                                  {AvgRows<float>, AvgRows<bf16>, AvgRows<f16>},
                                  {MaxGradRows<float>, MaxGradRows<bf16>, MaxGradRows<f16>},
                                  {AvgGradRows<float>, AvgGradRows<bf16>, AvgGradRows<f16>}};

}  // namespace oc::cpu::OC_CPU_ISA

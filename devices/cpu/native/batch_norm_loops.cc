#include "openclaw/devices/cpu/native/batch_norm_loops.h"

#include "openclaw/devices/cpu/native/isa.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

// Rows that are read twice while they are in the first cache, and as many f32 additions before the
// sums are carried on in f64.
int64_t BlockRows(int64_t channels) {
  const int64_t rows = 6144 / (channels < 1 ? 1 : channels);
  return rows < 16 ? 16 : rows > 128 ? 128 : rows;
}

OC_INLINE int Count(Full) { return kLanes; }
OC_INLINE int Count(Part part) { return part.n; }

// Combines the moments of two sets (Chan, Golub and LeVeque, 1979).
template <typename P>
OC_INLINE void MergeMoments(double* mean, double* squares, double rows, vf block_mean,
                            vf block_squares, double block_rows, P part) {
  float m[kLanes], q[kLanes];
  Store(m, block_mean);
  Store(q, block_squares);
  const double share = block_rows / (rows + block_rows);
  for (int i = 0; i < Count(part); ++i) {
    const double delta = m[i] - mean[i];
    mean[i] += delta * share;
    squares[i] += q[i] + delta * delta * rows * share;
  }
}

template <typename P>
OC_INLINE void AddTo(double* sum, vf block, P part) {
  float s[kLanes];
  Store(s, block);
  for (int i = 0; i < Count(part); ++i) sum[i] += s[i];
}

template <typename T>
void Moments(const void* x_bytes, int64_t rows, int64_t channels, double* mean, double* squares) {
  const T* x = static_cast<const T*>(x_bytes);
  for (int64_t c = 0; c < channels; ++c) mean[c] = squares[c] = 0;
  const int64_t block = BlockRows(channels);
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t n = rows - first < block ? rows - first : block;
    const T* base = x + first * channels;
    ForVectors(channels, [&](int64_t c, auto part) OC_LAMBDA {
      vf s0 = {}, s1 = {};
      int64_t r = 0;
      for (; r + 2 <= n; r += 2) {
        s0 += Load(base + r * channels + c, part);
        s1 += Load(base + (r + 1) * channels + c, part);
      }
      if (r < n) s0 += Load(base + r * channels + c, part);
      const vf m = (s0 + s1) / Set(static_cast<float>(n));
      s0 = s1 = vf{};
      for (r = 0; r + 2 <= n; r += 2) {
        const vf d0 = Load(base + r * channels + c, part) - m;
        const vf d1 = Load(base + (r + 1) * channels + c, part) - m;
        s0 += d0 * d0;
        s1 += d1 * d1;
      }
      if (r < n) {
        const vf d = Load(base + r * channels + c, part) - m;
        s0 += d * d;
      }
      MergeMoments(mean + c, squares + c, static_cast<double>(first), m, s0 + s1,
                   static_cast<double>(n), part);
    });
  }
}

template <typename T, bool kRelu>
void NormaliseRows(const T* x, T* y, int64_t rows, int64_t channels, const BatchNormChannels& c) {
  for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
    ForVectors(channels, [&](int64_t i, auto part) OC_LAMBDA {
      vf v = (Load(x + i, part) - Load(c.mean + i, part)) * Load(c.scale + i, part) +
             Load(c.beta + i, part);
      if constexpr (kRelu) v = v < 0.0f ? vf{} : v;
      Store(y + i, v, part);
    });
  }
}

template <typename T>
void Normalise(const void* x, void* y, int64_t rows, int64_t channels, const BatchNormChannels& c,
               bool relu) {
  if (relu) {
    NormaliseRows<T, true>(static_cast<const T*>(x), static_cast<T*>(y), rows, channels, c);
  } else {
    NormaliseRows<T, false>(static_cast<const T*>(x), static_cast<T*>(y), rows, channels, c);
  }
}

// dy, or 0 where relu is set and held the output at zero. `centred` is x - mean.
template <bool kRelu>
OC_INLINE vf Gate(vf dy, vf centred, vf scale, vf beta) {
  if constexpr (!kRelu) return dy;
  return centred * scale + beta > 0.0f ? dy : vf{};
}

template <typename T, bool kRelu>
void SumRows(const T* dy, const T* x, int64_t rows, int64_t channels, const BatchNormChannels& c,
             double* sum, double* product) {
  for (int64_t i = 0; i < channels; ++i) sum[i] = product[i] = 0;
  const int64_t block = BlockRows(channels);
  for (int64_t first = 0; first < rows; first += block) {
    const int64_t n = rows - first < block ? rows - first : block;
    ForVectors(channels, [&](int64_t i, auto part) OC_LAMBDA {
      const vf mean = Load(c.mean + i, part), scale = Load(c.scale + i, part),
               beta = Load(c.beta + i, part);
      const T* dy_column = dy + first * channels + i;
      const T* x_column = x + first * channels + i;
      vf s = {}, p = {};
      for (int64_t r = 0; r < n; ++r) {
        const vf centred = Load(x_column + r * channels, part) - mean;
        const vf g = Gate<kRelu>(Load(dy_column + r * channels, part), centred, scale, beta);
        s += g;
        p += g * centred;
      }
      AddTo(sum + i, s, part);
      AddTo(product + i, p, part);
    });
  }
}

template <typename T>
void GradSums(const void* dy, const void* x, int64_t rows, int64_t channels,
              const BatchNormChannels& c, bool relu, double* sum, double* product) {
  const auto loop = relu ? SumRows<T, true> : SumRows<T, false>;
  loop(static_cast<const T*>(dy), static_cast<const T*>(x), rows, channels, c, sum, product);
}

template <typename T, bool kRelu>
void GradRows(const T* dy, const T* x, T* dx, int64_t rows, int64_t channels,
              const BatchNormChannels& c, const BatchNormGradChannels& g) {
  for (int64_t r = 0; r < rows; ++r, dy += channels, x += channels, dx += channels) {
    ForVectors(channels, [&](int64_t i, auto part) OC_LAMBDA {
      const vf centred = Load(x + i, part) - Load(c.mean + i, part);
      const vf scale = Load(c.scale + i, part);
      const vf gated = Gate<kRelu>(Load(dy + i, part), centred, scale, Load(c.beta + i, part));
      Store(dx + i, scale * (gated - Load(g.offset + i, part)) - centred * Load(g.slope + i, part),
            part);
    });
  }
}

template <typename T>
void GradInput(const void* dy, const void* x, void* dx, int64_t rows, int64_t channels,
               const BatchNormChannels& c, const BatchNormGradChannels& g, bool relu) {
  const auto loop = relu ? GradRows<T, true> : GradRows<T, false>;
  loop(static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<T*>(dx), rows, channels, c,
       g);
}

}  // namespace

const BatchNormLoops kBatchNormLoops = {{Moments<float>, Moments<bf16>, Moments<f16>},
                                        {Normalise<float>, Normalise<bf16>, Normalise<f16>},
                                        {GradSums<float>, GradSums<bf16>, GradSums<f16>},
                                        {GradInput<float>, GradInput<bf16>, GradInput<f16>}};

}  // namespace oc::cpu::OC_CPU_ISA

#include "openclaw/devices/cpu/native/norm_loops.h"

#include "openclaw/devices/cpu/native/isa.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

template <typename T>
void LayerNorm(const void* x_bytes, const void* gamma_bytes, const void* beta_bytes, void* y_bytes,
               float* mean, float* rstd, int64_t rows, int64_t n, float eps) {
  const T* x = static_cast<const T*>(x_bytes);
  const T* gamma = static_cast<const T*>(gamma_bytes);
  const T* beta = static_cast<const T*>(beta_bytes);
  T* y = static_cast<T*>(y_bytes);
  const float inverse_n = 1.0f / static_cast<float>(n);
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const float m =
        Sum(SumVectors(n, [&](int64_t i, auto part) OC_LAMBDA { return Load(x + i, part); })) *
        inverse_n;
    const vf vm = Set(m);
    const float variance = Sum(SumVectors(n,
                                          [&](int64_t i, auto part) OC_LAMBDA {
                                            const vf d = Load(x + i, part) - vm;
                                            return d * d;
                                          })) *
                           inverse_n;
    const float s = 1.0f / __builtin_sqrtf(variance + eps);
    mean[r] = m;
    rstd[r] = s;
    ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
      vf v = (Load(x + i, part) - vm) * s;
      if (gamma != nullptr) v = v * Load(gamma + i, part);
      if (beta != nullptr) v = v + Load(beta + i, part);
      Store(y + i, v, part);
    });
  }
}

template <typename T>
void RmsNorm(const void* x_bytes, const void* gamma_bytes, void* y_bytes, float* rstd, int64_t rows,
             int64_t n, float eps) {
  const T* x = static_cast<const T*>(x_bytes);
  const T* gamma = static_cast<const T*>(gamma_bytes);
  T* y = static_cast<T*>(y_bytes);
  const float inverse_n = 1.0f / static_cast<float>(n);
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const float square = Sum(SumVectors(n,
                                        [&](int64_t i, auto part) OC_LAMBDA {
                                          const vf v = Load(x + i, part);
                                          return v * v;
                                        })) *
                         inverse_n;
    const float s = 1.0f / __builtin_sqrtf(square + eps);
    rstd[r] = s;
    ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
      Store(y + i, Load(x + i, part) * s * Load(gamma + i, part), part);
    });
  }
}

// With g = dy gamma and h = (x - mean) rstd: dx = rstd (g - mean(g) - h mean(g h)), where RMS lacks
// the term mean(g). In very short rows these almost cancel: in double there.
constexpr int64_t kShortRow = 8;
template <typename T>
OC_INLINE void GradInputOfShortRow(const T* dy, const T* x, const T* gamma, double mean,
                                   double rstd, bool centred, T* dx, int64_t n) {
  double g[kShortRow], h[kShortRow], sum = 0, dot = 0;
  for (int64_t i = 0; i < n; ++i) {
    g[i] = LoadScalar(dy + i);
    if (gamma != nullptr) g[i] *= LoadScalar(gamma + i);
    h[i] = (LoadScalar(x + i) - mean) * rstd;
    sum += g[i];
    dot += g[i] * h[i];
  }
  if (!centred) sum = 0;
  const double count = static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    StoreScalar(dx + i, static_cast<float>(rstd * ((g[i] - sum / count) - h[i] * (dot / count))));
  }
}

template <typename T>
void GradInput(const void* dy_bytes, const void* x_bytes, const void* gamma_bytes,
               const float* mean, const float* rstd, void* dx_bytes, int64_t rows, int64_t n) {
  const T* dy = static_cast<const T*>(dy_bytes);
  const T* x = static_cast<const T*>(x_bytes);
  const T* gamma = static_cast<const T*>(gamma_bytes);
  T* dx = static_cast<T*>(dx_bytes);
  const float inverse_n = 1.0f / static_cast<float>(n);
  for (int64_t r = 0; r < rows; ++r, x += n, dy += n, dx += n) {
    const float m = mean == nullptr ? 0.0f : mean[r];
    const float s = rstd[r];
    if (n < kShortRow) {
      GradInputOfShortRow(dy, x, gamma, m, s, mean != nullptr, dx, n);
      continue;
    }
    const auto scaled = [&](int64_t i, auto part) OC_LAMBDA {
      vf g = Load(dy + i, part);
      if (gamma != nullptr) g = g * Load(gamma + i, part);
      return g;
    };
    vf sum0 = {}, sum1 = {}, dot0 = {}, dot1 = {};
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      const vf g0 = scaled(i, Full{}), g1 = scaled(i + kLanes, Full{});
      sum0 += g0;
      sum1 += g1;
      dot0 += g0 * (Load(x + i) - m);
      dot1 += g1 * (Load(x + i + kLanes) - m);
    }
    // What a partial load leaves out of dy is zero, and so is its product.
    ForVectors(n - i, [&](int64_t j, auto part) OC_LAMBDA {
      const vf g = scaled(i + j, part);
      sum0 += g;
      dot0 += g * (Load(x + i + j, part) - m);
    });
    const float mean_g = mean == nullptr ? 0.0f : Sum(sum0 + sum1) * inverse_n;
    // h's own rstd is taken out of the sum.
    const float slope = s * s * (Sum(dot0 + dot1) * inverse_n);
    ForVectors(n, [&](int64_t j, auto part) OC_LAMBDA {
      const vf g = scaled(j, part);
      Store(dx + j, s * ((g - mean_g) - (Load(x + j, part) - m) * slope), part);
    });
  }
}

// Sums over blocks of rows stay in registers: an error that grows with the blocks, not with the
// rows.
constexpr int64_t kRowBlock = 64;

template <int kVectors, typename T, typename P>
OC_INLINE void GradWeightBlock(const T* dy, const T* x, const float* mean, const float* rstd,
                               float* dgamma, float* dbeta, int64_t rows, int64_t n, P part) {
  vf g[kVectors] = {}, b[kVectors] = {};
  for (int64_t r = 0; r < rows; ++r, dy += n, x += n) {
    const float m = mean == nullptr ? 0.0f : mean[r];
    const float s = rstd[r];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const vf d = Load(dy + v * kLanes, part);
      g[v] += d * ((Load(x + v * kLanes, part) - m) * s);
      b[v] += d;
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    float* to = dgamma + v * kLanes;
    Store(to, Load(to, part) + g[v], part);
    if (dbeta == nullptr) continue;
    to = dbeta + v * kLanes;
    Store(to, Load(to, part) + b[v], part);
  }
}

template <typename T>
void GradWeight(const void* dy_bytes, const void* x_bytes, const float* mean, const float* rstd,
                float* dgamma, float* dbeta, int64_t rows, int64_t n, int64_t begin, int64_t end) {
  const T* dy = static_cast<const T*>(dy_bytes);
  const T* x = static_cast<const T*>(x_bytes);
  for (int64_t c = begin; c < end; ++c) {
    dgamma[c] = 0;
    if (dbeta != nullptr) dbeta[c] = 0;
  }
  for (int64_t r = 0; r < rows; r += kRowBlock) {
    const int64_t count = rows - r < kRowBlock ? rows - r : kRowBlock;
    const float* m = mean == nullptr ? nullptr : mean + r;
    int64_t c = begin;
    for (; c + 4 * kLanes <= end; c += 4 * kLanes) {
      GradWeightBlock<4>(dy + r * n + c, x + r * n + c, m, rstd + r, dgamma + c,
                         dbeta == nullptr ? nullptr : dbeta + c, count, n, Full{});
    }
    ForVectors(end - c, [&](int64_t j, auto part) OC_LAMBDA {
      GradWeightBlock<1>(dy + r * n + c + j, x + r * n + c + j, m, rstd + r, dgamma + c + j,
                         dbeta == nullptr ? nullptr : dbeta + c + j, count, n, part);
    });
  }
}

template <typename T>
void StoreT(const float* x, void* y_bytes, int64_t n, bool accumulate) {
  T* y = static_cast<T*>(y_bytes);
  ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    vf v = Load(x + i, part);
    if (accumulate) v = Load(y + i, part) + v;
    Store(y + i, v, part);
  });
}

}  // namespace

const NormLoops kNormLoops = {
    .layer_norm = {LayerNorm<float>, LayerNorm<bf16>, LayerNorm<f16>},
    .rms_norm = {RmsNorm<float>, RmsNorm<bf16>, RmsNorm<f16>},
    .grad_input = {GradInput<float>, GradInput<bf16>, GradInput<f16>},
    .grad_weight = {GradWeight<float>, GradWeight<bf16>, GradWeight<f16>},
    .store = {StoreT<float>, StoreT<bf16>, StoreT<f16>},
};

}  // namespace oc::cpu::OC_CPU_ISA

#include "openclaw/devices/cpu/native/softmax_loops.h"

#include "openclaw/devices/cpu/native/vmath.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

OC_INLINE float ExpScalar(float x) { return Exp(Set(x))[0]; }

// The largest of n > 0 elements. Which NaN compares how is left open: what uses it meets the NaN
// again.
template <typename T>
OC_INLINE float RowMax(const T* x, int64_t n) {
  if (n < kLanes) {
    float m = LoadScalar(x);
    for (int64_t i = 1; i < n; ++i) m = m > LoadScalar(x + i) ? m : LoadScalar(x + i);
    return m;
  }
  // The last vector overlaps the one before.
  vf m0 = Load(x + n - kLanes), m1 = m0;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    m0 = Max(Load(x + i), m0);
    m1 = Max(Load(x + i + kLanes), m1);
  }
  if (i + kLanes <= n) m0 = Max(Load(x + i), m0);
  return MaxLane(Max(m0, m1));
}

template <typename T>
OC_INLINE float SumExp(const T* x, int64_t n, float shift) {
  return Sum(SumVectors(
      n, [&](int64_t i, auto part) OC_LAMBDA { return Exp(Load(x + i, part) - shift); }));
}

template <typename T>
void Softmax(const void* x_bytes, void* y_bytes, int64_t rows, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  T* y = static_cast<T*>(y_bytes);
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const float m = RowMax(x, n);
    if constexpr (__is_same(T, float)) {
      const float sum = Sum(SumVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
        const vf e = Exp(Load(x + i, part) - m);
        Store(y + i, e, part);
        return e;
      }));
      const float inverse = 1.0f / sum;
      ForVectors(n, [&](int64_t i, auto part)
                        OC_LAMBDA { Store(y + i, Load(y + i, part) * inverse, part); });
    } else {
      // Stored once: rounded once.
      const float inverse = 1.0f / SumExp(x, n, m);
      ForVectors(n, [&](int64_t i, auto part)
                        OC_LAMBDA { Store(y + i, Exp(Load(x + i, part) - m) * inverse, part); });
    }
  }
}

template <typename T>
void SoftmaxGrad(const void* dy_bytes, const void* y_bytes, void* dx_bytes, int64_t rows,
                 int64_t n) {
  const T* dy = static_cast<const T*>(dy_bytes);
  const T* y = static_cast<const T*>(y_bytes);
  T* dx = static_cast<T*>(dx_bytes);
  for (int64_t r = 0; r < rows; ++r, dy += n, y += n, dx += n) {
    const float dot = Sum(SumVectors(
        n, [&](int64_t i, auto part) OC_LAMBDA { return Load(dy + i, part) * Load(y + i, part); }));
    ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
      Store(dx + i, Load(y + i, part) * (Load(dy + i, part) - dot), part);
    });
  }
}

template <typename T>
void CrossEntropy(const void* x_bytes, const int32_t* labels, float* lse, float* loss, int64_t rows,
                  int64_t n, int64_t ignore) {
  const T* x = static_cast<const T*>(x_bytes);
  // A row is read from memory once: maximum and sum of a piece while it is in the first cache, the
  // sum rescaled where the maximum grows.
  constexpr int64_t kPiece = 2048;
  for (int64_t r = 0; r < rows; ++r, x += n) {
    float m = RowMax(x, n < kPiece ? n : kPiece);
    float sum = 0;
    for (int64_t i = 0; i < n; i += kPiece) {
      const int64_t count = n - i < kPiece ? n - i : kPiece;
      const float piece = i == 0 ? m : RowMax(x + i, count);
      if (piece > m) {
        sum *= ExpScalar(m - piece);
        m = piece;
      }
      sum += SumExp(x + i, count, m);
    }
    lse[r] = m + __builtin_logf(sum);
    loss[r] = labels[r] == ignore ? 0.0f : lse[r] - LoadScalar(x + labels[r]);
  }
}

template <typename T>
void CrossEntropyGrad(float dloss, const void* x_bytes, const int32_t* labels, const float* lse,
                      void* dx_bytes, int64_t rows, int64_t n, int64_t ignore) {
  const T* x = static_cast<const T*>(x_bytes);
  T* dx = static_cast<T*>(dx_bytes);
  for (int64_t r = 0; r < rows; ++r, x += n, dx += n) {
    if (labels[r] == ignore) {
      ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA { Store(dx + i, vf{}, part); });
      continue;
    }
    const float shift = lse[r];
    // Before the row is overwritten.
    const float at_label = dloss * (ExpScalar(LoadScalar(x + labels[r]) - shift) - 1.0f);
    ForVectors(n, [&](int64_t i, auto part)
                      OC_LAMBDA { Store(dx + i, dloss * Exp(Load(x + i, part) - shift), part); });
    StoreScalar(dx + labels[r], at_label);
  }
}

template <typename T>
int64_t CountCorrect(const void* x_bytes, const int32_t* labels, int64_t rows, int64_t n,
                     int64_t ignore) {
  const T* x = static_cast<const T*>(x_bytes);
  int64_t correct = 0;
  for (int64_t r = 0; r < rows; ++r, x += n) {
    if (labels[r] == ignore) continue;
    const float at_label = LoadScalar(x + labels[r]);
    if (!(RowMax(x, n) <= at_label)) continue;
    bool first = true;
    for (int64_t i = 0; i < labels[r]; ++i) first &= !(LoadScalar(x + i) >= at_label);
    correct += first ? 1 : 0;
  }
  return correct;
}

}  // namespace

const SoftmaxLoops kSoftmaxLoops = {
    .softmax = {Softmax<float>, Softmax<bf16>, Softmax<f16>},
    .softmax_grad = {SoftmaxGrad<float>, SoftmaxGrad<bf16>, SoftmaxGrad<f16>},
    .cross_entropy = {CrossEntropy<float>, CrossEntropy<bf16>, CrossEntropy<f16>},
    .cross_entropy_grad = {CrossEntropyGrad<float>, CrossEntropyGrad<bf16>, CrossEntropyGrad<f16>},
    .count_correct = {CountCorrect<float>, CountCorrect<bf16>, CountCorrect<f16>},
};

}  // namespace oc::cpu::OC_CPU_ISA

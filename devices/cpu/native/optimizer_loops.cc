#include "openclaw/devices/cpu/native/optimizer_loops.h"

#include "openclaw/devices/cpu/native/isa.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

template <typename S, typename T>
void Lerp(void* state_bytes, const void* x_bytes, int64_t n, float rate) {
  S* state = static_cast<S*>(state_bytes);
  const T* x = static_cast<const T*>(x_bytes);
  ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    const vf s = Load(state + i, part);
    Store(state + i, s + rate * (Load(x + i, part) - s), part);
  });
}

template <typename S, typename T>
void Accumulate(void* state_bytes, const void* x_bytes, int64_t n) {
  S* state = static_cast<S*>(state_bytes);
  const T* x = static_cast<const T*>(x_bytes);
  ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    Store(state + i, Load(state + i, part) + Load(x + i, part), part);
  });
}

template <typename T>
float SumSquares(const void* x_bytes, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  return Sum(SumVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    const vf v = Load(x + i, part);
    return v * v;
  }));
}

template <typename S, typename T>
void Sgd(void* p_bytes, const void* g_bytes, void* momentum_bytes, int64_t n, const SgdStep& step) {
  S* p = static_cast<S*>(p_bytes);
  S* momentum = static_cast<S*>(momentum_bytes);
  const T* g = static_cast<const T*>(g_bytes);
  const SgdStep s = step;
  ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    const vf w = Load(p + i, part);
    vf d = Load(g + i, part) * s.clip + w * s.weight_decay;
    if (momentum != nullptr) {
      const vf buffer = Load(momentum + i, part) * s.momentum + d;
      Store(momentum + i, buffer, part);
      d = s.nesterov ? d + buffer * s.momentum : buffer;
    }
    Store(p + i, w - d * s.lr, part);
  });
}

template <typename S, typename T>
void AdamW(void* p_bytes, const void* g_bytes, void* m_bytes, void* v_bytes, int64_t n,
           const AdamWStep& step) {
  S* p = static_cast<S*>(p_bytes);
  S* m = static_cast<S*>(m_bytes);
  S* v = static_cast<S*>(v_bytes);
  const T* g = static_cast<const T*>(g_bytes);
  const AdamWStep s = step;
  ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    const vf d = Load(g + i, part) * s.clip;
    const vf first = Load(m + i, part) * s.beta1 + d * s.rest1;
    const vf second = Load(v + i, part) * s.beta2 + (d * d) * s.rest2;
    Store(m + i, first, part);
    Store(v + i, second, part);
    const vf update = first / (Sqrt(second) * s.root_scale + s.eps);
    Store(p + i, Load(p + i, part) * s.keep - update * s.step_size, part);
  });
}

}  // namespace

#define OC_VALUES(F, S) \
  { F<S, float>, F<S, bf16>, F<S, f16> }
#define OC_PAIRS(F) \
  { OC_VALUES(F, float), OC_VALUES(F, bf16), OC_VALUES(F, f16) }
const OptimizerLoops kOptimizerLoops = {
    .lerp = OC_PAIRS(Lerp),
    .accumulate = OC_PAIRS(Accumulate),
    .sum_squares = {SumSquares<float>, SumSquares<bf16>, SumSquares<f16>},
    .sgd = OC_PAIRS(Sgd),
    .adamw = OC_PAIRS(AdamW),
};

}  // namespace oc::cpu::OC_CPU_ISA

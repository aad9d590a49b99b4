#include "openclaw/devices/cpu/native/optimizer_loops.h"

#include "openclaw/devices/cpu/native/isa.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

// A gradient that is no number stays none. Without a limit the product is the gradient: it may
// become part of a fused operation.
template <typename T, typename P>
OC_INLINE vf Gradient(const T* g, P part, float clip, float limit) {
  const vf scaled = Load(g, part) * clip;
  if (limit == __builtin_inff()) return scaled;
  return Min(Set(limit), Max(Set(-limit), scaled));
}

template <typename S, typename T>
void Lerp(void* state_bytes, const void* x_bytes, int64_t n, float rate) {
  S* state = static_cast<S*>(state_bytes);
  const T* x = static_cast<const T*>(x_bytes);
  const bool whole = rate == 1;
  ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    const vf s = Load(state + i, part), next = Load(x + i, part);
    Store(state + i, whole ? next : s + rate * (next - s), part);
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
    vf d = Gradient(g + i, part, s.clip, s.limit) + w * s.weight_decay;
    if (momentum != nullptr) {
      const vf buffer = Load(momentum + i, part) * s.momentum + d;
      Store(momentum + i, buffer, part);
      d = s.nesterov ? d + buffer * s.momentum : buffer;
    }
    Store(p + i, w - d * s.lr, part);
  });
}

template <typename S, typename T>
void Adam(void* p_bytes, const void* g_bytes, void* m_bytes, void* v_bytes, int64_t n,
          const AdamStep& step) {
  S* p = static_cast<S*>(p_bytes);
  S* m = static_cast<S*>(m_bytes);
  S* v = static_cast<S*>(v_bytes);
  const T* g = static_cast<const T*>(g_bytes);
  const AdamStep s = step;
  ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    const vf w = Load(p + i, part);
    const vf d = Gradient(g + i, part, s.clip, s.limit) + w * s.decay;
    const vf first = Load(m + i, part) * s.beta1 + d * s.rest1;
    const vf second = Load(v + i, part) * s.beta2 + (d * d) * s.rest2;
    Store(m + i, first, part);
    Store(v + i, second, part);
    const vf update = first / (Sqrt(second) * s.root_scale + s.eps);
    Store(p + i, w * s.keep - update * s.step_size, part);
  });
}

template <typename S, typename T>
void Lion(void* p_bytes, const void* g_bytes, void* m_bytes, int64_t n, const LionStep& step) {
  S* p = static_cast<S*>(p_bytes);
  S* m = static_cast<S*>(m_bytes);
  const T* g = static_cast<const T*>(g_bytes);
  const LionStep s = step;
  ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    const vf d = Gradient(g + i, part, s.clip, s.limit), before = Load(m + i, part);
    const vf mixed = before * s.beta1 + d * s.rest1;
    // Where a comparison holds its lanes are -1.
    const vf sign = __builtin_convertvector((vi)(mixed < vf{}) - (vi)(mixed > vf{}), vf);
    Store(m + i, before * s.beta2 + d * s.rest2, part);
    Store(p + i, Load(p + i, part) * s.keep - sign * s.lr, part);
  });
}

OC_INLINE vf WantedStep(vf p, vf m, vf v, const LambStep& s) {
  return m * s.mean_scale / (Sqrt(v) * s.root_scale + s.eps) + p * s.decay;
}

template <typename S, typename T>
void LambMoments(const void* p_bytes, const void* g_bytes, void* m_bytes, void* v_bytes, int64_t n,
                 const LambStep& step, float* p_squares, float* step_squares) {
  const S* p = static_cast<const S*>(p_bytes);
  S* m = static_cast<S*>(m_bytes);
  S* v = static_cast<S*>(v_bytes);
  const T* g = static_cast<const T*>(g_bytes);
  const LambStep s = step;
  vf p_sum = {}, step_sum = {};
  ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    const vf w = Load(p + i, part), d = Gradient(g + i, part, s.clip, s.limit);
    Store(m + i, Load(m + i, part) * s.beta1 + d * s.rest1, part);
    Store(v + i, Load(v + i, part) * s.beta2 + (d * d) * s.rest2, part);
    // As lamb_step sees them.
    const vf wanted = ZeroTail(WantedStep(w, Load(m + i, part), Load(v + i, part), s), part);
    p_sum += w * w;
    step_sum += wanted * wanted;
  });
  *p_squares = Sum(p_sum);
  *step_squares = Sum(step_sum);
}

template <typename S>
void TakeLambStep(void* p_bytes, const void* m_bytes, const void* v_bytes, int64_t n,
                  const LambStep& step) {
  S* p = static_cast<S*>(p_bytes);
  const S* m = static_cast<const S*>(m_bytes);
  const S* v = static_cast<const S*>(v_bytes);
  const LambStep s = step;
  ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    const vf w = Load(p + i, part);
    const vf wanted = WantedStep(w, Load(m + i, part), Load(v + i, part), s);
    Store(p + i, w - wanted * s.rate, part);
  });
}

template <typename S, typename T>
void MuonMomentum(void* u_bytes, const void* g_bytes, void* m_bytes, int64_t n,
                  const MomentumStep& step) {
  S* u = static_cast<S*>(u_bytes);
  S* m = static_cast<S*>(m_bytes);
  const T* g = static_cast<const T*>(g_bytes);
  const MomentumStep s = step;
  ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    const vf d = Gradient(g + i, part, s.clip, s.limit), before = Load(m + i, part);
    const vf after = before + (d - before) * s.rest;
    Store(m + i, after, part);
    Store(u + i, s.nesterov ? d + (after - d) * s.momentum : after, part);
  });
}

template <typename S, typename T>
void DecayedStep(void* p_bytes, const void* u_bytes, int64_t n, float keep, float rate) {
  S* p = static_cast<S*>(p_bytes);
  const T* u = static_cast<const T*>(u_bytes);
  ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    Store(p + i, Load(p + i, part) * keep - Load(u + i, part) * rate, part);
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
    .adam = OC_PAIRS(Adam),
    .lion = OC_PAIRS(Lion),
    .lamb_moments = OC_PAIRS(LambMoments),
    .lamb_step = {TakeLambStep<float>, TakeLambStep<bf16>, TakeLambStep<f16>},
    .muon_momentum = OC_PAIRS(MuonMomentum),
    .decayed_step = OC_PAIRS(DecayedStep),
};

}  // namespace oc::cpu::OC_CPU_ISA

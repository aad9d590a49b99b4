#include "openclaw/devices/cpu/native/adafactor_loops.h"

#include "openclaw/devices/cpu/native/isa.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

template <typename T, typename P>
OC_INLINE vf Gradient(const T* g, P part, const AdafactorStep& s) {
  return Min(Set(s.limit), Max(Set(-s.limit), Load(g, part) * s.clip));
}

template <typename T, typename P>
OC_INLINE vf Update(const T* g, const float* column, float row, P part, const AdafactorStep& s) {
  return Gradient(g, part, s) / Sqrt(Max(Set(s.least), Load(column, part) * row));
}

template <typename T>
float Squares(const void* g_bytes, float* sums, int64_t n, const AdafactorStep& step) {
  const T* g = static_cast<const T*>(g_bytes);
  const AdafactorStep s = step;
  return Sum(SumVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    const vf d = Gradient(g + i, part, s), square = d * d;
    Store(sums + i, Load(sums + i, part) + square, part);
    return square;
  }));
}

template <typename T>
void TakeUp(float* v, const void* g_bytes, int64_t n, float kept, float fresh,
            const AdafactorStep& step) {
  const T* g = static_cast<const T*>(g_bytes);
  const AdafactorStep s = step;
  ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    const vf d = Gradient(g + i, part, s);
    Store(v + i, Load(v + i, part) * kept + (d * d) * fresh, part);
  });
}

template <typename T>
float UpdateSquares(const void* g_bytes, const float* column, float row, int64_t n,
                    const AdafactorStep& step) {
  const T* g = static_cast<const T*>(g_bytes);
  const AdafactorStep s = step;
  return Sum(SumVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    const vf u = Update(g + i, column + i, row, part, s);
    return u * u;
  }));
}

template <typename T>
void Apply(float* p, const void* g_bytes, const float* column, float row, int64_t n,
           const AdafactorStep& step) {
  const T* g = static_cast<const T*>(g_bytes);
  const AdafactorStep s = step;
  ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    const vf u = Update(g + i, column + i, row, part, s);
    Store(p + i, Load(p + i, part) * s.keep - u * s.rate, part);
  });
}

}  // namespace

#define OC_EACH(F) \
  { F<float>, F<bf16>, F<f16> }
const AdafactorLoops kAdafactorLoops = {
    .squares = OC_EACH(Squares),
    .take_up = OC_EACH(TakeUp),
    .update_squares = OC_EACH(UpdateSquares),
    .apply = OC_EACH(Apply),
};

}  // namespace oc::cpu::OC_CPU_ISA

#include "openclaw/devices/cpu/native/elementwise_loops.h"

#include "openclaw/devices/cpu/native/vmath.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

// Unary: f(x, p, q).
struct Relu {
  static OC_INLINE vf F(vf x, vf, vf) { return x < 0.0f ? vf{} : x; }
};
struct Silu {
  static OC_INLINE vf F(vf x, vf, vf) { return x / (1.0f + Exp(-x)); }
};
struct TanhF {
  static OC_INLINE vf F(vf x, vf, vf) { return Tanh(x); }
};
struct SigmoidF {
  static OC_INLINE vf F(vf x, vf, vf) { return Sigmoid(x); }
};
struct ExpF {
  static OC_INLINE vf F(vf x, vf, vf) { return Exp(x); }
};
struct LogF {
  static OC_INLINE vf F(vf x, vf, vf) { return Log(x); }
};
struct SqrtF {
  static OC_INLINE vf F(vf x, vf, vf) { return Sqrt(x); }
};
struct Reciprocal {
  static OC_INLINE vf F(vf x, vf, vf) { return 1.0f / x; }
};
struct ScaleF {
  static OC_INLINE vf F(vf x, vf p, vf q) { return p * x + q; }
};
struct ErfF {
  static OC_INLINE vf F(vf x, vf, vf) { return Erf(x); }
};
struct Gelu {
  static OC_INLINE vf F(vf x, vf, vf) { return 0.5f * x * (1.0f + Erf(x * 0.70710678f)); }
};
// tanh's argument in gelu's approximation, by its derivative's factors.
constexpr float kGeluA = 0.79788456f, kGeluB = 0.044715f;
struct GeluTanh {
  static OC_INLINE vf F(vf x, vf, vf) {
    // 0.5 (1 + tanh(u)) = sigmoid(2u)
    const vf u = kGeluA * (x + kGeluB * (x * x * x));
    return x / (1.0f + Exp(-2.0f * u));
  }
};

// Binary: f(a, b, p).
struct Add {
  static OC_INLINE vf F(vf a, vf b, vf) { return a + b; }
};
struct Sub {
  static OC_INLINE vf F(vf a, vf b, vf) { return a - b; }
};
struct Mul {
  static OC_INLINE vf F(vf a, vf b, vf) { return a * b; }
};
struct Div {
  static OC_INLINE vf F(vf a, vf b, vf) { return a / b; }
};
struct Lerp {
  static OC_INLINE vf F(vf a, vf b, vf p) { return a + p * (b - a); }
};
struct ReluGrad {
  static OC_INLINE vf F(vf dy, vf y, vf) { return y > 0.0f ? dy : vf{}; }
};
struct TanhGrad {
  static OC_INLINE vf F(vf dy, vf y, vf) { return dy * (1.0f - y * y); }
};
struct SigmoidGrad {
  static OC_INLINE vf F(vf dy, vf y, vf) { return dy * (y * (1.0f - y)); }
};
struct SqrtGrad {
  static OC_INLINE vf F(vf dy, vf y, vf) { return 0.5f * dy / y; }
};
struct SiluGrad {
  static OC_INLINE vf F(vf dy, vf x, vf) {
    const vf s = Sigmoid(x);
    return dy * (s * (1.0f + x * (1.0f - s)));
  }
};
struct GeluGrad {
  static OC_INLINE vf F(vf dy, vf x, vf) {
    const vf cdf = 0.5f * (1.0f + Erf(x * 0.70710678f));
    const vf pdf = 0.39894228f * Exp(-0.5f * x * x);
    return dy * (cdf + x * pdf);
  }
};
struct GeluTanhGrad {
  static OC_INLINE vf F(vf dy, vf x, vf) {
    const vf x2 = x * x;
    const vf u = kGeluA * (x + kGeluB * (x2 * x));
    const vf du = kGeluA * (1.0f + (3.0f * kGeluB) * x2);
    const vf s = Sigmoid(2.0f * u);
    return dy * (s + x * (2.0f * du * (s * (1.0f - s))));
  }
};

struct Equal {
  static OC_INLINE vi F(vf a, vf b) { return a == b; }
  template <typename T>
  static OC_INLINE bool G(T a, T b) {
    return a == b;
  }
};
struct Less {
  static OC_INLINE vi F(vf a, vf b) { return a < b; }
  template <typename T>
  static OC_INLINE bool G(T a, T b) {
    return a < b;
  }
};
struct Greater {
  static OC_INLINE vi F(vf a, vf b) { return a > b; }
  template <typename T>
  static OC_INLINE bool G(T a, T b) {
    return a > b;
  }
};

template <typename Op, typename T>
void UnaryT(const void* x_bytes, void* y_bytes, int64_t n, float p, float q) {
  const T* x = static_cast<const T*>(x_bytes);
  T* y = static_cast<T*>(y_bytes);
  const vf vp = Set(p), vq = Set(q);
  ForVectors(n, [&](int64_t i, auto part)
                    OC_LAMBDA { Store(y + i, Op::F(Load(x + i, part), vp, vq), part); });
}

template <typename Op, typename T>
void BinaryT(const void* a_bytes, const void* b_bytes, void* y_bytes, int64_t rows, int64_t n,
             float p) {
  const T* a = static_cast<const T*>(a_bytes);
  const T* b = static_cast<const T*>(b_bytes);
  T* y = static_cast<T*>(y_bytes);
  const vf vp = Set(p);
  if (n == 1) {
    const vf vb = Set(LoadScalar(b));
    ForVectors(rows, [&](int64_t i, auto part)
                         OC_LAMBDA { Store(y + i, Op::F(Load(a + i, part), vb, vp), part); });
    return;
  }
  for (int64_t r = 0; r < rows; ++r, a += n, y += n) {
    ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
      Store(y + i, Op::F(Load(a + i, part), Load(b + i, part), vp), part);
    });
  }
}

struct IntAdd {
  template <typename T>
  static OC_INLINE T F(T a, T b) {
    return a + b;
  }
};
struct IntSub {
  template <typename T>
  static OC_INLINE T F(T a, T b) {
    return a - b;
  }
};
struct IntMul {
  template <typename T>
  static OC_INLINE T F(T a, T b) {
    return a * b;
  }
};

// T unsigned: overflow wraps.
template <typename Op, typename T>
void IntegerT(const void* a_bytes, const void* b_bytes, void* y_bytes, int64_t rows, int64_t n,
              float) {
  const T* a = static_cast<const T*>(a_bytes);
  const T* b = static_cast<const T*>(b_bytes);
  T* y = static_cast<T*>(y_bytes);
  if (n == 1) {
    const T vb = *b;
    for (int64_t i = 0; i < rows; ++i) y[i] = Op::F(a[i], vb);
    return;
  }
  for (int64_t r = 0; r < rows; ++r, a += n, y += n) {
    for (int64_t i = 0; i < n; ++i) y[i] = Op::F(a[i], b[i]);
  }
}

OC_INLINE void StoreFlags(uint8_t* y, vi mask, int n) {
  const vu ones = (vu)mask & 1u;
  typedef uint8_t vb __attribute__((vector_size(kLanes)));
  const vb bytes = __builtin_convertvector(ones, vb);
  if (n == kLanes) {
    __builtin_memcpy(y, &bytes, kLanes);
  } else {
    for (int i = 0; i < n; ++i) y[i] = bytes[i];
  }
}
OC_INLINE int CountOf(Full) { return kLanes; }
OC_INLINE int CountOf(Part t) { return t.n; }

template <typename Op, typename T>
void CompareT(const void* a_bytes, const void* b_bytes, void* y_bytes, int64_t rows, int64_t n,
              float) {
  const T* a = static_cast<const T*>(a_bytes);
  const T* b = static_cast<const T*>(b_bytes);
  uint8_t* y = static_cast<uint8_t*>(y_bytes);
  if (n == 1) {
    const vf vb = Set(LoadScalar(b));
    ForVectors(rows, [&](int64_t i, auto part) OC_LAMBDA {
      StoreFlags(y + i, Op::F(Load(a + i, part), vb), CountOf(part));
    });
    return;
  }
  for (int64_t r = 0; r < rows; ++r, a += n, y += n) {
    ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
      StoreFlags(y + i, Op::F(Load(a + i, part), Load(b + i, part)), CountOf(part));
    });
  }
}

template <typename Op, typename T>
void CompareIntegerT(const void* a_bytes, const void* b_bytes, void* y_bytes, int64_t rows,
                     int64_t n, float) {
  const T* a = static_cast<const T*>(a_bytes);
  const T* b = static_cast<const T*>(b_bytes);
  uint8_t* y = static_cast<uint8_t*>(y_bytes);
  for (int64_t r = 0; r < rows; ++r, a += n, y += n) {
    for (int64_t i = 0; i < n; ++i) y[i] = Op::G(a[i], b[i]);
  }
}

template <typename T>
void WhereT(const uint8_t* c, const void* a_bytes, const void* b_bytes, void* y_bytes, int64_t n) {
  const T* a = static_cast<const T*>(a_bytes);
  const T* b = static_cast<const T*>(b_bytes);
  T* y = static_cast<T*>(y_bytes);
  for (int64_t i = 0; i < n; ++i) {
    const T va = a[i], vb = b[i];
    y[i] = c[i] != 0 ? va : vb;
  }
}

// Bool is 0 or 1 of any value. What goes to a smaller range stops at its ends; a NaN becomes 0.
struct Bool {
  uint8_t bits;
};
template <typename T>
struct Ends;
template <>
struct Ends<uint8_t> {
  static constexpr int64_t kLow = 0, kHigh = 255;
};
template <>
struct Ends<int32_t> {
  static constexpr int64_t kLow = INT32_MIN, kHigh = INT32_MAX;
};
template <>
struct Ends<int64_t> {
  static constexpr int64_t kLow = INT64_MIN, kHigh = INT64_MAX;
};

template <typename T>
constexpr bool kIsHalf = __is_same(T, bf16) || __is_same(T, f16);

template <typename To, typename From>
OC_INLINE To Convert(From x) {
  constexpr bool kFromReal = __is_same(From, float) || __is_same(From, double);
  constexpr bool kToReal = __is_same(To, float) || __is_same(To, double);
  if constexpr (kIsHalf<From>) {
    return Convert<To>(LoadScalar(&x));
  } else if constexpr (__is_same(From, Bool)) {
    return Convert<To>(static_cast<uint8_t>(x.bits != 0));
  } else if constexpr (kIsHalf<To>) {
    To y;
    StoreScalar(&y, static_cast<float>(x));
    return y;
  } else if constexpr (__is_same(To, Bool)) {
    return {static_cast<uint8_t>(x != 0)};
  } else if constexpr (kToReal) {
    return static_cast<To>(x);
  } else if constexpr (kFromReal) {
    if (!(x > static_cast<From>(Ends<To>::kLow)))
      return x == x ? static_cast<To>(Ends<To>::kLow) : 0;
    if (x >= static_cast<From>(Ends<To>::kHigh)) return static_cast<To>(Ends<To>::kHigh);
    return static_cast<To>(x);
  } else {
    const int64_t wide = x;
    if (wide < Ends<To>::kLow) return static_cast<To>(Ends<To>::kLow);
    return static_cast<To>(wide > Ends<To>::kHigh ? Ends<To>::kHigh : wide);
  }
}

template <typename From, typename To>
void CastT(const void* x_bytes, void* y_bytes, int64_t n) {
  const From* x = static_cast<const From*>(x_bytes);
  To* y = static_cast<To*>(y_bytes);
  constexpr bool kVectors =
      (__is_same(From, float) || kIsHalf<From>)&&(__is_same(To, float) || kIsHalf<To>);
  if constexpr (kVectors) {
    ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA { Store(y + i, Load(x + i, part), part); });
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = Convert<To>(x[i]);
  }
}

}  // namespace

#define OC_UNARY(Op) \
  { UnaryT<Op, float>, UnaryT<Op, bf16>, UnaryT<Op, f16> }
#define OC_BINARY(Op) \
  { BinaryT<Op, float>, BinaryT<Op, bf16>, BinaryT<Op, f16> }
#define OC_INTEGER(Op) \
  { IntegerT<Op, uint32_t>, IntegerT<Op, uint64_t> }
#define OC_COMPARE(Op) \
  { CompareT<Op, float>, CompareT<Op, bf16>, CompareT<Op, f16> }
#define OC_COMPARE_INTEGER(Op) \
  { CompareIntegerT<Op, int32_t>, CompareIntegerT<Op, int64_t> }
#define OC_CAST(From)                                                                      \
  {                                                                                        \
    CastT<From, float>, CastT<From, bf16>, CastT<From, f16>, CastT<From, int32_t>,         \
        CastT<From, int64_t>, CastT<From, uint8_t>, CastT<From, Bool>, CastT<From, double> \
  }

const ElementwiseLoops kElementwiseLoops = {
    .unary = {OC_UNARY(Relu), OC_UNARY(Silu), OC_UNARY(TanhF), OC_UNARY(SigmoidF), OC_UNARY(ExpF),
              OC_UNARY(LogF), OC_UNARY(SqrtF), OC_UNARY(Reciprocal), OC_UNARY(Gelu),
              OC_UNARY(GeluTanh), OC_UNARY(ScaleF), OC_UNARY(ErfF)},
    .binary = {OC_BINARY(Add), OC_BINARY(Sub), OC_BINARY(Mul), OC_BINARY(Div), OC_BINARY(ReluGrad),
               OC_BINARY(TanhGrad), OC_BINARY(SigmoidGrad), OC_BINARY(SqrtGrad),
               OC_BINARY(SiluGrad), OC_BINARY(GeluGrad), OC_BINARY(GeluTanhGrad), OC_BINARY(Lerp)},
    .integer = {OC_INTEGER(IntAdd), OC_INTEGER(IntSub), OC_INTEGER(IntMul)},
    .compare = {OC_COMPARE(Equal), OC_COMPARE(Less), OC_COMPARE(Greater)},
    .compare_integer = {OC_COMPARE_INTEGER(Equal), OC_COMPARE_INTEGER(Less),
                        OC_COMPARE_INTEGER(Greater)},
    .where = {WhereT<uint8_t>, WhereT<uint16_t>, WhereT<uint32_t>, WhereT<uint64_t>},
    .cast = {OC_CAST(float), OC_CAST(bf16), OC_CAST(f16), OC_CAST(int32_t), OC_CAST(int64_t),
             OC_CAST(uint8_t), OC_CAST(Bool), OC_CAST(double)},
};

}  // namespace oc::cpu::OC_CPU_ISA

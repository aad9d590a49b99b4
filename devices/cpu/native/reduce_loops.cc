#include "openclaw/devices/cpu/native/reduce_loops.h"

#include "openclaw/devices/cpu/native/isa.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

struct SumOp {
  static OC_INLINE vf F(vf a, vf b) { return a + b; }
  static constexpr float kStart = 0;
};
// A NaN comes through.
struct MaxOp {
  static OC_INLINE vf F(vf a, vf b) { return a > b ? a : (a == a ? b : a); }
  static constexpr float kStart = -__builtin_inff();
};

template <typename T>
void SumRows(const void* x_bytes, float* y, int64_t rows, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  for (int64_t r = 0; r < rows; ++r, x += n) {
    y[r] = Sum(SumVectors(n, [&](int64_t i, auto part) OC_LAMBDA { return Load(x + i, part); }));
  }
}

template <typename T>
void MaxRows(const void* x_bytes, float* y, int64_t rows, int64_t n) {
  const T* x = static_cast<const T*>(x_bytes);
  for (int64_t r = 0; r < rows; ++r, x += n) {
    vf m = Set(MaxOp::kStart);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) m = MaxOp::F(m, Load(x + i));
    float best = m[0];
    for (int k = 1; k < kLanes; ++k) best = best > m[k] ? best : (best == best ? m[k] : best);
    for (; i < n; ++i) {
      const float v = LoadScalar(x + i);
      best = best > v ? best : (best == best ? v : best);
    }
    y[r] = best;
  }
}

// Blocks of rows stay in registers: a sum's error grows with the blocks, not with the rows.
constexpr int64_t kRowBlock = 64;

template <typename Op, int kVectors, typename T, typename P>
OC_INLINE void ColumnBlock(const T* x, float* y, int64_t rows, int64_t n, P part) {
  vf s[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) s[v] = Set(Op::kStart);
  for (int64_t r = 0; r < rows; ++r, x += n) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) s[v] = Op::F(s[v], Load(x + v * kLanes, part));
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    float* to = y + v * kLanes;
    Store(to, Op::F(Load(to, part), s[v]), part);
  }
}

template <typename Op, typename T>
void Columns(const void* x_bytes, float* y, int64_t rows, int64_t n, int64_t begin, int64_t end) {
  const T* x = static_cast<const T*>(x_bytes);
  for (int64_t r = 0; r < rows; r += kRowBlock) {
    const int64_t count = rows - r < kRowBlock ? rows - r : kRowBlock;
    int64_t c = begin;
    for (; c + 4 * kLanes <= end; c += 4 * kLanes) {
      ColumnBlock<Op, 4>(x + r * n + c, y + c, count, n, Full{});
    }
    ForVectors(end - c, [&](int64_t j, auto part) OC_LAMBDA {
      ColumnBlock<Op, 1>(x + r * n + c + j, y + c + j, count, n, part);
    });
  }
}

template <typename T>
void StoreT(const float* x, void* y_bytes, int64_t n, float scale, bool accumulate) {
  T* y = static_cast<T*>(y_bytes);
  ForVectors(n, [&](int64_t i, auto part) OC_LAMBDA {
    vf v = Load(x + i, part) * scale;
    if (accumulate) v = Load(y + i, part) + v;
    Store(y + i, v, part);
  });
}

}  // namespace

const ReduceLoops kReduceLoops = {
    .rows = {{SumRows<float>, SumRows<bf16>, SumRows<f16>},
             {MaxRows<float>, MaxRows<bf16>, MaxRows<f16>}},
    .columns = {{Columns<SumOp, float>, Columns<SumOp, bf16>, Columns<SumOp, f16>},
                {Columns<MaxOp, float>, Columns<MaxOp, bf16>, Columns<MaxOp, f16>}},
    .store = {StoreT<float>, StoreT<bf16>, StoreT<f16>},
};

}  // namespace oc::cpu::OC_CPU_ISA

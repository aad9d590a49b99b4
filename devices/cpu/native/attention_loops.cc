#include "openclaw/devices/cpu/native/attention_loops.h"

#include "openclaw/devices/cpu/native/small_product.h"
#include "openclaw/devices/cpu/native/transpose8.h"
#include "openclaw/devices/cpu/native/vmath.h"

namespace oc::cpu::OC_CPU_ISA {
namespace {

// Queries whose scores are in memory at a time. Of causal scores, only blocks of keys up to the
// last query of the block are computed.
constexpr int64_t kQueries = 32;
// Keys in the product of probabilities and values: what is read again for each tile stays in cache.
constexpr int64_t kKeys = 256;

OC_INLINE int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The scratch of one worker. Matrices have rows of `width` columns, padded with zeros; panels hold
// a transposed matrix, kPanel keys at a time: [keys / kPanel][D][kPanel].
struct Scratch {
  int64_t width, keys, score_stride, floats = 0;
  float *k, *v, *k_panels, *v_panels;     // keys and values
  float *q, *out, *scores;                // a block of queries
  float *dk, *dv, *dy, *dscores, *delta;  // the backward's

  float* Take(float* base, int64_t n) {
    float* at = base + floats;
    floats += RoundUp(n, 16);
    return at;
  }
  OC_INLINE Scratch(const AttentionShape& s, float* base, bool backward) {
    width = RoundUp(s.width, kLanes);
    keys = RoundUp(s.length, kPanel);
    // Not a power of two: rows would fall into the same sets of the first cache.
    score_stride = keys + 16;
    k = Take(base, keys * width);
    v = Take(base, keys * width);
    k_panels = Take(base, keys * s.width);
    q = Take(base, kQueries * width);
    out = Take(base, kQueries * width);
    scores = Take(base, kQueries * score_stride);
    if (!backward) return;
    v_panels = Take(base, keys * s.width);
    dk = Take(base, keys * width);
    dv = Take(base, keys * width);
    dy = Take(base, kQueries * width);
    dscores = Take(base, kQueries * score_stride);
    delta = Take(base, kQueries);
  }
};

// to[i][c] = scale * from[i][c] for c < D, 0 beyond; rows beyond `rows` up to `padded_rows` are
// zero.
template <typename T>
void LoadRows(const T* from, int64_t from_stride, int64_t rows, int64_t padded_rows, int64_t d,
              float scale, float* to, int64_t width) {
  for (int64_t i = 0; i < rows; ++i, from += from_stride, to += width) {
    ForVectors(d, [&](int64_t c, auto part) OC_LAMBDA {
      Store(to + c, Load(from + c, part) * scale);  // a partial load's other lanes are zero
    });
  }
  __builtin_memset(to, 0, static_cast<uint64_t>((padded_rows - rows) * width) * sizeof(float));
}

template <typename T>
void StoreRows(const float* from, int64_t width, int64_t rows, int64_t d, float scale, T* to,
               int64_t to_stride) {
  for (int64_t i = 0; i < rows; ++i, from += width, to += to_stride) {
    ForVectors(d, [&](int64_t c, auto part)
                      OC_LAMBDA { Store(to + c, Load(from + c, part) * scale, part); });
  }
}

void MakePanels(const float* from, int64_t keys, int64_t d, int64_t width, float* panels) {
  for (int64_t p = 0; p < keys; p += kPanel, from += kPanel * width, panels += kPanel * d) {
    int64_t c = 0;
    for (; c + 8 <= d; c += 8) {
      for (int64_t i = 0; i < kPanel; i += 8) {
        Block8(reinterpret_cast<const uint32_t*>(from + i * width + c),
               reinterpret_cast<uint32_t*>(panels + c * kPanel + i), width, kPanel);
      }
    }
    for (; c < d; ++c) {
      for (int64_t i = 0; i < kPanel; ++i) panels[c * kPanel + i] = from[i * width + c];
    }
  }
}

// scores[i][j] = rows of `a` times keys j < n, a panel at a time.
OC_INLINE void Scores(const AttentionShape& s, const Scratch& w, const float* a,
                      const float* panels, int64_t rows, int64_t n, float* scores) {
  for (int64_t p = 0; p < n; p += kPanel) {
    Product(rows, kPanel, s.width, {a, w.width, 1}, panels + p * s.width, kPanel,
            {scores + p, w.score_stride});
  }
}

// out = scores[rows][n] times n rows of b.
OC_INLINE void Gather(const Scratch& w, const float* scores, int64_t rows, int64_t n,
                      const float* b, float* out) {
  for (int64_t p = 0; p < n; p += kKeys) {
    Product(rows, w.width, n - p < kKeys ? n - p : kKeys, {scores + p, w.score_stride, 1},
            b + p * w.width, w.width, {out, w.width, p > 0});
  }
}

// The first multiple of kLanes at or after `valid` up to n: zeros. What a whole vector writes
// beyond n is padding.
OC_INLINE void ZeroRest(float* scores, int64_t valid, int64_t n) {
  for (int64_t j = RoundUp(valid, kLanes); j < n; j += kLanes) Store(scores + j, vf{});
}

// Scores become exp(score - largest), 0 from `valid` to n; returns the sum, and the largest.
OC_INLINE float Exponentials(float* scores, int64_t valid, int64_t n, float* largest) {
  float m = scores[0];
  if (valid < kLanes) {
    for (int64_t j = 1; j < valid; ++j) m = m > scores[j] ? m : scores[j];
  } else {
    // The last vector overlaps the one before.
    vf most = Load(scores + valid - kLanes);
    for (int64_t j = 0; j + kLanes <= valid; j += kLanes) most = Max(Load(scores + j), most);
    m = MaxLane(most);
  }
  *largest = m;
  ZeroRest(scores, valid, n);
  return Sum(SumVectors(valid, [&](int64_t j, auto part) OC_LAMBDA {
    const vf e = ZeroTail(Exp(Load(scores + j, part) - m), part);
    Store(scores + j, e);
    return e;
  }));
}

template <typename T>
void LoadHead(const AttentionShape& s, const void* k, const void* v, float* base) {
  const Scratch w(s, base, false);
  LoadRows(static_cast<const T*>(k), s.packed, s.length, w.keys, s.width, 1.0f, w.k, w.width);
  LoadRows(static_cast<const T*>(v), s.packed, s.length, w.keys, s.width, 1.0f, w.v, w.width);
  MakePanels(w.k, w.keys, s.width, w.width, w.k_panels);
}

template <typename T>
void Forward(const AttentionShape& s, const void* q_bytes, void* y_bytes, float* lse, float* base) {
  const Scratch w(s, base, false);
  const T* q = static_cast<const T*>(q_bytes);
  T* y = static_cast<T*>(y_bytes);
  for (int64_t i = 0; i < s.length; i += kQueries) {
    const int64_t rows = s.length - i < kQueries ? s.length - i : kQueries;
    const int64_t n = s.causal ? i + rows : s.length;
    LoadRows(q + i * s.packed, s.packed, rows, rows, s.width, s.scale, w.q, w.width);
    Scores(s, w, w.q, w.k_panels, rows, n, w.scores);
    float inverse[kQueries];
    for (int64_t r = 0; r < rows; ++r) {
      float largest;
      const float sum =
          Exponentials(w.scores + r * w.score_stride, s.causal ? i + r + 1 : n, n, &largest);
      lse[i + r] = largest + __builtin_logf(sum);
      inverse[r] = 1.0f / sum;
    }
    Gather(w, w.scores, rows, n, w.v, w.out);
    for (int64_t r = 0; r < rows; ++r) {
      StoreRows(w.out + r * w.width, w.width, 1, s.width, inverse[r], y + (i + r) * s.row, s.row);
    }
  }
}

template <typename T>
void LoadHeadBackward(const AttentionShape& s, const void* k, const void* v, float* base) {
  const Scratch w(s, base, true);
  LoadRows(static_cast<const T*>(k), s.packed, s.length, w.keys, s.width, 1.0f, w.k, w.width);
  LoadRows(static_cast<const T*>(v), s.packed, s.length, w.keys, s.width, 1.0f, w.v, w.width);
  MakePanels(w.k, w.keys, s.width, w.width, w.k_panels);
  MakePanels(w.v, w.keys, s.width, w.width, w.v_panels);
  const uint64_t bytes = static_cast<uint64_t>(w.keys * w.width) * sizeof(float);
  __builtin_memset(w.dk, 0, bytes);
  __builtin_memset(w.dv, 0, bytes);
}

// With P the probabilities: dV = P' dY, dP = dY V', dS = P (dP - sum(dY Y)), dQ = scale dS K,
// dK = scale dS' Q.
template <typename T>
void Backward(const AttentionShape& s, const void* dy_bytes, const void* q_bytes,
              const void* y_bytes, const float* lse, void* dq_bytes, float* base) {
  const Scratch w(s, base, true);
  const T* dy = static_cast<const T*>(dy_bytes);
  const T* q = static_cast<const T*>(q_bytes);
  const T* y = static_cast<const T*>(y_bytes);
  T* dq = static_cast<T*>(dq_bytes);
  for (int64_t i = 0; i < s.length; i += kQueries) {
    const int64_t rows = s.length - i < kQueries ? s.length - i : kQueries;
    const int64_t n = s.causal ? i + rows : s.length;
    LoadRows(q + i * s.packed, s.packed, rows, rows, s.width, s.scale, w.q, w.width);
    LoadRows(dy + i * s.row, s.row, rows, rows, s.width, 1.0f, w.dy, w.width);
    Scores(s, w, w.q, w.k_panels, rows, n, w.scores);
    Scores(s, w, w.dy, w.v_panels, rows, n, w.dscores);
    for (int64_t r = 0; r < rows; ++r) {
      const T* of_row = y + (i + r) * s.row;
      const float* dy_row = w.dy + r * w.width;
      const float delta = Sum(SumVectors(s.width, [&](int64_t c, auto part) OC_LAMBDA {
        return Load(of_row + c, part) * Load(dy_row + c, part);
      }));
      float* p = w.scores + r * w.score_stride;
      float* ds = w.dscores + r * w.score_stride;
      const int64_t valid = s.causal ? i + r + 1 : n;
      const float shift = lse[i + r];
      ForVectors(valid, [&](int64_t j, auto part) OC_LAMBDA {
        const vf e = ZeroTail(Exp(Load(p + j, part) - shift), part);
        Store(p + j, e);
        Store(ds + j, e * (Load(ds + j, part) - delta));
      });
      ZeroRest(p, valid, n);
      ZeroRest(ds, valid, n);
    }
    Product(n, w.width, rows, {w.scores, 1, w.score_stride}, w.dy, w.width, {w.dv, w.width, true});
    Product(n, w.width, rows, {w.dscores, 1, w.score_stride}, w.q, w.width, {w.dk, w.width, true});
    Gather(w, w.dscores, rows, n, w.k, w.out);
    StoreRows(w.out, w.width, rows, s.width, s.scale, dq + i * s.packed, s.packed);
  }
}

template <typename T>
void StoreHead(const AttentionShape& s, void* dk, void* dv, const float* base) {
  const Scratch w(s, const_cast<float*>(base), true);
  StoreRows(w.dk, w.width, s.length, s.width, 1.0f, static_cast<T*>(dk), s.packed);
  StoreRows(w.dv, w.width, s.length, s.width, 1.0f, static_cast<T*>(dv), s.packed);
}

int64_t ForwardFloats(const AttentionShape& s) { return Scratch(s, nullptr, false).floats; }
int64_t BackwardFloats(const AttentionShape& s) { return Scratch(s, nullptr, true).floats; }

}  // namespace

const AttentionLoops kAttentionLoops = {
    .forward_floats = ForwardFloats,
    .backward_floats = BackwardFloats,
    .load = {LoadHead<float>, LoadHead<bf16>, LoadHead<f16>},
    .forward = {Forward<float>, Forward<bf16>, Forward<f16>},
    .load_backward = {LoadHeadBackward<float>, LoadHeadBackward<bf16>, LoadHeadBackward<f16>},
    .backward = {Backward<float>, Backward<bf16>, Backward<f16>},
    .store_backward = {StoreHead<float>, StoreHead<bf16>, StoreHead<f16>},
};

}  // namespace oc::cpu::OC_CPU_ISA

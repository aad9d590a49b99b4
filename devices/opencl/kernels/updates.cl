// State in place, norms, dropout. P: the elements of what is changed, G: of gradients and of
// what state takes up.
#ifdef P
__kernel void accumulate(ARG(P, state), ARG(G, x), ARG(P, y), idx n) {
  USE(P, state);
  USE(G, x);
  USE(P, y);
  const idx i = (idx)get_global_id(0);
  if (i < n) STORE(P, y, i, LOAD(P, state, i) + LOAD(G, x, i));
}

__kernel void lerp(ARG(P, state), ARG(G, x), ARG(P, y), idx n, float rate) {
  USE(P, state);
  USE(G, x);
  USE(P, y);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const float before = LOAD(P, state, i);
  STORE(P, y, i, before + rate * (LOAD(G, x, i) - before));
}

// The first step's x as it is.
__kernel void ema(ARG(P, average), ARG(G, x), ARG(float, step), ARG(P, y), idx n, float rate) {
  USE(P, average);
  USE(G, x);
  USE(float, step);
  USE(P, y);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const float before = LOAD(P, average, i), next = LOAD(G, x, i);
  STORE(P, y, i, step[0] < 1.5f ? next : before + rate * (next - before));
}
#endif

#ifdef T
// A group a chunk.
__kernel void chunk_squares(ARG(T, x), ARG(float, y), idx n, idx chunk) {
  USE(T, x);
  USE(float, y);
  __local acc scratch[ROW];
  const idx group = (idx)get_group_id(0), end = min(n, (group + 1) * chunk);
  acc sum = 0;
  for (idx i = group * chunk + (idx)get_local_id(0); i < end; i += ROW) {
    const float value = LOAD(T, x, i);
    sum += (acc)value * value;
  }
  sum = group_sum_acc(sum, scratch);
  if (get_local_id(0) == 0) y[group] = (float)sum;
}
#endif

__kernel void clip_factor(ARG(float, sum), ARG(float, y), float limit) {
  USE(float, sum);
  USE(float, y);
  if (get_global_id(0) == 0) y[0] = isinf(limit) ? 1 : fmin(1.0f, limit / (sqrt(sum[0]) + 1e-6f));
}

// One group.
__kernel void sum_partials(ARG(float, partials), ARG(float, y), idx n, int accumulate) {
  USE(float, partials);
  USE(float, y);
  __local acc scratch[ROW];
  acc sum = 0;
  for (idx i = (idx)get_local_id(0); i < n; i += ROW) sum += partials[i];
  sum = group_sum_acc(sum, scratch);
  if (get_local_id(0) == 0) y[0] = accumulate ? y[0] + (float)sum : (float)sum;
}

// Philox4x32-10, bit for bit as core/rng.h has it: word `index` of `stream`.
uint philox_word(ulong key, ulong stream, ulong index) {
  const ulong low = index / 4;
  uint c0 = (uint)low, c1 = (uint)(low >> 32), c2 = (uint)stream, c3 = (uint)(stream >> 32);
  uint k0 = (uint)key, k1 = (uint)(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const ulong p0 = 0xD2511F53UL * c0, p1 = 0xCD9E8D57UL * c2;
    c0 = (uint)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint)p1;
    c2 = (uint)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const uint word = (uint)(index % 4);
  return word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
}

// numbers: seed, step, first sample.
__kernel void dropout(ARG(E, x), ARG(long, numbers), ARG(E, y), idx n, ulong stream,
                      ulong sample_size, float p, float scale) {
  USE(E, x);
  USE(long, numbers);
  USE(E, y);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const ulong own_stream = stream ^ ((ulong)numbers[1] * 0x9E3779B97F4A7C15UL);
  const ulong index = (ulong)numbers[2] * sample_size + (ulong)i;
  const uint word = philox_word((ulong)numbers[0], own_stream, index);
  PUT(y, i, (float)(word >> 8) * 0x1p-24f >= p ? GET(x, i) * scale : 0.0f);
}

// State in place, optimizers, dropout. P: the elements of what is changed, G: of gradients and of
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

__kernel void sgd(ARG(P, p), ARG(G, g), ARG(float, lr), ARG(float, clip),
                  ARG(P, buffer), ARG(P, new_p), ARG(P, new_buffer), idx n,
                  float momentum, float decay, int nesterov, int has_buffer) {
  USE(P, p);
  USE(G, g);
  USE(float, lr);
  USE(float, clip);
  USE(P, buffer);
  USE(P, new_p);
  USE(P, new_buffer);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const float before = LOAD(P, p, i);
  float step = clip[0] * LOAD(G, g, i) + decay * before;
  if (has_buffer) {
    const float kept = momentum * LOAD(P, buffer, i) + step;
    step = nesterov ? step + momentum * kept : kept;
    STORE(P, new_buffer, i, kept);
  }
  STORE(P, new_p, i, before - lr[0] * step);
}

__kernel void adamw(ARG(P, p), ARG(G, g), ARG(P, m), ARG(P, v), ARG(float, lr),
                    ARG(float, clip), ARG(float, corrections), ARG(P, new_p),
                    ARG(P, new_m), ARG(P, new_v), idx n, float beta1, float rest1,
                    float beta2, float rest2, float eps, float decay) {
  USE(P, p);
  USE(G, g);
  USE(P, m);
  USE(P, v);
  USE(float, lr);
  USE(float, clip);
  USE(float, corrections);
  USE(P, new_p);
  USE(P, new_m);
  USE(P, new_v);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const float before = LOAD(P, p, i), gradient = clip[0] * LOAD(G, g, i);
  const float mean = beta1 * LOAD(P, m, i) + rest1 * gradient;
  const float square = beta2 * LOAD(P, v, i) + rest2 * gradient * gradient;
  const float update = mean / corrections[0] / (sqrt(square / corrections[1]) + eps);
  STORE(P, new_p, i, before - lr[0] * decay * before - lr[0] * update);
  STORE(P, new_m, i, mean);
  STORE(P, new_v, i, square);
}
#endif

__kernel void clip_factor(ARG(float, sum), ARG(float, y), float limit) {
  USE(float, sum);
  USE(float, y);
  if (get_global_id(0) == 0) y[0] = isinf(limit) ? 1 : fmin(1.0f, limit / (sqrt(sum[0]) + 1e-6f));
}

// 1 - beta^step of both betas, once for all elements. log_beta: nothing cancels.
__kernel void adamw_corrections(ARG(float, step), ARG(float, corrections), float log_beta1,
                                float log_beta2) {
  USE(float, step);
  USE(float, corrections);
  if (get_global_id(0) != 0) return;
  corrections[0] = -expm1(step[0] * log_beta1);
  corrections[1] = -expm1(step[0] * log_beta2);
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

// State in place, optimizers, dropout.
__kernel void accumulate(ARG(float, state), ARG(float, x), ARG(float, y), idx n) {
  USE(float, state);
  USE(float, x);
  USE(float, y);
  const idx i = (idx)get_global_id(0);
  if (i < n) y[i] = state[i] + x[i];
}

__kernel void lerp(ARG(float, state), ARG(float, x), ARG(float, y), idx n, float rate) {
  USE(float, state);
  USE(float, x);
  USE(float, y);
  const idx i = (idx)get_global_id(0);
  if (i < n) y[i] = state[i] + rate * (x[i] - state[i]);
}

__kernel void clip_factor(ARG(float, sum), ARG(float, y), float limit) {
  USE(float, sum);
  USE(float, y);
  if (get_global_id(0) == 0) y[0] = isinf(limit) ? 1 : fmin(1.0f, limit / (sqrt(sum[0]) + 1e-6f));
}

__kernel void sgd(ARG(float, p), ARG(float, g), ARG(float, lr), ARG(float, clip),
                  ARG(float, buffer), ARG(float, new_p), ARG(float, new_buffer), idx n,
                  float momentum, float decay, int nesterov, int has_buffer) {
  USE(float, p);
  USE(float, g);
  USE(float, lr);
  USE(float, clip);
  USE(float, buffer);
  USE(float, new_p);
  USE(float, new_buffer);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  float step = clip[0] * g[i] + decay * p[i];
  if (has_buffer) {
    const float kept = momentum * buffer[i] + step;
    step = nesterov ? step + momentum * kept : kept;
    new_buffer[i] = kept;
  }
  new_p[i] = p[i] - lr[0] * step;
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

__kernel void adamw(ARG(float, p), ARG(float, g), ARG(float, m), ARG(float, v), ARG(float, lr),
                    ARG(float, clip), ARG(float, corrections), ARG(float, new_p),
                    ARG(float, new_m), ARG(float, new_v), idx n, float beta1, float rest1,
                    float beta2, float rest2, float eps, float decay) {
  USE(float, p);
  USE(float, g);
  USE(float, m);
  USE(float, v);
  USE(float, lr);
  USE(float, clip);
  USE(float, corrections);
  USE(float, new_p);
  USE(float, new_m);
  USE(float, new_v);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const float gradient = clip[0] * g[i];
  const float mean = beta1 * m[i] + rest1 * gradient;
  const float square = beta2 * v[i] + rest2 * gradient * gradient;
  const float update = mean / corrections[0] / (sqrt(square / corrections[1]) + eps);
  new_p[i] = p[i] - lr[0] * decay * p[i] - lr[0] * update;
  new_m[i] = mean;
  new_v[i] = square;
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
__kernel void dropout(ARG(float, x), ARG(long, numbers), ARG(float, y), idx n, ulong stream,
                      ulong sample_size, float p, float scale) {
  USE(float, x);
  USE(long, numbers);
  USE(float, y);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const ulong own_stream = stream ^ ((ulong)numbers[1] * 0x9E3779B97F4A7C15UL);
  const ulong index = (ulong)numbers[2] * sample_size + (ulong)i;
  const uint word = philox_word((ulong)numbers[0], own_stream, index);
  y[i] = (float)(word >> 8) * 0x1p-24f >= p ? x[i] * scale : 0;
}

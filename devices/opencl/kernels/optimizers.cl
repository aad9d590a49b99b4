// Optimizers; the formulas stand in optim/NAME.h. P: the elements of parameters and states, G: of
// gradients (of steps in decayed_step).

// A gradient times the clip factor, within +-limit; what is no number stays none.
float clipped(float g, float clip, float limit) {
  const float scaled = g * clip;
  return scaled > limit ? limit : scaled < -limit ? -limit : scaled;
}
#define GRADIENT(i) clipped(LOAD(G, g, i), clip[0], limit)

#ifdef P
__kernel void sgd(ARG(P, p), ARG(G, g), ARG(P, buffer), ARG(float, lr), ARG(float, clip),
                  ARG(P, new_p), ARG(P, new_buffer), idx n, float limit, float rate_scale,
                  float momentum, float decay, int nesterov, int has_buffer) {
  USE(P, p);
  USE(G, g);
  USE(P, buffer);
  USE(float, lr);
  USE(float, clip);
  USE(P, new_p);
  USE(P, new_buffer);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const float before = LOAD(P, p, i);
  float step = GRADIENT(i) + decay * before;
  if (has_buffer) {
    const float kept = momentum * LOAD(P, buffer, i) + step;
    step = nesterov ? step + momentum * kept : kept;
    STORE(P, new_buffer, i, kept);
  }
  STORE(P, new_p, i, before - lr[0] * rate_scale * step);
}

// decay: of p into the gradient; decoupled: of p itself.
__kernel void adam(ARG(P, p), ARG(G, g), ARG(P, m), ARG(P, v), ARG(float, lr), ARG(float, clip),
                   ARG(float, corrections), ARG(P, new_p), ARG(P, new_m), ARG(P, new_v), idx n,
                   float limit, float rate_scale, float beta1, float rest1, float beta2,
                   float rest2, float eps, float decay, float decoupled) {
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
  const float before = LOAD(P, p, i), rate = lr[0] * rate_scale;
  const float gradient = GRADIENT(i) + decay * before;
  const float mean = beta1 * LOAD(P, m, i) + rest1 * gradient;
  const float square = beta2 * LOAD(P, v, i) + rest2 * gradient * gradient;
  const float update = mean / corrections[0] / (sqrt(square / corrections[1]) + eps);
  STORE(P, new_p, i, before - rate * decoupled * before - rate * update);
  STORE(P, new_m, i, mean);
  STORE(P, new_v, i, square);
}

__kernel void lion(ARG(P, p), ARG(G, g), ARG(P, m), ARG(float, lr), ARG(float, clip),
                   ARG(P, new_p), ARG(P, new_m), idx n, float limit, float rate_scale, float beta1,
                   float rest1, float beta2, float rest2, float decay) {
  USE(P, p);
  USE(G, g);
  USE(P, m);
  USE(float, lr);
  USE(float, clip);
  USE(P, new_p);
  USE(P, new_m);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const float before = LOAD(P, p, i), rate = lr[0] * rate_scale;
  const float gradient = GRADIENT(i), mean = LOAD(P, m, i);
  const float mixed = beta1 * mean + rest1 * gradient;
  const float sign = (float)(mixed > 0) - (float)(mixed < 0);
  STORE(P, new_p, i, before - rate * decay * before - rate * sign);
  STORE(P, new_m, i, beta2 * mean + rest2 * gradient);
}

float wanted_step(float p, float m, float v, __global const float *corrections, float eps,
                  float decay) {
  return m / corrections[0] / (sqrt(v / corrections[1]) + eps) + decay * p;
}

// A group a chunk of the tensor.
__kernel void lamb_moments(ARG(P, p), ARG(G, g), ARG(P, m), ARG(P, v), ARG(float, clip),
                           ARG(float, corrections), ARG(P, new_m), ARG(P, new_v),
                           ARG(float, p_squares), ARG(float, step_squares), idx n, idx chunk,
                           float limit, float beta1, float rest1, float beta2, float rest2,
                           float eps, float decay) {
  USE(P, p);
  USE(G, g);
  USE(P, m);
  USE(P, v);
  USE(float, clip);
  USE(float, corrections);
  USE(P, new_m);
  USE(P, new_v);
  USE(float, p_squares);
  USE(float, step_squares);
  __local acc scratch[ROW];
  const idx group = (idx)get_group_id(0), end = min(n, (group + 1) * chunk);
  acc p_sum = 0, step_sum = 0;
  for (idx i = group * chunk + (idx)get_local_id(0); i < end; i += ROW) {
    const float before = LOAD(P, p, i), gradient = GRADIENT(i);
    STORE(P, new_m, i, beta1 * LOAD(P, m, i) + rest1 * gradient);
    STORE(P, new_v, i, beta2 * LOAD(P, v, i) + rest2 * gradient * gradient);
    // As lamb_step sees them.
    const float step =
        wanted_step(before, LOAD(P, new_m, i), LOAD(P, new_v, i), corrections, eps, decay);
    p_sum += (acc)before * before;
    step_sum += (acc)step * step;
  }
  p_sum = group_sum_acc(p_sum, scratch);
  step_sum = group_sum_acc(step_sum, scratch);
  if (get_local_id(0) != 0) return;
  p_squares[group] = (float)p_sum;
  step_squares[group] = (float)step_sum;
}

__kernel void lamb_step(ARG(P, p), ARG(P, m), ARG(P, v), ARG(float, corrections),
                        ARG(float, rate), ARG(P, new_p), idx n, float eps, float decay) {
  USE(P, p);
  USE(P, m);
  USE(P, v);
  USE(float, corrections);
  USE(float, rate);
  USE(P, new_p);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const float before = LOAD(P, p, i);
  const float step =
      wanted_step(before, LOAD(P, m, i), LOAD(P, v, i), corrections, eps, decay);
  STORE(P, new_p, i, before - rate[0] * step);
}

__kernel void muon_momentum(ARG(G, g), ARG(P, m), ARG(float, clip), ARG(P, u), ARG(P, new_m),
                            idx n, float limit, float momentum, float rest, int nesterov) {
  USE(G, g);
  USE(P, m);
  USE(float, clip);
  USE(P, u);
  USE(P, new_m);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const float gradient = GRADIENT(i), before = LOAD(P, m, i);
  const float after = before + rest * (gradient - before);
  STORE(P, new_m, i, after);
  STORE(P, u, i, nesterov ? gradient + momentum * (after - gradient) : after);
}

__kernel void decayed_step(ARG(P, p), ARG(G, g), ARG(float, lr), ARG(P, new_p), idx n,
                           float rate_scale, float factor, float decay) {
  USE(P, p);
  USE(G, g);
  USE(float, lr);
  USE(P, new_p);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const float before = LOAD(P, p, i), rate = lr[0] * rate_scale;
  STORE(P, new_p, i, before - rate * decay * before - rate * factor * LOAD(G, g, i));
}
#endif

// 1 - beta^step of both betas, once for all elements. log_beta: nothing cancels.
__kernel void corrections(ARG(float, step), ARG(float, corrections), float log_beta1,
                          float log_beta2) {
  USE(float, step);
  USE(float, corrections);
  if (get_global_id(0) != 0) return;
  corrections[0] = -expm1(step[0] * log_beta1);
  corrections[1] = -expm1(step[0] * log_beta2);
}

// lr times the ratio of a tensor's norms.
__kernel void lamb_rate(ARG(float, p_squares), ARG(float, step_squares), ARG(float, lr),
                        ARG(float, rate), idx chunks, float rate_scale) {
  USE(float, p_squares);
  USE(float, step_squares);
  USE(float, lr);
  USE(float, rate);
  if (get_global_id(0) != 0) return;
  acc p_sum = 0, step_sum = 0;
  for (idx c = 0; c < chunks; ++c) {
    p_sum += p_squares[c];
    step_sum += step_squares[c];
  }
  const bool some = p_sum > 0 && step_sum > 0;
  rate[0] = lr[0] * rate_scale * (some ? (float)sqrt(p_sum / step_sum) : 1.0f);
}

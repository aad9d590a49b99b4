// Norms of rows, a group each: CENTRED (layer norm) or not (RMS norm); GAMMA and BETA where there
// are such operands. And what batch norm does element by element.
#ifdef GAMMA
#define WITH_GAMMA(value, c) ((value) * gamma[c])
#else
#define WITH_GAMMA(value, c) (value)
#endif
#ifdef BETA
#define WITH_BETA(value, c) ((value) + beta[c])
#else
#define WITH_BETA(value, c) (value)
#endif

__kernel void norm(ARG(float, x), ARG(float, gamma), ARG(float, beta), ARG(float, y),
                   ARG(float, means), ARG(float, rstds), idx columns, float eps) {
  USE(float, x);
  USE(float, gamma);
  USE(float, beta);
  USE(float, y);
  USE(float, means);
  USE(float, rstds);
  __local float scratch[ROW];
  const idx row = (idx)get_group_id(0), lid = (idx)get_local_id(0), at = row * columns;
  float mean = 0, square = 0;
#ifdef CENTRED
  for (idx c = lid; c < columns; c += ROW) mean += x[at + c];
  mean = group_sum(mean, scratch) / columns;
#endif
  for (idx c = lid; c < columns; c += ROW) square += (x[at + c] - mean) * (x[at + c] - mean);
  const float rstd = 1.0f / sqrt(group_sum(square, scratch) / columns + eps);
  for (idx c = lid; c < columns; c += ROW) {
    y[at + c] = WITH_BETA(WITH_GAMMA((x[at + c] - mean) * rstd, c), c);
  }
  if (lid == 0) {
    rstds[row] = rstd;
#ifdef CENTRED
    means[row] = mean;
#endif
  }
}

// With g = dy * gamma and xhat = (x - mean) * rstd: dx = rstd * (g - mean(g) - xhat * mean(g *
// xhat)), without the mean of g for RMS norm. dx may be the memory of dy.
__kernel void norm_grad(ARG(float, dy), ARG(float, x), ARG(float, gamma), ARG(float, means),
                        ARG(float, rstds), ARG(float, dx), idx columns) {
  USE(float, dy);
  USE(float, x);
  USE(float, gamma);
  USE(float, means);
  USE(float, rstds);
  USE(float, dx);
  __local acc scratch[ROW];
  const idx row = (idx)get_group_id(0), lid = (idx)get_local_id(0), at = row * columns;
  // Of few columns nearly all of g goes: what is left is as good as the sums are.
#ifdef CENTRED
  const acc mean = means[row];
#else
  const acc mean = 0;
#endif
  const acc rstd = rstds[row];
  acc sum_g = 0, sum_gx = 0;
  for (idx c = lid; c < columns; c += ROW) {
    const acc g = WITH_GAMMA((acc)dy[at + c], c);
    sum_g += g;
    sum_gx += g * (x[at + c] - mean) * rstd;
  }
#ifdef CENTRED
  const acc mean_g = group_sum_acc(sum_g, scratch) / columns;
#else
  const acc mean_g = 0;
#endif
  const acc mean_gx = group_sum_acc(sum_gx, scratch) / columns;
  for (idx c = lid; c < columns; c += ROW) {
    const acc g = WITH_GAMMA((acc)dy[at + c], c);
    dx[at + c] = (float)(rstd * (g - mean_g - (x[at + c] - mean) * rstd * mean_gx));
  }
}

__kernel void batch_norm(ARG(float, x), ARG(float, gamma), ARG(float, beta), ARG(float, mean),
                         ARG(float, var), ARG(float, y), idx n, idx channels, float eps,
                         idx relu) {
  USE(float, x);
  USE(float, gamma);
  USE(float, beta);
  USE(float, mean);
  USE(float, var);
  USE(float, y);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const idx c = i % channels;
  const float value = (x[i] - mean[c]) * (1.0f / sqrt(var[c] + eps)) * gamma[c] + beta[c];
  y[i] = relu && value < 0 ? 0 : value;
}

__kernel void batch_norm_grad(ARG(float, dy), ARG(float, x), ARG(float, gamma), ARG(float, beta),
                              ARG(float, mean), ARG(float, var), ARG(float, dgamma),
                              ARG(float, dbeta), ARG(float, dx), idx n, idx channels, float eps,
                              float rows, idx relu) {
  USE(float, dy);
  USE(float, x);
  USE(float, gamma);
  USE(float, beta);
  USE(float, mean);
  USE(float, var);
  USE(float, dgamma);
  USE(float, dbeta);
  USE(float, dx);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const idx c = i % channels;
  const float rstd = 1.0f / sqrt(var[c] + eps);
  const float xhat = (x[i] - mean[c]) * rstd;
  const float gated = relu && xhat * gamma[c] + beta[c] <= 0 ? 0 : dy[i];
  dx[i] = gamma[c] * rstd * (gated - dbeta[c] / rows - xhat * dgamma[c] / rows);
}

__kernel void times(ARG(float, x), ARG(float, y), idx n, float factor) {
  USE(float, x);
  USE(float, y);
  const idx i = (idx)get_global_id(0);
  if (i < n) y[i] = x[i] * factor;
}

// Norms of rows, a group each: CENTRED (layer norm) or not (RMS norm); GAMMA and BETA where there
// are such operands. And what batch norm does element by element.
#ifdef GAMMA
#define WITH_GAMMA(value, c) ((value) * GET(gamma, c))
#else
#define WITH_GAMMA(value, c) (value)
#endif
#ifdef BETA
#define WITH_BETA(value, c) ((value) + GET(beta, c))
#else
#define WITH_BETA(value, c) (value)
#endif

__kernel void norm(ARG(E, x), ARG(E, gamma), ARG(E, beta), ARG(E, y),
                   ARG(float, means), ARG(float, rstds), idx columns, float eps) {
  USE(E, x);
  USE(E, gamma);
  USE(E, beta);
  USE(E, y);
  USE(float, means);
  USE(float, rstds);
  __local float scratch[ROW];
  const idx row = (idx)get_group_id(0), lid = (idx)get_local_id(0), at = row * columns;
  float mean = 0, square = 0;
#ifdef CENTRED
  for (idx c = lid; c < columns; c += ROW) mean += GET(x, at + c);
  mean = group_sum(mean, scratch) / columns;
#endif
  for (idx c = lid; c < columns; c += ROW) {
    const float centred = GET(x, at + c) - mean;
    square += centred * centred;
  }
  const float rstd = 1.0f / sqrt(group_sum(square, scratch) / columns + eps);
  for (idx c = lid; c < columns; c += ROW) {
    PUT(y, at + c, WITH_BETA(WITH_GAMMA((GET(x, at + c) - mean) * rstd, c), c));
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
__kernel void norm_grad(ARG(E, dy), ARG(E, x), ARG(E, gamma), ARG(float, means),
                        ARG(float, rstds), ARG(E, dx), idx columns) {
  USE(E, dy);
  USE(E, x);
  USE(E, gamma);
  USE(float, means);
  USE(float, rstds);
  USE(E, dx);
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
    const acc g = WITH_GAMMA((acc)GET(dy, at + c), c);
    sum_g += g;
    sum_gx += g * (GET(x, at + c) - mean) * rstd;
  }
#ifdef CENTRED
  const acc mean_g = group_sum_acc(sum_g, scratch) / columns;
#else
  const acc mean_g = 0;
#endif
  const acc mean_gx = group_sum_acc(sum_gx, scratch) / columns;
  for (idx c = lid; c < columns; c += ROW) {
    const acc g = WITH_GAMMA((acc)GET(dy, at + c), c);
    const acc xhat = (GET(x, at + c) - mean) * rstd;
    PUT(dx, at + c, (float)(rstd * (g - mean_g - xhat * mean_gx)));
  }
}

__kernel void batch_norm(ARG(E, x), ARG(E, gamma), ARG(E, beta), ARG(float, mean),
                         ARG(float, var), ARG(E, y), idx n, idx channels, float eps,
                         idx relu) {
  USE(E, x);
  USE(E, gamma);
  USE(E, beta);
  USE(float, mean);
  USE(float, var);
  USE(E, y);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const idx c = i % channels;
  const float xhat = (GET(x, i) - mean[c]) * (1.0f / sqrt(var[c] + eps));
  const float value = xhat * GET(gamma, c) + GET(beta, c);
  PUT(y, i, relu && value < 0 ? 0 : value);
}

__kernel void batch_norm_grad(ARG(E, dy), ARG(E, x), ARG(E, gamma), ARG(E, beta),
                              ARG(float, mean), ARG(float, var), ARG(float, dgamma),
                              ARG(float, dbeta), ARG(E, dx), idx n, idx channels, float eps,
                              float rows, idx relu) {
  USE(E, dy);
  USE(E, x);
  USE(E, gamma);
  USE(E, beta);
  USE(float, mean);
  USE(float, var);
  USE(float, dgamma);
  USE(float, dbeta);
  USE(E, dx);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const idx c = i % channels;
  const float rstd = 1.0f / sqrt(var[c] + eps);
  const float xhat = (GET(x, i) - mean[c]) * rstd;
  const float gated = relu && xhat * GET(gamma, c) + GET(beta, c) <= 0 ? 0 : GET(dy, i);
  PUT(dx, i, GET(gamma, c) * rstd * (gated - dbeta[c] / rows - xhat * dgamma[c] / rows));
}

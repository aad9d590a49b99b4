// Adafactor (optim/adafactor.h). Parameters and states are f32, gradients of G. factors: how much
// of a new mean is taken up and what is kept of the old (0, 1), then what keeps of p and the step's
// rate (2, 3).

float clipped(float g, float clip, float limit) {
  const float scaled = g * clip;
  return scaled > limit ? limit : scaled < -limit ? -limit : scaled;
}
#define GRADIENT(i) clipped(LOAD(G, g, i), clip[0], limit)

__kernel void fresh_factors(ARG(float, step), ARG(float, factors), float beta2_decay) {
  USE(float, step);
  USE(float, factors);
  if (get_global_id(0) != 0) return;
  // The first step takes up all.
  const float fresh = step[0] == 1 ? 1 : exp(beta2_decay * log(step[0]));
  factors[0] = fresh;
  factors[1] = 1 - fresh;
}

#ifdef G
// A group a row of all matrices.
__kernel void rows(ARG(G, g), ARG(float, row), ARG(float, clip), ARG(float, factors),
                   ARG(float, new_row), idx columns, float limit) {
  USE(G, g);
  USE(float, row);
  USE(float, clip);
  USE(float, factors);
  USE(float, new_row);
  __local acc scratch[ROW];
  const idx r = (idx)get_group_id(0);
  acc sum = 0;
  for (idx c = (idx)get_local_id(0); c < columns; c += ROW) {
    const float gradient = GRADIENT(r * columns + c);
    sum += (acc)gradient * gradient;
  }
  sum = group_sum_acc(sum, scratch);
  if (get_local_id(0) != 0) return;
  new_row[r] = factors[1] * row[r] + factors[0] * (float)(sum / columns);
}

// An item a column of a band of rows: column_sums[band][c]. Bands lie within a matrix.
__kernel void column_bands(ARG(G, g), ARG(float, clip), ARG(float, column_sums), idx row_count,
                           idx columns, idx height, idx bands, idx items, float limit) {
  USE(G, g);
  USE(float, clip);
  USE(float, column_sums);
  const idx item = (idx)get_global_id(0);
  if (item >= items) return;
  const idx band = item / columns, c = item % columns;
  const idx matrix = band / bands, first = band % bands * height;
  const idx end = min(row_count, first + height);
  acc sum = 0;
  for (idx r = first; r < end; ++r) {
    const float gradient = GRADIENT((matrix * row_count + r) * columns + c);
    sum += (acc)gradient * gradient;
  }
  column_sums[item] = (float)sum;
}

__kernel void take_up(ARG(float, v), ARG(G, g), ARG(float, clip), ARG(float, factors),
                      ARG(float, new_v), idx n, float limit) {
  USE(float, v);
  USE(G, g);
  USE(float, clip);
  USE(float, factors);
  USE(float, new_v);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const float gradient = GRADIENT(i);
  new_v[i] = factors[1] * v[i] + factors[0] * gradient * gradient;
}

// The wanted step of element i, of a factored tensor or of one with its whole second moment.
float wanted_step(float gradient, __global const float *row, __global const float *column,
                  __global const float *scales, idx i, idx row_count, idx columns, float least) {
#ifdef FACTORED
  const idx r = i / columns, matrix = r / row_count;
  const float estimate = row[r] * scales[matrix] * column[matrix * columns + i % columns];
#else
  const float estimate = column[i];
#endif
  return gradient / sqrt(fmax(estimate, least));
}

// A group a chunk.
__kernel void squares(ARG(float, p), ARG(G, g), ARG(float, row), ARG(float, column),
                      ARG(float, scales), ARG(float, clip), ARG(float, p_sums),
                      ARG(float, step_sums), idx n, idx chunk, idx row_count, idx columns,
                      float limit, float least) {
  USE(float, p);
  USE(G, g);
  USE(float, row);
  USE(float, column);
  USE(float, scales);
  USE(float, clip);
  USE(float, p_sums);
  USE(float, step_sums);
  __local acc scratch[ROW];
  const idx group = (idx)get_group_id(0), end = min(n, (group + 1) * chunk);
  acc p_sum = 0, step_sum = 0;
  for (idx i = group * chunk + (idx)get_local_id(0); i < end; i += ROW) {
    const float step =
        wanted_step(GRADIENT(i), row, column, scales, i, row_count, columns, least);
    p_sum += (acc)p[i] * p[i];
    step_sum += (acc)step * step;
  }
  p_sum = group_sum_acc(p_sum, scratch);
  step_sum = group_sum_acc(step_sum, scratch);
  if (get_local_id(0) != 0) return;
  p_sums[group] = (float)p_sum;
  step_sums[group] = (float)step_sum;
}

__kernel void apply(ARG(float, p), ARG(G, g), ARG(float, row), ARG(float, column),
                    ARG(float, scales), ARG(float, clip), ARG(float, factors), ARG(float, new_p),
                    idx n, idx row_count, idx columns, float limit, float least) {
  USE(float, p);
  USE(G, g);
  USE(float, row);
  USE(float, column);
  USE(float, scales);
  USE(float, clip);
  USE(float, factors);
  USE(float, new_p);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const float step = wanted_step(GRADIENT(i), row, column, scales, i, row_count, columns, least);
  new_p[i] = factors[2] * p[i] - factors[3] * step;
}
#endif

__kernel void columns(ARG(float, column_sums), ARG(float, column), ARG(float, factors),
                      ARG(float, new_column), idx row_count, idx columns, idx bands, idx items) {
  USE(float, column_sums);
  USE(float, column);
  USE(float, factors);
  USE(float, new_column);
  const idx i = (idx)get_global_id(0);
  if (i >= items) return;
  const idx matrix = i / columns, c = i % columns;
  acc sum = 0;
  for (idx band = matrix * bands; band < (matrix + 1) * bands; ++band) {
    sum += column_sums[band * columns + c];
  }
  new_column[i] = factors[1] * column[i] + factors[0] * (float)(sum / row_count);
}

// One over the mean of a matrix's rows: a group a matrix.
__kernel void matrix_scales(ARG(float, row), ARG(float, scales), idx row_count, float eps1) {
  USE(float, row);
  USE(float, scales);
  __local acc scratch[ROW];
  const idx matrix = (idx)get_group_id(0);
  acc sum = 0;
  for (idx r = (idx)get_local_id(0); r < row_count; r += ROW) sum += row[matrix * row_count + r];
  sum = group_sum_acc(sum, scratch);
  if (get_local_id(0) == 0) scales[matrix] = 1 / fmax((float)(sum / row_count), eps1);
}

__kernel void rates(ARG(float, lr), ARG(float, step), ARG(float, p_sums), ARG(float, step_sums),
                    ARG(float, factors), idx chunks, float n, float rate_scale, float eps2,
                    float d, float decay) {
  USE(float, lr);
  USE(float, step);
  USE(float, p_sums);
  USE(float, step_sums);
  USE(float, factors);
  if (get_global_id(0) != 0) return;
  acc p_sum = 0, step_sum = 0;
  for (idx c = 0; c < chunks; ++c) {
    p_sum += p_sums[c];
    step_sum += step_sums[c];
  }
  const float rate = lr[0] * rate_scale;
  const float size = sqrt((float)(p_sum / n)), excess = sqrt((float)(step_sum / n)) / d;
  factors[2] = 1 - rate * decay;
  factors[3] = fmax(eps2, size) * fmin(rate, 1 / sqrt(step[0])) / fmax(1.0f, excess);
}

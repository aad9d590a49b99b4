// A group a row of `columns` values.
__kernel void softmax(ARG(E, x), ARG(E, y), idx columns) {
  USE(E, x);
  USE(E, y);
  __local float scratch[ROW];
  const idx at = (idx)get_group_id(0) * columns, lid = (idx)get_local_id(0);
  float largest = -INFINITY, sum = 0;
  for (idx j = lid; j < columns; j += ROW) largest = fmax(largest, GET(x, at + j));
  largest = group_max(largest, scratch);
  for (idx j = lid; j < columns; j += ROW) sum += exp(GET(x, at + j) - largest);
  sum = group_sum(sum, scratch);
  for (idx j = lid; j < columns; j += ROW) PUT(y, at + j, exp(GET(x, at + j) - largest) / sum);
}

__kernel void softmax_grad(ARG(E, dy), ARG(E, y), ARG(E, dx), idx columns) {
  USE(E, dy);
  USE(E, y);
  USE(E, dx);
  __local float scratch[ROW];
  const idx at = (idx)get_group_id(0) * columns, lid = (idx)get_local_id(0);
  float dot_sum = 0;
  for (idx j = lid; j < columns; j += ROW) dot_sum += GET(dy, at + j) * GET(y, at + j);
  dot_sum = group_sum(dot_sum, scratch);
  for (idx j = lid; j < columns; j += ROW) {
    PUT(dx, at + j, GET(y, at + j) * (GET(dy, at + j) - dot_sum));
  }
}

__kernel void check_labels(ARG(int, labels), __global int *flags, int code, idx rows, idx columns,
                           idx ignored) {
  USE(int, labels);
  const idx r = (idx)get_global_id(0);
  if (r >= rows || labels[r] == ignored) return;
  if (labels[r] < 0 || labels[r] >= columns) report(flags, code, (int)r, labels[r]);
}

// Log-sum-exp and loss of each row. A label beyond the classes was reported.
__kernel void cross_entropy(ARG(E, x), ARG(int, labels), ARG(float, lse), ARG(float, losses),
                            idx columns, idx ignored) {
  USE(E, x);
  USE(int, labels);
  USE(float, lse);
  USE(float, losses);
  __local float scratch[ROW];
  const idx row = (idx)get_group_id(0), lid = (idx)get_local_id(0), at = row * columns;
  float largest = -INFINITY, sum = 0;
  for (idx j = lid; j < columns; j += ROW) largest = fmax(largest, GET(x, at + j));
  largest = group_max(largest, scratch);
  for (idx j = lid; j < columns; j += ROW) sum += exp(GET(x, at + j) - largest);
  sum = group_sum(sum, scratch);
  if (lid == 0) {
    const int label = labels[row];
    const float value = largest + log(sum);
    const bool counts = label != ignored && label >= 0 && label < columns;
    lse[row] = value;
    losses[row] = counts ? value - GET(x, at + label) : 0;
  }
}

__kernel void cross_entropy_grad(ARG(float, dloss), ARG(E, x), ARG(int, labels),
                                 ARG(float, lse), ARG(E, dx), idx rows, idx columns,
                                 idx ignored) {
  USE(float, dloss);
  USE(E, x);
  USE(int, labels);
  USE(float, lse);
  USE(E, dx);
  const idx i = (idx)get_global_id(0);
  if (i >= rows * columns) return;
  const idx row = i / columns, j = i % columns;
  const float target = j == labels[row] ? 1 : 0;
  const float gradient = dloss[0] * (exp(GET(x, i) - lse[row]) - target);
  PUT(dx, i, labels[row] == ignored ? 0 : gradient);
}

__kernel void valid(ARG(int, labels), ARG(float, y), idx rows, idx ignored) {
  USE(int, labels);
  USE(float, y);
  const idx r = (idx)get_global_id(0);
  if (r < rows) y[r] = labels[r] != ignored ? 1 : 0;
}

// 1 where the first largest of the row is its label.
__kernel void correct(ARG(E, x), ARG(int, labels), ARG(float, y), idx columns, idx ignored) {
  USE(E, x);
  USE(int, labels);
  USE(float, y);
  __local float values[ROW];
  __local int places[ROW];
  const idx row = (idx)get_group_id(0), at = row * columns;
  const int lid = (int)get_local_id(0);
  float best = -INFINITY;
  int place = INT_MAX;
  for (idx j = lid; j < columns; j += ROW) {
    const float value = GET(x, at + j);
    if (value > best || place == INT_MAX) {
      best = value;
      place = (int)j;
    }
  }
  values[lid] = best;
  places[lid] = place;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_width = ROW / 2; half_width > 0; half_width /= 2) {
    if (lid < half_width) {
      const int other = lid + half_width;
      const bool greater = values[other] > values[lid];
      const bool earlier = values[other] == values[lid] && places[other] < places[lid];
      if (places[other] != INT_MAX && (greater || earlier)) {
        values[lid] = values[other];
        places[lid] = places[other];
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lid == 0) y[row] = labels[row] != ignored && places[0] == labels[row] ? 1 : 0;
}

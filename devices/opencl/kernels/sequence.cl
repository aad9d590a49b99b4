// Embeddings, rotary positions, attention.
__kernel void embedding(ARG(int, ids), ARG(E, table), ARG(E, y), __global int *flags,
                        int code, idx count, idx vocabulary, idx width) {
  USE(int, ids);
  USE(E, table);
  USE(E, y);
  const idx i = (idx)get_global_id(0);
  if (i >= count * width) return;
  const idx n = i / width, c = i % width;
  const int id = ids[n];
  if (id >= 0 && id < vocabulary) {
    PUT(y, i, GET(table, id * width + c));
  } else {
    PUT(y, i, 0.0f);
    if (c == 0) report(flags, code, (int)n, id);
  }
}

// For each position: the next one with the same id (-1: none), and whether it is the first.
__kernel void link(ARG(int, ids), ARG(int, next), ARG(int, first), __global int *flags, int code,
                   idx count, idx vocabulary) {
  USE(int, ids);
  USE(int, next);
  USE(int, first);
  const idx n = (idx)get_global_id(0);
  if (n >= count) return;
  const int id = ids[n];
  if (id < 0 || id >= vocabulary) {
    report(flags, code, (int)n, id);
    first[n] = 0;
    return;
  }
  idx before = n - 1, after = n + 1;
  while (before >= 0 && ids[before] != id) --before;
  while (after < count && ids[after] != id) ++after;
  first[n] = before < 0;
  next[n] = after < count ? (int)after : -1;
}

// Rows of an id are added in the order of positions, by the item of the first of them.
__kernel void add_rows(ARG(E, dy), ARG(int, ids), ARG(int, next), ARG(int, first),
                       ARG(E, table), idx count, idx width, idx accumulate) {
  USE(E, dy);
  USE(int, ids);
  USE(int, next);
  USE(int, first);
  USE(E, table);
  const idx i = (idx)get_global_id(0);
  if (i >= count * width) return;
  const idx n = i / width, c = i % width;
  if (!first[n]) return;
  float sum = 0;
  for (int at = (int)n; at >= 0; at = next[at]) sum += GET(dy, at * width + c);
  const idx to = ids[n] * width + c;
  PUT(table, to, accumulate ? GET(table, to) + sum : sum);
}

#ifdef PHASES
// PHASES: what pair i turns by a position, in 2^-64 turns: their product with the position wraps by
// itself, and the angle is exact whatever the position.
__constant ulong phases[] = PHASES;

__kernel void rope(ARG(E, x), ARG(E, y), idx rows, idx time, idx turning, idx packed,
                   idx half_width, int sign) {
  USE(E, x);
  USE(E, y);
  // Items: the pairs of a row, then its values.
  const idx item = (idx)get_global_id(0), pairs = turning / 2;
  const idx items = pairs + packed - turning, row = item / items, j = item % items;
  if (row >= rows) return;
  if (j >= pairs) {
    const idx at = row * packed + turning + j - pairs;
    PUT(y, at, GET(x, at));
    return;
  }
  const idx i = j % half_width, at = row * packed + j / half_width * half_width * 2 + i;
  const ulong turn = phases[i] * (ulong)(row % time);
  const float angle = sign * ((float)(long)turn * 3.4061215800304157e-19f);
  float c;
  const float s = sincos(angle, &c);
  const float a = GET(x, at), b = GET(x, at + half_width);
  PUT(y, at, a * c - b * s);
  PUT(y, at + half_width, b * c + a * s);
}
#endif

float dot_of(__global const E *a, __global const E *b, idx n) {
  float4 sums = 0;
  idx i = 0;
  for (; i + 4 <= n; i += 4) sums += GET4(a + i) * GET4(b + i);
  float sum = (sums.x + sums.y) + (sums.z + sums.w);
  for (; i < n; ++i) sum += GET(a, i) * GET(b, i);
  return sum;
}

// Where the group's row of (batch element, head, position) lies.
#define PLACE                                                                     \
  const idx group = (idx)get_group_id(0), lid = (idx)get_local_id(0);             \
  const idx t = group % time, head = group / time % heads, b = group / time / heads; \
  const idx packed = (heads + 2 * kv_heads) * width;                              \
  const idx kv = head * kv_heads / heads, keys = causal ? t + 1 : time;           \
  __global const E *q = qkv + (b * time + t) * packed + head * width;         \
  __global const E *first_k = qkv + b * time * packed + (heads + kv) * width; \
  __global const E *first_v = first_k + kv_heads * width;

// A group a query. p: time floats.
__kernel void attention(ARG(E, qkv), ARG(E, y), ARG(float, lse), __local float *p,
                        idx time, idx heads, idx kv_heads, idx width, float scale, idx causal) {
  USE(E, qkv);
  USE(E, y);
  USE(float, lse);
  __local float scratch[ROW];
  PLACE
  float largest = -INFINITY, sum = 0;
  for (idx k = lid; k < keys; k += ROW) {
    p[k] = scale * dot_of(q, first_k + k * packed, width);
    largest = fmax(largest, p[k]);
  }
  largest = group_max(largest, scratch);
  for (idx k = lid; k < keys; k += ROW) sum += exp(p[k] - largest);
  const float row_lse = largest + log(group_sum(sum, scratch));
  for (idx k = lid; k < keys; k += ROW) p[k] = exp(p[k] - row_lse);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (idx d = lid; d < width; d += ROW) {
    float value = 0;
    for (idx k = 0; k < keys; ++k) value += p[k] * GET(first_v, k * packed + d);
    PUT(y, ((b * time + t) * heads + head) * width + d, value);
  }
  if (lid == 0) lse[group] = row_lse;
}

// A group a query: its gradient, and delta = the sum over keys of p * dp. p, ds: time floats.
__kernel void attention_grad_queries(ARG(E, dy), ARG(E, qkv), ARG(float, lse),
                                     ARG(float, delta), ARG(E, dqkv), __local float *p,
                                     __local float *ds, idx time, idx heads, idx kv_heads,
                                     idx width, float scale, idx causal) {
  USE(E, dy);
  USE(E, qkv);
  USE(float, lse);
  USE(float, delta);
  USE(E, dqkv);
  __local float scratch[ROW];
  PLACE
  __global const E *dy_row = dy + ((b * time + t) * heads + head) * width;
  const float row_lse = lse[group];
  float sum = 0;
  for (idx k = lid; k < keys; k += ROW) {
    p[k] = exp(scale * dot_of(q, first_k + k * packed, width) - row_lse);
    ds[k] = dot_of(dy_row, first_v + k * packed, width);
    sum += p[k] * ds[k];
  }
  sum = group_sum(sum, scratch);
  for (idx k = lid; k < keys; k += ROW) ds[k] = p[k] * (ds[k] - sum);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (idx d = lid; d < width; d += ROW) {
    float value = 0;
    for (idx k = 0; k < keys; ++k) value += ds[k] * GET(first_k, k * packed + d);
    PUT(dqkv, (b * time + t) * packed + head * width + d, scale * value);
  }
  if (lid == 0) delta[group] = sum;
}

// A group a key-value head and position: gathers from all queries that see it. p, ds: time floats.
// sums: 2 width floats a group, where several heads share it.
__kernel void attention_grad_keys(ARG(E, dy), ARG(E, qkv), ARG(float, lse),
                                  ARG(float, delta), ARG(E, dqkv), ARG(float, sums), __local float *p,
                                  __local float *ds, idx time, idx heads, idx kv_heads, idx width,
                                  float scale, idx causal) {
  USE(E, dy);
  USE(E, qkv);
  USE(float, lse);
  USE(float, delta);
  USE(E, dqkv);
  USE(float, sums);
  const idx group = (idx)get_group_id(0), lid = (idx)get_local_id(0);
  const idx k = group % time, kv = group / time % kv_heads, b = group / time / kv_heads;
  const idx packed = (heads + 2 * kv_heads) * width, sharers = heads / kv_heads;
  const idx at = (b * time + k) * packed + (heads + kv) * width;
  __global const E *key = qkv + at, *value = key + kv_heads * width;
  __global float *key_sums = sums + 2 * group * width, *value_sums = key_sums + width;
  for (idx head = kv * sharers; head < (kv + 1) * sharers; ++head) {
    const idx begin = causal ? k : 0;
    __global const E *first_q = qkv + b * time * packed + head * width;
    __global const E *first_dy = dy + (b * time * heads + head) * width;
    for (idx t = begin + lid; t < time; t += ROW) {
      const idx row = (b * heads + head) * time + t;
      p[t] = exp(scale * dot_of(first_q + t * packed, key, width) - lse[row]);
      ds[t] = p[t] * (dot_of(first_dy + t * heads * width, value, width) - delta[row]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (idx d = lid; d < width; d += ROW) {
      float dk = 0, dv = 0;
      for (idx t = begin; t < time; ++t) {
        dk += ds[t] * GET(first_q, t * packed + d);
        dv += p[t] * GET(first_dy, t * heads * width + d);
      }
      if (head > kv * sharers) {
        dk += key_sums[d];
        dv += value_sums[d];
      }
      if (head + 1 < (kv + 1) * sharers) {
        key_sums[d] = dk;
        value_sums[d] = dv;
      } else {
        PUT(dqkv, at + d, scale * dk);
        PUT(dqkv, at + kv_heads * width + d, dv);
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
}

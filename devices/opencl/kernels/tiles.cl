// Products on processors with vectors: c[m, n] = op(a) op(b) + beta * c, in tiles of TILE_ROWS rows
// and 32 columns, an item each. b is packed first, into panels of 32 columns: [panel][k][32].
#define TILE_ROWS 8
#define TILE_COLUMNS 32

__kernel void pack(ARG(float, b), ARG(float, packed), idx n, idx k, idx ldb, int transposed) {
  USE(float, b);
  USE(float, packed);
  const idx item = (idx)get_global_id(0), panels = (n + TILE_COLUMNS - 1) / TILE_COLUMNS;
  if (item >= panels * k) return;
  const idx row = item % k, first = item / k * TILE_COLUMNS;
  for (idx j = 0; j < TILE_COLUMNS; ++j) {
    const idx column = first + j;
    const idx at = transposed ? column * ldb + row : row * ldb + column;
    packed[item * TILE_COLUMNS + j] = column < n ? b[at] : 0;
  }
}

#define FOR_ROWS(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
// Rows beyond the last are computed as the last, and not stored.
#define DECLARE(r)                                                                          \
  float16 left##r = 0, right##r = 0;                                                        \
  __global const float *a##r = a + min(first + r, m - 1) * (transposed ? (idx)1 : lda);
#define ADD(r)                             \
  {                                        \
    const float16 x = (float16)(a##r[at]); \
    left##r += x * left_b;                 \
    right##r += x * right_b;               \
  }
#define STORE(r) \
  if (first + r < m) store_row(c + (first + r) * ldc + column, left##r, right##r, n - column, beta);

void store_row(__global float *c, float16 left, float16 right, idx columns, float beta) {
  if (columns >= TILE_COLUMNS) {
    if (beta != 0) {
      left += beta * vload16(0, c);
      right += beta * vload16(1, c);
    }
    vstore16(left, 0, c);
    vstore16(right, 1, c);
    return;
  }
  float values[TILE_COLUMNS];
  vstore16(left, 0, values);
  vstore16(right, 1, values);
  for (idx j = 0; j < columns; ++j) c[j] = beta != 0 ? values[j] + beta * c[j] : values[j];
}

__kernel void tile(ARG(float, a), ARG(float, packed), ARG(float, c), idx m, idx n, idx k, idx lda,
                   idx ldc, int transposed, float beta) {
  USE(float, a);
  USE(float, packed);
  USE(float, c);
  const idx blocks = (m + TILE_ROWS - 1) / TILE_ROWS, item = (idx)get_global_id(0);
  const idx panel = item / blocks, first = item % blocks * TILE_ROWS;
  const idx column = panel * TILE_COLUMNS, step = transposed ? lda : 1;
  __global const float *b = packed + panel * k * TILE_COLUMNS;
  FOR_ROWS(DECLARE)
  idx at = 0;
  for (idx i = 0; i < k; ++i) {
    const float16 left_b = vload16(0, b), right_b = vload16(1, b);
    FOR_ROWS(ADD)
    b += TILE_COLUMNS;
    at += step;
  }
  FOR_ROWS(STORE)
}

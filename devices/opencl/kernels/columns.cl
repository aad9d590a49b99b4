// Sums over rows, of expressions that the host defines (AddColumnSums), as elements of R.
#ifdef VALUE0
__kernel void partial_sums(ARG(E, a), ARG(E, b), ARG(float, m), ARG(float, s), ARG(E, g),
                           ARG(E, h), ARG(float, partial), idx rows, idx columns, idx chunk,
                           idx chunks) {
  USE(E, a);
  USE(E, b);
  USE(float, m);
  USE(float, s);
  USE(E, g);
  USE(E, h);
  USE(float, partial);
  const idx item = (idx)get_global_id(0);
  if (item >= chunks * columns) return;
  const idx c = item % columns, first = item / columns * chunk;
  const idx end = min(rows, first + chunk);
  float sum0 = 0;
#ifdef VALUE1
  float sum1 = 0;
#endif
  for (idx r = first; r < end; ++r) {
    const idx i = r * columns + c;
    sum0 += VALUE0;
#ifdef VALUE1
    sum1 += VALUE1;
#endif
  }
  partial[item] = sum0;
#ifdef VALUE1
  partial[chunks * columns + item] = sum1;
#endif
}

#else
__kernel void final_sums(ARG(float, partial), ARG(R, y), idx columns, idx chunks, float scale,
                         idx accumulate) {
  USE(float, partial);
  USE(R, y);
  const idx c = (idx)get_global_id(0);
  if (c >= columns) return;
  float sum = 0;
  for (idx k = 0; k < chunks; ++k) sum += partial[k * columns + c];
  sum *= scale;
  STORE(R, y, c, accumulate ? LOAD(R, y, c) + sum : sum);
}
#endif

// Moves elements of M, whatever they mean.
#ifdef M
__kernel void gather(ARG(M, x), ARG(M, y), idx n, idx8 sizes, idx8 strides) {
  USE(M, x);
  USE(M, y);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  idx size[8], stride[8];
  vstore8(sizes, 0, size);
  vstore8(strides, 0, stride);
  idx from = 0, rest = i;
  for (int d = 7; d >= 0; --d) {
    from += rest % size[d] * stride[d];
    rest /= size[d];
  }
  y[i] = x[from];
}

// Rows of `width`, which lie x_row and y_row apart.
__kernel void copy_rows(ARG(M, x), ARG(M, y), idx rows, idx width, idx x_row, idx x_begin,
                        idx y_row, idx y_begin) {
  USE(M, x);
  USE(M, y);
  const idx i = (idx)get_global_id(0);
  if (i >= rows * width) return;
  const idx row = i / width, j = i % width;
  y[row * y_row + y_begin + j] = x[row * x_row + x_begin + j];
}

__kernel void zero(ARG(M, y), idx n) {
  USE(M, y);
  const idx i = (idx)get_global_id(0);
  if (i < n) y[i] = 0;
}
#endif

// [rows, columns] of floats, which lie `row` apart.
__kernel void clear(ARG(float, y), idx rows, idx columns, idx row) {
  USE(float, y);
  const idx i = (idx)get_global_id(0);
  if (i < rows * columns) y[i / columns * row + i % columns] = 0;
}

// What follows a product of floats: y = activation(c + bias), and y's old value where it adds. c may
// be the memory of y where both are floats. R: y's elements.
__kernel void finish(ARG(float, c), ARG(E, bias), ARG(R, y), idx n, idx columns, idx has_bias,
                     idx relu, idx add) {
  USE(float, c);
  USE(E, bias);
  USE(R, y);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  float value = c[i];
  if (has_bias) value += GET(bias, i % columns);
  if (add) value += LOAD(R, y, i);
  STORE(R, y, i, relu && value < 0 ? 0 : value);
}

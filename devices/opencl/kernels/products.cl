// What follows a product: y = activation(y + bias), in place.
__kernel void finish(ARG(float, y), ARG(float, bias), idx n, idx columns, idx has_bias, idx relu) {
  USE(float, y);
  USE(float, bias);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const float value = has_bias ? y[i] + bias[i % columns] : y[i];
  y[i] = relu && value < 0 ? 0 : value;
}

// Elements one by one. The host defines the types (A, R) and an
// expression: UNARY of x, or BINARY of a and b.
float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

#define GELU_ROOT 0.7978845608028654f
#define GELU_CUBE 0.044715f
float gelu_exact(float x) { return 0.5f * x * erfc(-x * M_SQRT1_2_F); }
// 0.5 (1 + tanh(u)) = sigmoid(2u), which cancels nowhere.
float gelu_gate(float x) { return sigmoid(2.0f * GELU_ROOT * (x + GELU_CUBE * x * x * x)); }
float gelu_tanh(float x) { return x * gelu_gate(x); }
float gelu_exact_slope(float x) {
  return 0.5f * erfc(-x * M_SQRT1_2_F) + x * exp(-0.5f * x * x) * 0.3989422804014327f;
}
float gelu_tanh_slope(float x) {
  const float s = gelu_gate(x);
  const float slope = 2.0f * GELU_ROOT * (1.0f + 3.0f * GELU_CUBE * x * x);
  return s * (1.0f + x * (1.0f - s) * slope);
}
float silu_slope(float x) {
  const float s = sigmoid(x);
  return s * (1.0f + x * (1.0f - s));
}

#ifdef UNARY
__kernel void unary(ARG(A, x), ARG(R, y), idx n) {
  USE(A, x);
  USE(R, y);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const COMPUTED(A) value = LOAD(A, x, i);
  STORE(R, y, i, UNARY(value));
}
#endif

// b repeats. Also gradients (dy, what was saved).
#ifdef BINARY
__kernel void binary(ARG(A, a), ARG(A, b), ARG(R, y), idx n, idx period) {
  USE(A, a);
  USE(A, b);
  USE(R, y);
  const idx i = (idx)get_global_id(0);
  if (i >= n) return;
  const COMPUTED(A) left = LOAD(A, a, i), right = LOAD(A, b, i % period);
  STORE(R, y, i, BINARY(left, right));
}
#endif

// Moves elements of M, whatever they mean.
#ifdef M
__kernel void choose(ARG(uchar, condition), ARG(M, a), ARG(M, b), ARG(M, y), idx n) {
  USE(uchar, condition);
  USE(M, a);
  USE(M, b);
  USE(M, y);
  const idx i = (idx)get_global_id(0);
  if (i < n) y[i] = condition[i] ? a[i] : b[i];
}
#endif

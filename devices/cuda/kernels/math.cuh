// Activations and their slopes, in f32. kFast: by the device's approximations, which are exact to
// more bits than a 16-bit float has.
#pragma once

namespace oc::cuda::kernels {

template <bool kFast = false>
__device__ __forceinline__ float Sigmoid(float x) {
  if constexpr (kFast) return __fdividef(1.0f, 1.0f + __expf(-x));
  return 1.0f / (1.0f + expf(-x));
}

constexpr float kGeluRoot = 0.7978845608028654f;  // sqrt(2 / pi)
constexpr float kGeluCube = 0.044715f;
constexpr float kRootHalf = 0.7071067811865476f;

__device__ __forceinline__ float GeluExact(float x) { return 0.5f * x * erfcf(-x * kRootHalf); }
__device__ __forceinline__ float GeluExactSlope(float x) {
  return 0.5f * erfcf(-x * kRootHalf) + x * expf(-0.5f * x * x) * 0.3989422804014327f;
}
// 0.5 (1 + tanh(u)) = sigmoid(2u), which cancels nowhere.
template <bool kFast = false>
__device__ __forceinline__ float GeluGate(float x) {
  return Sigmoid<kFast>(2.0f * kGeluRoot * (x + kGeluCube * x * x * x));
}
template <bool kFast = false>
__device__ __forceinline__ float GeluTanh(float x) {
  return x * GeluGate<kFast>(x);
}
template <bool kFast = false>
__device__ __forceinline__ float GeluTanhSlope(float x) {
  const float s = GeluGate<kFast>(x);
  const float slope = 2.0f * kGeluRoot * (1.0f + 3.0f * kGeluCube * x * x);
  return s * (1.0f + x * (1.0f - s) * slope);
}
template <bool kFast = false>
__device__ __forceinline__ float SiluSlope(float x) {
  const float s = Sigmoid<kFast>(x);
  return s * (1.0f + x * (1.0f - s));
}

}  // namespace oc::cuda::kernels

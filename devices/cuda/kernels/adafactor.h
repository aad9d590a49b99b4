// Adafactor (Shazeer and Stern, 2018; the formula stands in optim/adafactor.h) of one tensor:
// parameters and states are f32. The second moment is estimated from means of rows and columns of
// the tensor's matrices, or kept whole.
#pragma once

#include "openclaw/devices/cuda/kernels/lists.h"

namespace oc::cuda::kernels {

struct Adafactor {
  int64_t n = 0;
  int64_t matrices = 1, rows = 1, columns = 1;  // where `factored`
  int64_t chunk = 0;
  bool factored = true;
  Type gradient_type = Type::kF32;
  const float* p = nullptr;
  const void* g = nullptr;
  const float* row = nullptr;     // [matrices, rows]
  const float* column = nullptr;  // [matrices, columns]; not factored: the second moment
  float* new_p = nullptr;
  float* new_row = nullptr;
  float* new_column = nullptr;
  const float* lr = nullptr;
  const float* step = nullptr;
  Clipping clip;
  float lr_scale = 1, beta2_decay = -0.8f, eps1 = 0, eps2 = 1e-3f, d = 1, decay = 0;
  float* workspace = nullptr;  // AdafactorWorkspace floats
};
int64_t AdafactorWorkspace(const Adafactor& a);
cudaError_t Launch(const Adafactor& a, cudaStream_t stream);

}  // namespace oc::cuda::kernels

// Ops that change state, over lists of tensors: one launch for as many tensors as fit into the
// arguments of a kernel. Parameters, states and gradients are of any float type each, computed with
// in float. An element's result does not depend on the list, nor on what else is in it.
//
//   std::vector<ListTensor> tensors = {{.n = n, .in = {p, g, m, v}, .out = {p, m, v}, ...}};
//   Launch(AdamStep{.lr = lr, .step = step, .clip = clip}, tensors, stream);
#pragma once

#include <limits>
#include <span>

#include "openclaw/devices/cuda/kernels/types.h"

namespace oc::cuda::kernels {

struct ListTensor {
  static constexpr int kIns = 5, kOuts = 4;
  int64_t n = 0;  // elements
  const void* in[kIns] = {};
  void* out[kOuts] = {};  // may be the memory of operands
  Type in_types[kIns] = {};
  Type out_types[kOuts] = {};
  int64_t sums = 0;  // of lamb_step: chunk sums of the tensor
};
using ListTensors = std::span<const ListTensor>;

// A gradient times the clip factor, then within +-limit.
struct Clipping {
  const float* factor = nullptr;
  float limit = std::numeric_limits<float>::infinity();
};

// in: p, g, and the momentum buffer where there is one; out: p, buffer.
struct SgdStep {
  const float* lr = nullptr;
  Clipping clip;
  float lr_scale = 1, momentum = 0, decay = 0;
  bool nesterov = false;
};
cudaError_t Launch(const SgdStep& step, ListTensors tensors, cudaStream_t stream);

// What Adam and LAMB have in common. log_beta: nothing cancels in 1 - beta^step.
struct Betas {
  float beta1 = 0.9f, beta2 = 0.999f, rest1 = 0.1f, rest2 = 1e-3f;
  float log_beta1 = 0, log_beta2 = 0, eps = 1e-8f;
};

// in: p, g, m, v; out: p, m, v. decay: of p into the gradient; decoupled: of p itself.
struct AdamStep {
  const float* lr = nullptr;
  const float* step = nullptr;
  Clipping clip;
  Betas betas;
  float lr_scale = 1, decay = 0, decoupled = 0;
};
cudaError_t Launch(const AdamStep& step, ListTensors tensors, cudaStream_t stream);

// in: p, g, m; out: p, m.
struct LionStep {
  const float* lr = nullptr;
  Clipping clip;
  float lr_scale = 1, beta1 = 0, rest1 = 0, beta2 = 0, rest2 = 0, decay = 0;
};
cudaError_t Launch(const LionStep& step, ListTensors tensors, cudaStream_t stream);

// in: p, g, m, v; out: m, v and the chunks' sums of squares of p and of the step.
struct LambMoments {
  const float* step = nullptr;
  Clipping clip;
  Betas betas;
  float decay = 0;
  int64_t chunk = 0;  // elements, graph/sum_chunks.h
};
cudaError_t Launch(const LambMoments& moments, ListTensors tensors, cudaStream_t stream);

// in: p, m, v, sums of p, sums of the step; out: p.
struct LambStep {
  const float* lr = nullptr;
  const float* step = nullptr;
  Betas betas;
  float lr_scale = 1, decay = 0;
};
cudaError_t Launch(const LambStep& step, ListTensors tensors, cudaStream_t stream);

// in: g, m; out: u, m.
struct MuonMomentum {
  Clipping clip;
  float momentum = 0.95f, rest = 0.05f;
  bool nesterov = true;
};
cudaError_t Launch(const MuonMomentum& momentum, ListTensors tensors, cudaStream_t stream);

// in: p, u; out: p.
struct DecayedStep {
  const float* lr = nullptr;
  float lr_scale = 1, factor = 1, decay = 0;
};
cudaError_t Launch(const DecayedStep& step, ListTensors tensors, cudaStream_t stream);

// in: state, x; out: state + rate * (x - state), or with `first` set in the first step x.
struct Blend {
  float rate = 0;
  const float* step = nullptr;  // null: no step is the first
};
cudaError_t Launch(const Blend& blend, ListTensors tensors, cudaStream_t stream);

// in: state, x; out: their sum.
struct Accumulation {};
cudaError_t Launch(const Accumulation& accumulation, ListTensors tensors, cudaStream_t stream);

// in: x; out: a sum a chunk of `chunk` elements.
struct SumSquares {
  int64_t chunk = 0;
};
cudaError_t Launch(const SumSquares& sum, ListTensors tensors, cudaStream_t stream);

// in: partial sums (f32); to[0] = their sum in order, plus what it holds where `add` is set.
struct SumPartials {
  float* to = nullptr;
  bool add = false;
};
cudaError_t Launch(const SumPartials& sum, ListTensors tensors, cudaStream_t stream);

// to[0] = min(1, limit / (sqrt(sum) + 1e-6)).
cudaError_t LaunchClipFactor(const float* sum, float limit, float* to, cudaStream_t stream);

}  // namespace oc::cuda::kernels

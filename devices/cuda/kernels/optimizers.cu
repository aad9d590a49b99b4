// The steps of optimizers; their formulas stand in optim/NAME.h.
#include "openclaw/devices/cuda/kernels/lists.cuh"

namespace oc::cuda::kernels {
namespace {

constexpr int64_t kRun = 8192;  // elements of a block

// What is no number stays none.
struct Clipper {
  float factor, limit;
  __device__ __forceinline__ explicit Clipper(const Clipping& c)
      : factor(c.factor[0]), limit(c.limit) {}
  __device__ __forceinline__ float operator()(float g) const {
    const float scaled = g * factor;
    return scaled > limit ? limit : scaled < -limit ? -limit : scaled;
  }
};

// The step that moments want: m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps).
struct MomentStep {
  float mean_scale, root_scale, eps;
  __device__ __forceinline__ MomentStep(const Betas& b, float step)
      : mean_scale(1.0f / -expm1f(step * b.log_beta1)),
        root_scale(1.0f / sqrtf(-expm1f(step * b.log_beta2))),
        eps(b.eps) {}
  __device__ __forceinline__ float operator()(float m, float v) const {
    return m * mean_scale / (sqrtf(v) * root_scale + eps);
  }
};
__device__ __forceinline__ float FirstMoment(const Betas& b, float m, float g) {
  return b.beta1 * m + b.rest1 * g;
}
__device__ __forceinline__ float SecondMoment(const Betas& b, float v, float g) {
  return b.beta2 * v + b.rest2 * g * g;
}

// An optimizer's rule: what it reads of the shared numbers once, then out of in for each element.
// `gradient` is the operand that is read last: its conversion would wait for the others' loads.
struct SgdRule {
  static constexpr int kIns = 3, kOuts = 2, kGradient = 1;
  SgdStep s;
  bool has_buffer;
  struct Shared {
    Clipper clip;
    float rate;
  };
  __device__ __forceinline__ Shared Read() const { return {Clipper(s.clip), s.lr[0] * s.lr_scale}; }
  __device__ __forceinline__ void operator()(const Shared& shared, const float (&in)[kIns],
                                             float (&out)[kOuts]) const {
    float step = shared.clip(in[1]) + s.decay * in[0];
    if (has_buffer) {
      out[1] = s.momentum * in[2] + step;
      step = s.nesterov ? step + s.momentum * out[1] : out[1];
    } else {
      out[1] = 0;
    }
    out[0] = in[0] - shared.rate * step;
  }
};

struct AdamRule {
  static constexpr int kIns = 4, kOuts = 3, kGradient = 1;
  AdamStep s;
  struct Shared {
    Clipper clip;
    MomentStep wanted;
    float rate;
  };
  __device__ __forceinline__ Shared Read() const {
    return {Clipper(s.clip), MomentStep(s.betas, s.step[0]), s.lr[0] * s.lr_scale};
  }
  __device__ __forceinline__ void operator()(const Shared& shared, const float (&in)[kIns],
                                             float (&out)[kOuts]) const {
    const float g = shared.clip(in[1]) + s.decay * in[0];
    out[1] = FirstMoment(s.betas, in[2], g);
    out[2] = SecondMoment(s.betas, in[3], g);
    out[0] = in[0] - shared.rate * s.decoupled * in[0] - shared.rate * shared.wanted(out[1], out[2]);
  }
};

struct LionRule {
  static constexpr int kIns = 3, kOuts = 2, kGradient = 1;
  LionStep s;
  struct Shared {
    Clipper clip;
    float rate;
  };
  __device__ __forceinline__ Shared Read() const { return {Clipper(s.clip), s.lr[0] * s.lr_scale}; }
  __device__ __forceinline__ void operator()(const Shared& shared, const float (&in)[kIns],
                                             float (&out)[kOuts]) const {
    const float g = shared.clip(in[1]), mixed = s.beta1 * in[2] + s.rest1 * g;
    const float sign = static_cast<float>(mixed > 0) - static_cast<float>(mixed < 0);
    out[0] = in[0] - shared.rate * s.decay * in[0] - shared.rate * sign;
    out[1] = s.beta2 * in[2] + s.rest2 * g;
  }
};

struct MuonRule {
  static constexpr int kIns = 2, kOuts = 2, kGradient = 0;
  MuonMomentum s;
  using Shared = Clipper;
  __device__ __forceinline__ Shared Read() const { return Clipper(s.clip); }
  __device__ __forceinline__ void operator()(const Shared& clip, const float (&in)[kIns],
                                             float (&out)[kOuts]) const {
    const float g = clip(in[0]), after = in[1] + s.rest * (g - in[1]);
    out[0] = s.nesterov ? g + s.momentum * (after - g) : after;
    out[1] = after;
  }
};

struct DecayedRule {
  static constexpr int kIns = 2, kOuts = 1, kGradient = 1;
  DecayedStep s;
  using Shared = float;
  __device__ __forceinline__ Shared Read() const { return s.lr[0] * s.lr_scale; }
  __device__ __forceinline__ void operator()(float rate, const float (&in)[kIns],
                                             float (&out)[kOuts]) const {
    out[0] = in[0] - rate * s.decay * in[0] - rate * s.factor * in[1];
  }
};

struct BlendRule {
  static constexpr int kIns = 2, kOuts = 1, kGradient = 1;
  Blend s;
  using Shared = bool;  // the first step's x as it is
  __device__ __forceinline__ Shared Read() const { return s.step != nullptr && s.step[0] < 1.5f; }
  __device__ __forceinline__ void operator()(bool first, const float (&in)[kIns],
                                             float (&out)[kOuts]) const {
    out[0] = first ? in[1] : in[0] + s.rate * (in[1] - in[0]);
  }
};

struct AccumulationRule {
  static constexpr int kIns = 2, kOuts = 1, kGradient = 1;
  using Shared = bool;
  __device__ __forceinline__ Shared Read() const { return false; }
  __device__ __forceinline__ void operator()(bool, const float (&in)[kIns],
                                             float (&out)[kOuts]) const {
    out[0] = in[0] + in[1];
  }
};

template <typename Rule>
__global__ void __launch_bounds__(kListThreads)
    Update(const __grid_constant__ ListArgs list, const __grid_constant__ Rule rule) {
  const ListRun run(list, kRun);
  const ListTensor& t = list.tensors[run.tensor];
  const typename Rule::Shared shared = rule.Read();
  for (int64_t i = run.begin + threadIdx.x * kAtOnce; i < run.end; i += kListThreads * kAtOnce) {
    const bool whole = run.wide && i + kAtOnce <= run.end;
    float x[Rule::kIns][kAtOnce] = {};
#pragma unroll
    for (int k = 0; k < Rule::kIns; ++k) {
      if (k != Rule::kGradient && t.in[k] != nullptr) {
        LoadRun(t.in[k], t.in_types[k], whole, i, run.end, x[k]);
      }
    }
    constexpr int kLast = Rule::kGradient;
    LoadRun(t.in[kLast], t.in_types[kLast], whole, i, run.end, x[kLast]);
    float y[Rule::kOuts][kAtOnce];
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) {
      float in[Rule::kIns], out[Rule::kOuts];
#pragma unroll
      for (int k = 0; k < Rule::kIns; ++k) in[k] = x[k][e];
      rule(shared, in, out);
#pragma unroll
      for (int k = 0; k < Rule::kOuts; ++k) y[k][e] = out[k];
    }
#pragma unroll
    for (int k = 0; k < Rule::kOuts; ++k) {
      if (t.out[k] != nullptr) StoreRun(t.out[k], t.out_types[k], whole, i, run.end, y[k]);
    }
  }
}

template <typename Rule>
cudaError_t LaunchRule(const Rule& rule, ListTensors tensors, cudaStream_t stream) {
  ForLists(tensors, kRun, [&](const ListArgs& args, unsigned blocks) {
    Update<Rule><<<blocks, kListThreads, 0, stream>>>(args, rule);
  });
  return cudaGetLastError();
}

// As the memory keeps it.
__device__ __forceinline__ float Kept(Type type, float x) {
  if (type == Type::kBF16) return ToFloat(FromFloat<__nv_bfloat16>(x));
  if (type == Type::kF16) return ToFloat(FromFloat<__half>(x));
  return x;
}

// A block a chunk. Lanes of packs are summed apart: the order is the same however they were loaded.
__global__ void __launch_bounds__(kListThreads)
    MomentsOfLamb(const __grid_constant__ ListArgs list, const __grid_constant__ LambMoments s) {
  __shared__ float scratch[2][kListThreads / kWarp];
  const ListRun run(list, s.chunk);
  const ListTensor& t = list.tensors[run.tensor];
  const Clipper clip(s.clip);
  const MomentStep wanted(s.betas, s.step[0]);
  float p_sums[kAtOnce] = {}, step_sums[kAtOnce] = {};
  for (int64_t i = run.begin + threadIdx.x * kAtOnce; i < run.end; i += kListThreads * kAtOnce) {
    const bool whole = run.wide && i + kAtOnce <= run.end;
    float p[kAtOnce], g[kAtOnce], m[kAtOnce], v[kAtOnce];
    LoadRun(t.in[0], t.in_types[0], whole, i, run.end, p);
    LoadRun(t.in[2], t.in_types[2], whole, i, run.end, m);
    LoadRun(t.in[3], t.in_types[3], whole, i, run.end, v);
    LoadRun(t.in[1], t.in_types[1], whole, i, run.end, g);
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) {
      const float gradient = clip(g[e]);
      m[e] = Kept(t.out_types[0], FirstMoment(s.betas, m[e], gradient));
      v[e] = Kept(t.out_types[1], SecondMoment(s.betas, v[e], gradient));
      if (i + e >= run.end) continue;
      const float step = wanted(m[e], v[e]) + s.decay * p[e];
      p_sums[e] += p[e] * p[e];
      step_sums[e] += step * step;
    }
    StoreRun(t.out[0], t.out_types[0], whole, i, run.end, m);
    StoreRun(t.out[1], t.out_types[1], whole, i, run.end, v);
  }
  const float p_sum = RowReduce<kListThreads>((p_sums[0] + p_sums[1]) + (p_sums[2] + p_sums[3]),
                                              scratch[0], AddOf());
  const float step_sum = RowReduce<kListThreads>(
      (step_sums[0] + step_sums[1]) + (step_sums[2] + step_sums[3]), scratch[1], AddOf());
  if (threadIdx.x != 0) return;
  static_cast<float*>(t.out[2])[run.chunk] = p_sum;
  static_cast<float*>(t.out[3])[run.chunk] = step_sum;
}

__global__ void __launch_bounds__(kListThreads)
    StepOfLamb(const __grid_constant__ ListArgs list, const __grid_constant__ LambStep s) {
  __shared__ double scratch[2][kListThreads / kWarp];
  const ListRun run(list, kRun);
  const ListTensor& t = list.tensors[run.tensor];
  double p_sum = 0, step_sum = 0;
  for (int64_t c = threadIdx.x; c < t.sums; c += kListThreads) {
    p_sum += static_cast<const float*>(t.in[3])[c];
    step_sum += static_cast<const float*>(t.in[4])[c];
  }
  p_sum = RowReduce<kListThreads>(p_sum, scratch[0], AddOf());
  step_sum = RowReduce<kListThreads>(step_sum, scratch[1], AddOf());
  const bool some = p_sum > 0 && step_sum > 0;
  const float trust = some ? static_cast<float>(sqrt(p_sum / step_sum)) : 1.0f;
  const float rate = s.lr[0] * s.lr_scale * trust;
  const MomentStep wanted(s.betas, s.step[0]);
  for (int64_t i = run.begin + threadIdx.x * kAtOnce; i < run.end; i += kListThreads * kAtOnce) {
    const bool whole = run.wide && i + kAtOnce <= run.end;
    float p[kAtOnce], m[kAtOnce], v[kAtOnce];
    LoadRun(t.in[0], t.in_types[0], whole, i, run.end, p);
    LoadRun(t.in[1], t.in_types[1], whole, i, run.end, m);
    LoadRun(t.in[2], t.in_types[2], whole, i, run.end, v);
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) p[e] -= rate * (wanted(m[e], v[e]) + s.decay * p[e]);
    StoreRun(t.out[0], t.out_types[0], whole, i, run.end, p);
  }
}

__global__ void __launch_bounds__(kListThreads)
    SquaresOfChunks(const __grid_constant__ ListArgs list, int64_t chunk) {
  __shared__ float scratch[kListThreads / kWarp];
  const ListRun run(list, chunk);
  const ListTensor& t = list.tensors[run.tensor];
  float sums[kAtOnce] = {};
#pragma unroll 4
  for (int64_t i = run.begin + threadIdx.x * kAtOnce; i < run.end; i += kListThreads * kAtOnce) {
    float x[kAtOnce];
    LoadRun(t.in[0], t.in_types[0], run.wide && i + kAtOnce <= run.end, i, run.end, x);
#pragma unroll
    for (int e = 0; e < kAtOnce; ++e) sums[e] += x[e] * x[e];
  }
  const float sum =
      RowReduce<kListThreads>((sums[0] + sums[1]) + (sums[2] + sums[3]), scratch, AddOf());
  if (threadIdx.x == 0) static_cast<float*>(t.out[0])[run.chunk] = sum;
}

// A warp a list of partial sums; the lists' sums are added in their order.
constexpr int kSumThreads = 1024;
__global__ void __launch_bounds__(kSumThreads)
    SumOfPartials(const __grid_constant__ ListArgs list, SumPartials s) {
  __shared__ double sums[kMostTensors];
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int n = warp; n < list.count; n += kSumThreads / kWarp) {
    const ListTensor& t = list.tensors[n];
    double sum = 0;
    for (int64_t i = lane; i < t.n; i += kWarp) sum += static_cast<const float*>(t.in[0])[i];
    sum = WarpReduce(sum, AddOf());
    if (lane == 0) sums[n] = sum;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  double total = 0;
  for (int n = 0; n < list.count; ++n) total += sums[n];
  s.to[0] = s.add ? s.to[0] + static_cast<float>(total) : static_cast<float>(total);
}

__global__ void ClipFactorOf(const float* sum, float limit, float* to) {
  to[0] = isinf(limit) ? 1.0f : fminf(1.0f, limit / (sqrtf(sum[0]) + 1e-6f));
}

}  // namespace

cudaError_t Launch(const SgdStep& step, ListTensors tensors, cudaStream_t stream) {
  return LaunchRule(SgdRule{step, step.momentum != 0}, tensors, stream);
}
cudaError_t Launch(const AdamStep& step, ListTensors tensors, cudaStream_t stream) {
  return LaunchRule(AdamRule{step}, tensors, stream);
}
cudaError_t Launch(const LionStep& step, ListTensors tensors, cudaStream_t stream) {
  return LaunchRule(LionRule{step}, tensors, stream);
}
cudaError_t Launch(const MuonMomentum& momentum, ListTensors tensors, cudaStream_t stream) {
  return LaunchRule(MuonRule{momentum}, tensors, stream);
}
cudaError_t Launch(const DecayedStep& step, ListTensors tensors, cudaStream_t stream) {
  return LaunchRule(DecayedRule{step}, tensors, stream);
}
cudaError_t Launch(const Blend& blend, ListTensors tensors, cudaStream_t stream) {
  return LaunchRule(BlendRule{blend}, tensors, stream);
}
cudaError_t Launch(const Accumulation&, ListTensors tensors, cudaStream_t stream) {
  return LaunchRule(AccumulationRule{}, tensors, stream);
}
cudaError_t Launch(const LambMoments& moments, ListTensors tensors, cudaStream_t stream) {
  ForLists(tensors, moments.chunk, [&](const ListArgs& args, unsigned blocks) {
    MomentsOfLamb<<<blocks, kListThreads, 0, stream>>>(args, moments);
  });
  return cudaGetLastError();
}
cudaError_t Launch(const LambStep& step, ListTensors tensors, cudaStream_t stream) {
  ForLists(tensors, kRun, [&](const ListArgs& args, unsigned blocks) {
    StepOfLamb<<<blocks, kListThreads, 0, stream>>>(args, step);
  });
  return cudaGetLastError();
}
cudaError_t Launch(const SumSquares& sum, ListTensors tensors, cudaStream_t stream) {
  ForLists(tensors, sum.chunk, [&](const ListArgs& args, unsigned blocks) {
    SquaresOfChunks<<<blocks, kListThreads, 0, stream>>>(args, sum.chunk);
  });
  return cudaGetLastError();
}
cudaError_t Launch(const SumPartials& sum, ListTensors tensors, cudaStream_t stream) {
  SumPartials next = sum;
  bool some = false;
  ForLists(tensors, std::numeric_limits<int32_t>::max(), [&](const ListArgs& args, unsigned) {
    SumOfPartials<<<1, kSumThreads, 0, stream>>>(args, next);
    next.add = some = true;
  });
  if (!some && !sum.add) cudaMemsetAsync(sum.to, 0, sizeof(float), stream);
  return cudaGetLastError();
}
cudaError_t LaunchClipFactor(const float* sum, float limit, float* to, cudaStream_t stream) {
  ClipFactorOf<<<1, 1, 0, stream>>>(sum, limit, to);
  return cudaGetLastError();
}

}  // namespace oc::cuda::kernels

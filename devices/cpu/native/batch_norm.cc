#include "openclaw/devices/cpu/native/batch_norm_loops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "openclaw/devices/cpu/native/glue.h"

namespace oc::cpu {
namespace {

using Kernel = StatusOr<std::unique_ptr<HostKernel>>;

float LoadFloat(FloatKind kind, const std::byte* p, int64_t i) {
  if (kind == kFloat32) return reinterpret_cast<const float*>(p)[i];
  if (kind == kFloat16) return static_cast<float>(reinterpret_cast<const F16*>(p)[i]);
  return static_cast<float>(reinterpret_cast<const BF16*>(p)[i]);
}
void StoreFloat(FloatKind kind, std::byte* p, int64_t i, float v) {
  if (kind == kFloat32) {
    reinterpret_cast<float*>(p)[i] = v;
  } else if (kind == kFloat16) {
    reinterpret_cast<F16*>(p)[i] = F16(v);
  } else {
    reinterpret_cast<BF16*>(p)[i] = BF16(v);
  }
}

// Rows are summed in pieces whose number does not depend on the threads, and the pieces' sums are
// added in their order: the result is the same for any number of threads.
constexpr int64_t kMaxPieces = 16, kMinPieceRows = 64;

struct Sizes {
  int64_t rows = 0, channels = 0, pieces = 1, row_bytes = 0;
  FloatKind kind = kFloat32, sum_kind = kFloat32;  // of x; of the gradients of gamma and beta
  float eps = 0;
  bool relu = false;

  // Each array in the workspace begins on a cache line.
  int64_t padded() const { return (channels + 15) / 16 * 16; }
  int64_t sum_bytes() const { return 2 * pieces * padded() * static_cast<int64_t>(sizeof(double)); }
};

StatusOr<Sizes> SizesOf(const OpRequest& request) {
  const TensorType& x = request.inputs[0];
  Sizes s;
  OC_ASSIGN_OR_RETURN(s.kind, FloatKindOf(x));
  OC_ASSIGN_OR_RETURN(s.sum_kind, FloatKindOf(request.outputs[1]));
  s.rows = RowsOf(x);
  s.channels = LastDim(x);
  if (s.rows == 0 || s.channels == 0) return Unimplemented("batch norm without elements");
  s.pieces = std::clamp<int64_t>(s.rows / kMinPieceRows, 1, kMaxPieces);
  s.row_bytes = s.channels * SizeInBytes(x.dtype);
  s.eps = static_cast<float>(request.attrs.Double("eps", 1e-5));
  s.relu = request.attrs.String("activation", "none") == "relu";
  return s;
}

WorkRange PieceRows(const Sizes& s, int64_t piece) {
  return SplitWork(s.rows, 1, static_cast<int>(s.pieces), static_cast<int>(piece));
}

// f(begin, end) over rows, in the same shares as the pieces: a worker finds in its cache what it
// summed.
template <typename F>
void ForRows(const Sizes& s, WorkerPool& pool, const F& f) {
  Split(pool, s.pieces, s.rows * s.channels / s.pieces, 1, [&](int64_t begin, int64_t end) {
    f(PieceRows(s, begin).begin, PieceRows(s, end - 1).end);
  });
}
template <typename F>
void ForPieces(const Sizes& s, WorkerPool& pool, const F& f) {
  Split(pool, s.pieces, s.rows * s.channels / s.pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) f(piece, PieceRows(s, piece));
  });
}

// Mean and variance of every channel from those of the pieces (kept in `sums`: means, then
// squares).
void MergePieces(const Sizes& s, const double* sums, float* mean, float* var) {
  const int64_t stride = s.padded();
  for (int64_t c = 0; c < s.channels; ++c) {
    double m = 0, squares = 0, rows = 0;
    for (int64_t p = 0; p < s.pieces; ++p) {
      const WorkRange r = PieceRows(s, p);
      const double n = static_cast<double>(r.end - r.begin);
      const double delta = sums[p * stride + c] - m;
      m += delta * n / (rows + n);
      squares += sums[(s.pieces + p) * stride + c] + delta * delta * rows * n / (rows + n);
      rows += n;
    }
    mean[c] = static_cast<float>(m);
    var[c] = static_cast<float>(squares / rows);
  }
}

// x, gamma, beta, running mean, running var -> y, mean, var.
Kernel MakeForward(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const Sizes s, SizesOf(request));
  const bool training = request.attrs.Bool("training", true);
  const BatchNormLoops& loops = GetBatchNormLoops();
  const auto run = [s, training, &loops](const KernelArgs& args) {
    float* const scale = reinterpret_cast<float*>(args.workspace);
    float* const beta = scale + s.padded();
    double* const sums = reinterpret_cast<double*>(beta + s.padded());
    float* const mean = args.out<float>(1);
    float* const var = args.out<float>(2);
    const std::byte* const x = args.inputs[0];
    if (training) {
      ForPieces(s, args.pool, [&](int64_t piece, WorkRange r) {
        loops.moments[s.kind](x + r.begin * s.row_bytes, r.end - r.begin, s.channels,
                              sums + piece * s.padded(), sums + (s.pieces + piece) * s.padded());
      });
      MergePieces(s, sums, mean, var);
    } else {
      std::memmove(mean, args.inputs[3], static_cast<size_t>(s.channels) * sizeof(float));
      std::memmove(var, args.inputs[4], static_cast<size_t>(s.channels) * sizeof(float));
    }
    for (int64_t c = 0; c < s.channels; ++c) {
      scale[c] = LoadFloat(s.kind, args.inputs[1], c) / std::sqrt(var[c] + s.eps);
      beta[c] = LoadFloat(s.kind, args.inputs[2], c);
    }
    ForRows(s, args.pool, [&](int64_t begin, int64_t end) {
      loops.normalise[s.kind](x + begin * s.row_bytes, args.outputs[0] + begin * s.row_bytes,
                              end - begin, s.channels, {mean, scale, beta}, s.relu);
    });
  };
  return MakeKernel(run, 2 * s.padded() * static_cast<int64_t>(sizeof(float)) + s.sum_bytes());
}

// With so few rows the terms of dx all but cancel, and f32 would leave nothing of it.
constexpr int64_t kFewRows = 4;

// All of one channel in f64.
void FewRowsBackward(const Sizes& s, const KernelArgs& args, int64_t c, float scale, float beta) {
  const double n = static_cast<double>(s.rows), mean = args.in<float>(4)[c];
  const double rstd = 1 / std::sqrt(double{args.in<float>(5)[c]} + s.eps);
  double g[kFewRows], centred[kFewRows], sum = 0, product = 0;
  for (int64_t r = 0; r < s.rows; ++r) {
    const float x = LoadFloat(s.kind, args.inputs[1], r * s.channels + c);
    const bool open = !s.relu || (x - args.in<float>(4)[c]) * scale + beta > 0;
    g[r] = open ? LoadFloat(s.kind, args.inputs[0], r * s.channels + c) : 0.0;
    centred[r] = x - mean;
    sum += g[r];
    product += g[r] * centred[r];
  }
  const double gamma = LoadFloat(s.kind, args.inputs[2], c);
  for (int64_t r = 0; r < s.rows; ++r) {
    const double dx = g[r] - sum / n - centred[r] * rstd * rstd * product / n;
    StoreFloat(s.kind, args.outputs[0], r * s.channels + c, static_cast<float>(gamma * rstd * dx));
  }
  StoreFloat(s.sum_kind, args.outputs[1], c, static_cast<float>(product * rstd));
  StoreFloat(s.sum_kind, args.outputs[2], c, static_cast<float>(sum));
}

// dy, x, gamma, beta, mean, var -> dx, dgamma, dbeta.
Kernel MakeBackward(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const Sizes s, SizesOf(request));
  const BatchNormLoops& loops = GetBatchNormLoops();
  const auto run = [s, &loops](const KernelArgs& args) {
    float* const scale = reinterpret_cast<float*>(args.workspace);
    float* const beta = scale + s.padded();
    float* const offset = beta + s.padded();
    float* const slope = offset + s.padded();
    double* const sums = reinterpret_cast<double*>(slope + s.padded());
    const float* const mean = args.in<float>(4);
    const float* const var = args.in<float>(5);
    const std::byte *const dy = args.inputs[0], *const x = args.inputs[1];
    const BatchNormChannels channels{mean, scale, beta};
    for (int64_t c = 0; c < s.channels; ++c) {
      scale[c] = LoadFloat(s.kind, args.inputs[2], c) / std::sqrt(var[c] + s.eps);
      beta[c] = LoadFloat(s.kind, args.inputs[3], c);
      if (s.rows <= kFewRows) FewRowsBackward(s, args, c, scale[c], beta[c]);
    }
    if (s.rows <= kFewRows) return;
    ForPieces(s, args.pool, [&](int64_t piece, WorkRange r) {
      loops.grad_sums[s.kind](dy + r.begin * s.row_bytes, x + r.begin * s.row_bytes,
                              r.end - r.begin, s.channels, channels, s.relu,
                              sums + piece * s.padded(), sums + (s.pieces + piece) * s.padded());
    });
    for (int64_t c = 0; c < s.channels; ++c) {
      double sum = 0, product = 0;
      for (int64_t p = 0; p < s.pieces; ++p) {
        sum += sums[p * s.padded() + c];
        product += sums[(s.pieces + p) * s.padded() + c];
      }
      const double n = static_cast<double>(s.rows), rstd = 1 / std::sqrt(double{var[c]} + s.eps);
      StoreFloat(s.sum_kind, args.outputs[1], c, static_cast<float>(product * rstd));
      StoreFloat(s.sum_kind, args.outputs[2], c, static_cast<float>(sum));
      offset[c] = static_cast<float>(sum / n);
      slope[c] = static_cast<float>(scale[c] * rstd * rstd * product / n);
    }
    ForRows(s, args.pool, [&](int64_t begin, int64_t end) {
      loops.grad_input[s.kind](dy + begin * s.row_bytes, x + begin * s.row_bytes,
                               args.outputs[0] + begin * s.row_bytes, end - begin, s.channels,
                               channels, {offset, slope}, s.relu);
    });
  };
  return MakeKernel(run, 4 * s.padded() * static_cast<int64_t>(sizeof(float)) + s.sum_bytes());
}

// var * rows / (rows - 1).
Kernel MakeUnbiasedVar(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(request.inputs[0]));
  const auto rows = static_cast<double>(request.attrs.GetShape("rows").num_elements());
  const float factor = static_cast<float>(rows / std::max(rows - 1, 1.0));
  const int64_t channels = request.inputs[0].shape.num_elements();
  return MakeKernel([=](const KernelArgs& args) {
    for (int64_t c = 0; c < channels; ++c) {
      StoreFloat(kind, args.outputs[0], c, LoadFloat(kind, args.inputs[0], c) * factor);
    }
  });
}

}  // namespace

void RegisterBatchNorm(KernelRegistry& registry) {
  registry.Add("batch_norm", MakeForward);
  registry.Add("batch_norm_grad", MakeBackward, 0, /*sum_types=*/true);
  registry.Add("unbiased_var", MakeUnbiasedVar);
}

}  // namespace oc::cpu

#include "openclaw/devices/cuda/kernels/adafactor.h"

#include <algorithm>

#include "openclaw/devices/cuda/kernels/rows.cuh"

namespace oc::cuda::kernels {
namespace {

constexpr int64_t kBandRows = 128;

// Where the workspace's parts begin.
struct Scratch {
  float* bands;      // [matrices, bands, columns]: sums of columns
  float* scales;     // [matrices]: one over the mean of a matrix's rows
  float* p_sums;     // [chunks]
  float* step_sums;  // [chunks]
  int64_t num_bands, chunks;

  explicit Scratch(const Adafactor& a)
      : num_bands(a.factored ? (a.rows + kBandRows - 1) / kBandRows : 0),
        chunks((a.n + a.chunk - 1) / a.chunk) {
    bands = a.workspace;
    scales = bands + a.matrices * num_bands * a.columns;
    p_sums = scales + a.matrices;
    step_sums = p_sums + chunks;
  }
  int64_t floats(const Adafactor& a) const {
    return a.matrices * num_bands * a.columns + a.matrices + 2 * chunks;
  }
};

__device__ __forceinline__ float GradientAt(const Adafactor& a, int64_t i) {
  const float scaled = LoadAny(a.g, a.gradient_type, i) * a.clip.factor[0];
  return scaled > a.clip.limit ? a.clip.limit : scaled < -a.clip.limit ? -a.clip.limit : scaled;
}

// How much of a new mean is taken up: the first step takes all.
__device__ __forceinline__ float FreshOf(const Adafactor& a) {
  return a.step[0] == 1.0f ? 1.0f : expf(a.beta2_decay * logf(a.step[0]));
}

// A block a row of all matrices.
__global__ void __launch_bounds__(kThreads) RowMeans(Adafactor a) {
  __shared__ double scratch[kThreads / kWarp];
  const int64_t r = blockIdx.x;
  double sum = 0;
  for (int64_t c = threadIdx.x; c < a.columns; c += kThreads) {
    const float g = GradientAt(a, r * a.columns + c);
    sum += static_cast<double>(g) * g;
  }
  sum = RowReduce<kThreads>(sum, scratch, AddOf());
  if (threadIdx.x != 0) return;
  const float fresh = FreshOf(a), mean = static_cast<float>(sum / static_cast<double>(a.columns));
  a.new_row[r] = (1 - fresh) * a.row[r] + fresh * mean;
}

// A thread a column of a band of rows; bands lie within a matrix.
__global__ void __launch_bounds__(kThreads) ColumnBands(Adafactor a, Scratch s) {
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (item >= a.matrices * s.num_bands * a.columns) return;
  const int64_t band = item / a.columns, c = item % a.columns, matrix = band / s.num_bands;
  const int64_t first = band % s.num_bands * kBandRows, end = min(a.rows, first + kBandRows);
  double sum = 0;
  for (int64_t r = first; r < end; ++r) {
    const float g = GradientAt(a, (matrix * a.rows + r) * a.columns + c);
    sum += static_cast<double>(g) * g;
  }
  s.bands[item] = static_cast<float>(sum);
}

__global__ void __launch_bounds__(kThreads) ColumnMeans(Adafactor a, Scratch s) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= a.matrices * a.columns) return;
  const int64_t matrix = i / a.columns, c = i % a.columns;
  double sum = 0;
  for (int64_t band = matrix * s.num_bands; band < (matrix + 1) * s.num_bands; ++band) {
    sum += s.bands[band * a.columns + c];
  }
  const float fresh = FreshOf(a), mean = static_cast<float>(sum / static_cast<double>(a.rows));
  a.new_column[i] = (1 - fresh) * a.column[i] + fresh * mean;
}

// A block a matrix.
__global__ void __launch_bounds__(kThreads) MatrixScales(Adafactor a, Scratch s) {
  __shared__ double scratch[kThreads / kWarp];
  const int64_t matrix = blockIdx.x;
  double sum = 0;
  for (int64_t r = threadIdx.x; r < a.rows; r += kThreads) sum += a.new_row[matrix * a.rows + r];
  sum = RowReduce<kThreads>(sum, scratch, AddOf());
  if (threadIdx.x != 0) return;
  s.scales[matrix] = 1.0f / fmaxf(static_cast<float>(sum / static_cast<double>(a.rows)), a.eps1);
}

__global__ void __launch_bounds__(kThreads) TakeUp(Adafactor a) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= a.n) return;
  const float g = GradientAt(a, i), fresh = FreshOf(a);
  a.new_column[i] = (1 - fresh) * a.column[i] + fresh * g * g;
}

__device__ __forceinline__ float WantedAt(const Adafactor& a, const Scratch& s, int64_t i) {
  float estimate;
  if (a.factored) {
    const int64_t r = i / a.columns, matrix = r / a.rows;
    estimate = a.new_row[r] * s.scales[matrix] * a.new_column[matrix * a.columns + i % a.columns];
  } else {
    estimate = a.new_column[i];
  }
  return GradientAt(a, i) / sqrtf(fmaxf(estimate, a.eps1 * a.eps1));
}

// A block a chunk.
__global__ void __launch_bounds__(kThreads) Squares(Adafactor a, Scratch s) {
  __shared__ double scratch[2][kThreads / kWarp];
  const int64_t begin = blockIdx.x * a.chunk, end = min(a.n, begin + a.chunk);
  double p_sum = 0, step_sum = 0;
  for (int64_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const float step = WantedAt(a, s, i);
    p_sum += static_cast<double>(a.p[i]) * a.p[i];
    step_sum += static_cast<double>(step) * step;
  }
  p_sum = RowReduce<kThreads>(p_sum, scratch[0], AddOf());
  step_sum = RowReduce<kThreads>(step_sum, scratch[1], AddOf());
  if (threadIdx.x != 0) return;
  s.p_sums[blockIdx.x] = static_cast<float>(p_sum);
  s.step_sums[blockIdx.x] = static_cast<float>(step_sum);
}

// Every block makes the step's rate of the chunks' sums by itself, in the same order.
__global__ void __launch_bounds__(kThreads) Apply(Adafactor a, Scratch s) {
  __shared__ double scratch[2][kThreads / kWarp];
  double p_sum = 0, step_sum = 0;
  for (int64_t c = threadIdx.x; c < s.chunks; c += kThreads) {
    p_sum += s.p_sums[c];
    step_sum += s.step_sums[c];
  }
  p_sum = RowReduce<kThreads>(p_sum, scratch[0], AddOf());
  step_sum = RowReduce<kThreads>(step_sum, scratch[1], AddOf());
  const auto n = static_cast<double>(a.n);
  const float size = sqrtf(static_cast<float>(p_sum / n));
  const float excess = sqrtf(static_cast<float>(step_sum / n)) / a.d;
  const float lr = a.lr[0] * a.lr_scale;
  const float rate =
      fmaxf(a.eps2, size) * fminf(lr, 1.0f / sqrtf(a.step[0])) / fmaxf(1.0f, excess);
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < a.n) a.new_p[i] = (1 - lr * a.decay) * a.p[i] - rate * WantedAt(a, s, i);
}

}  // namespace

int64_t AdafactorWorkspace(const Adafactor& a) { return Scratch(a).floats(a); }

cudaError_t Launch(const Adafactor& a, cudaStream_t stream) {
  if (a.n == 0) return cudaSuccess;
  const Scratch s(a);
  const unsigned items = BlocksFor(a.n, kThreads);
  if (a.factored) {
    const int64_t banded = a.matrices * s.num_bands * a.columns;
    RowMeans<<<static_cast<unsigned>(a.matrices * a.rows), kThreads, 0, stream>>>(a);
    ColumnBands<<<BlocksFor(banded, kThreads), kThreads, 0, stream>>>(a, s);
    ColumnMeans<<<BlocksFor(a.matrices * a.columns, kThreads), kThreads, 0, stream>>>(a, s);
    MatrixScales<<<static_cast<unsigned>(a.matrices), kThreads, 0, stream>>>(a, s);
  } else {
    TakeUp<<<items, kThreads, 0, stream>>>(a);
  }
  Squares<<<static_cast<unsigned>(s.chunks), kThreads, 0, stream>>>(a, s);
  Apply<<<items, kThreads, 0, stream>>>(a, s);
  return cudaGetLastError();
}

}  // namespace oc::cuda::kernels

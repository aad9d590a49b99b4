#include "openclaw/devices/cuda/measure.h"

#include <algorithm>

#include "openclaw/devices/cuda/kernels/fill.h"

namespace oc::cuda {

Measure::Measure(const CudaSlice& slice, std::string where)
    : slice_(slice), where_(std::move(where)), lock_(slice.setup_mutex()) {}

StatusOr<std::unique_ptr<Measure>> Measure::Create(const CudaSlice& slice,
                                                   const std::vector<int64_t>& bytes,
                                                   const std::string& where) {
  std::unique_ptr<Measure> made(new Measure(slice, where));
  constexpr int64_t kAlign = 512;
  constexpr size_t kLeave = size_t{1} << 30;
  int64_t total = 0;
  made->bytes_ = bytes;
  for (int64_t b : bytes) {
    made->offsets_.push_back(total);
    total += (b + kAlign - 1) / kAlign * kAlign;
  }
  size_t free = 0, all = 0;
  OC_RETURN_IF_ERROR(ToStatus(cudaMemGetInfo(&free, &all), "cudaMemGetInfo", where));
  const auto size = static_cast<size_t>(std::max<int64_t>(total, kAlign));
  if (free < size + kLeave) return std::unique_ptr<Measure>();
  if (cudaMalloc(reinterpret_cast<void**>(&made->memory_), size) != cudaSuccess) {
    cudaGetLastError();
    return std::unique_ptr<Measure>();
  }
  OC_RETURN_IF_ERROR(
      ToStatus(cudaMemsetAsync(made->memory_, 0, size, made->stream()), "cudaMemsetAsync", where));
  OC_ASSIGN_OR_RETURN(made->begin_, slice.events()->Take(where));
  OC_ASSIGN_OR_RETURN(made->end_, slice.events()->Take(where));
  return made;
}

Measure::~Measure() {
  if (memory_ != nullptr) cudaFree(memory_);
  for (cudaEvent_t event : {begin_, end_}) {
    if (event != nullptr) slice_.events()->Give(event);
  }
}

Status Measure::Fill(size_t i, DType dtype) const {
  return ToStatus(
      kernels::FillNoise(TypeOf(dtype), memory(i), bytes_[i] / SizeInBytes(dtype), stream()),
      "launch a kernel", where_);
}

StatusOr<double> Measure::TimeRuns(const std::function<bool()>& call, int runs) const {
  OC_RETURN_IF_ERROR(ToStatus(cudaEventRecord(begin_, stream()), "cudaEventRecord", where_));
  for (int i = 0; i < runs; ++i) {
    if (!call()) {
      cudaGetLastError();
      return -1.0;
    }
  }
  OC_RETURN_IF_ERROR(ToStatus(cudaEventRecord(end_, stream()), "cudaEventRecord", where_));
  OC_RETURN_IF_ERROR(ToStatus(cudaEventSynchronize(end_), "cudaEventSynchronize", where_));
  float ms = 0;
  OC_RETURN_IF_ERROR(
      ToStatus(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime", where_));
  return ms * 1e-3 / runs;
}

StatusOr<double> Measure::Time(const std::function<bool()>& call, double best) const {
  constexpr double kLong = 2e-3, kShort = 1e-6, kHopeless = 10;
  OC_ASSIGN_OR_RETURN(double once, TimeRuns(call, 1));  // loads its code
  if (once < 0) return once;
  OC_ASSIGN_OR_RETURN(once, TimeRuns(call, 1));
  if (best > 0 && once > kHopeless * best) return -1.0;
  return TimeRuns(call, std::clamp(static_cast<int>(kLong / std::max(once, kShort)), 1, 50));
}

}  // namespace oc::cuda

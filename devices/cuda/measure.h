// Measuring what a library offers, while an op is prepared: memory of the operands' sizes with
// numbers in it, and the time of a call on the slice's setup stream.
#pragma once

#include "openclaw/devices/cuda/slice.h"

namespace oc::cuda {

class Measure {
 public:
  // `bytes`: of what is read and written. Null where the device has not that much to spare. Holds
  // the slice's setup stream meanwhile.
  static StatusOr<std::unique_ptr<Measure>> Create(const CudaSlice& slice,
                                                   const std::vector<int64_t>& bytes,
                                                   const std::string& where);
  ~Measure();
  // 512-byte aligned.
  void* memory(size_t i) const { return memory_ + offsets_[i]; }
  cudaStream_t stream() const { return slice_.setup_stream(); }
  // Noise where it is to be read as numbers.
  Status Fill(size_t i, DType dtype) const;

  // Seconds of one call, of several in a row that take a few milliseconds; below 0 where it does
  // not run, or takes more than ten times `best` (0: none is known).
  StatusOr<double> Time(const std::function<bool()>& call, double best = 0) const;

 private:
  Measure(const CudaSlice& slice, std::string where);
  StatusOr<double> TimeRuns(const std::function<bool()>& call, int runs) const;

  const CudaSlice& slice_;
  const std::string where_;
  std::unique_lock<std::mutex> lock_;
  char* memory_ = nullptr;
  std::vector<int64_t> bytes_, offsets_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace oc::cuda

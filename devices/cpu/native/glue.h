// What the kernels of this folder share: a kernel made of a callable, dtypes as the loops know
// them, and how work is split.
#pragma once

#include <memory>
#include <utility>

#include "openclaw/devices/cpu/kernels.h"
#include "openclaw/devices/cpu/native/elementwise_loops.h"

namespace oc::cpu {

// Runs `run(args)`, which returns a Status or nothing.
template <typename F>
class CallableKernel : public HostKernel {
 public:
  CallableKernel(F run, int64_t workspace_bytes)
      : run_(std::move(run)), workspace_bytes_(workspace_bytes) {}
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  const char* implementation() const override { return "cpu"; }
  Status Run(const KernelArgs& args) override {
    if constexpr (std::is_void_v<decltype(run_(args))>) {
      run_(args);
      return OkStatus();
    } else {
      return run_(args);
    }
  }

 private:
  F run_;
  int64_t workspace_bytes_;
};

template <typename F>
StatusOr<std::unique_ptr<HostKernel>> MakeKernel(F run, int64_t workspace_bytes = 0) {
  return std::unique_ptr<HostKernel>(
      std::make_unique<CallableKernel<F>>(std::move(run), workspace_bytes));
}

inline Status NoKernel(const TensorType& type) {
  return Unimplemented("no own cpu kernel for ", type.ToString());
}

// kUnimplemented for other dtypes.
inline StatusOr<FloatKind> FloatKindOf(const TensorType& type) {
  if (type.dtype == DType::kF32) return kFloat32;
  if (type.dtype == DType::kBF16) return kBFloat16;
  if (type.dtype == DType::kF16) return kFloat16;
  return NoKernel(type);
}
inline StatusOr<IntKind> IntKindOf(const TensorType& type) {
  if (type.dtype == DType::kI32) return kInt32;
  if (type.dtype == DType::kI64) return kInt64;
  return NoKernel(type);
}
// The product of all dimensions but the last; 1 for a scalar.
inline int64_t RowsOf(const TensorType& type) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < type.shape.rank(); ++i) rows *= type.shape[i].size();
  return rows;
}
inline int64_t LastDim(const TensorType& type) {
  return type.shape.rank() == 0 ? 1 : type.shape[-1].size();
}

// f(begin, end) over parts of 0..n-1, one a worker, in multiples of `align`; all of it on the
// caller where n * cost (elements touched) is too little to wake anyone for.
template <typename F>
void Split(WorkerPool& pool, int64_t n, int64_t cost, int64_t align, const F& f) {
  constexpr int64_t kWorthSplitting = 16384;
  pool.ParallelFor(n, n * cost < kWorthSplitting ? n : align, f);
}

}  // namespace oc::cpu

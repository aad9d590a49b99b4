// One matrix product (or a stack of them) split over the workers of a pool, each part run by one
// worker with a single-threaded call: no OpenMP team beside the pool, and results that depend on
// the number of workers only.
//
// Fixed rules choose what runs, never a measurement, so that every process computes the same bits:
// - bf16, and f32 with b transposed (linear's forward), take the library's product primitive, which
//   adds bias and relu at no cost: 0.95 to 1.1 of sgemm's speed there.
// - Other f32 products (both gradients) take sgemm: up to 1.9 times the primitive's speed where the
//   primitive has to copy b, and adding to c costs nothing. The exceptions are in UsesSgemm.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "openclaw/devices/cpu/onednn/shim.h"
#include "openclaw/devices/host/worker_pool.h"

namespace oc::onednn {

// c[batch, m, n] = relu(op(a[batch, m, k])·op(b[batch, k, n]) + bias[n]), all row-major;
// transposed: the last two dimensions lie the other way round. Everything positive.
struct Product {
  DType dtype = DType::kF32;
  std::optional<DType> sum;  // c's: none, as that of the operands, or f32
  int64_t batch = 1;
  int64_t m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false;
  bool share_a = false, share_b = false;  // one matrix for the whole stack
  bool bias = false, relu = false;
  bool accumulate = false;  // c += instead; neither bias nor relu then

  DType sum_type() const { return sum.value_or(dtype); }
};

class SplitProduct {
 public:
  // kUnimplemented: the library has no such product.
  static StatusOr<std::unique_ptr<SplitProduct>> Create(const Context& context,
                                                        const Product& product, int threads);
  int64_t workspace_bytes() const { return workspace_bytes_; }
  // `bias` may be null where there is none. The pool has as many threads as Create was told.
  Status Run(WorkerPool& pool, const std::byte* a, const std::byte* b, const std::byte* bias,
             std::byte* c, std::byte* workspace) const;

 private:
  // What one worker computes: a box of c.
  struct Part {
    WorkRange stack, rows, columns;
    std::unique_ptr<Call> call;  // null: sgemm
    int64_t scratch_offset = 0;
  };

  explicit SplitProduct(const Product& product) : product_(product) {}
  void Split(int threads);
  StatusOr<std::unique_ptr<Call>> Prepare(const Context& context, const Part& part) const;
  Status RunPart(const Part& part, const std::byte* a, const std::byte* b, const std::byte* bias,
                 std::byte* c, std::byte* workspace) const;
  Status RunSgemm(const Part& part, const float* a, const float* b, float* c) const;

  Product product_;
  std::vector<Part> parts_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace oc::onednn

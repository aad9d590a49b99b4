// One matrix product (or a stack of them) split over the workers of a pool, each part run by one
// worker with a single-threaded call: no OpenMP team beside the pool, and results that depend on
// the number of workers only.
//
// Fixed rules choose what runs, never a measurement, so that every process computes the same bits:
// - bf16, and f32 with b transposed (linear's forward), take the library's product primitive, which
//   adds bias and relu at no cost: 0.95 to 1.1 of sgemm's speed there.
// - f32 products that take microseconds run own loops (native/product_loops.h), which cost nothing
//   to call: 1.0 to 1.5 times the library's speed. They are not split where that would take longer.
// - Other f32 products (both gradients) take sgemm: up to 1.9 times the primitive's speed where the
//   primitive has to copy b, and adding to c costs nothing. The exceptions are in UsesSgemm.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "openclaw/devices/cpu/native/product_loops.h"
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
  // "cpu" for own loops, else "onednn".
  const char* implementation() const { return way_ == Way::kOwn ? "cpu" : "onednn"; }
  // `bias` may be null where there is none. The pool has as many threads as Create was told.
  Status Run(WorkerPool& pool, const std::byte* a, const std::byte* b, const std::byte* bias,
             std::byte* c, std::byte* workspace) const;

 private:
  enum class Way { kOwn, kSgemm, kPrimitive };
  static Way WayOf(const Product& product);
  // What one worker computes: a box of c.
  struct Part {
    WorkRange stack, rows, columns;
    int64_t scratch_offset = 0;
    // Way::kPrimitive: columns (of CopiesA: rows) a call, and the call of those that are left.
    int64_t piece = 0;
    std::unique_ptr<Call> call, last_call;
    int64_t piece_bytes = 0;  // of scratch memory that holds an operand of a call; 0: none does
  };

  explicit SplitProduct(const Product& product) : product_(product), way_(WayOf(product)) {}
  void Split(int threads);
  double CyclesOf(const Part& part) const;
  // Whether pieces of c are computed in scratch memory and then copied to where they belong, or
  // those of a transposed are copied there before: the library is up to a third slower where lines
  // of an operand do not lie side by side.
  bool IsApart(const Part& part) const;
  bool CopiesA(const Part& part) const;
  StatusOr<int64_t> PreparePart(const Context& context, Part& part) const;
  // Of m rows and n columns.
  StatusOr<std::unique_ptr<Call>> Prepare(const Context& context, const Part& part, int64_t m,
                                          int64_t n) const;
  Status RunPart(const Part& part, const std::byte* a, const std::byte* b, const std::byte* bias,
                 std::byte* c, std::byte* workspace) const;
  Status RunPrimitive(const Part& part, const std::byte* a, const std::byte* b,
                      const std::byte* bias, std::byte* c, std::byte* scratch) const;
  Status RunByRows(const Part& part, const std::byte* a, const std::byte* b, std::byte* c,
                   std::byte* scratch) const;
  Status RunSgemm(const Part& part, const float* a, const float* b, float* c) const;
  Status RunOwn(const Part& part, const float* a, const float* b, const float* bias, float* c,
                float* scratch) const;
  cpu::SmallProduct SizesOf(const Part& part) const;  // of one matrix of a stack
  // f(a, b, c) for each matrix of a part.
  template <typename F>
  Status ForMatrices(const Part& part, const float* a, const float* b, float* c, const F& f) const;

  Product product_;
  Way way_;
  std::vector<Part> parts_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace oc::onednn

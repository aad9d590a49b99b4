// What the cpu leaf uses of oneDNN, behind one interface for its versions 2 and 3: whatever differs
// between them is in shim.cc, and no oneDNN header is needed to use this one.
//
// A Call is one primitive with the descriptors of its operands, for one thread: its scratch memory
// is given by the caller, it runs on the calling thread alone, and Run allocates nothing itself.
// Calls are made with OpenMP set to one thread, whatever the caller's setting is, since a
// primitive's number of threads is fixed when it is made.
//
// Thread-safety: Context, Layout: all methods. Call: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "openclaw/core/dtype.h"
#include "openclaw/core/status.h"

namespace oc::onednn {

using Dims = std::vector<int64_t>;

// The library's engine. Cheap; share one for a device.
class Context {
 public:
  // kFailedPrecondition where the library offers no CPU engine.
  static StatusOr<std::shared_ptr<const Context>> Create();
  struct Impl;
  explicit Context(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// Forms of weights, f32 / bf16; in the library's names a stands for outputs, b for inputs.
enum class WeightForm {
  kRowBlocks,     // 16 by 16, the inputs of a block together: ABcd16a16b / ABcd8a16b2a
  kColumnBlocks,  // 16 by 16, the outputs of a block together: ABcd16b16a; f32 only
  kColumns16,     // so many outputs together, for all taps and inputs: Acdb16a / AcdB16a2b
  kColumns32,
  kColumns64,
};

// How a tensor lies in memory. A value.
class Layout {
 public:
  Layout() = default;  // no tensor
  // Strides in elements. f32, bf16, f16 and i32 only (kUnimplemented).
  static StatusOr<Layout> Strided(DType dtype, const Dims& dims, const Dims& strides);
  // Weights OIHW in one of the library's blocked forms.
  static StatusOr<Layout> Blocked(WeightForm form, DType dtype, const Dims& dims);
  // The library chooses: ask the Call what it took.
  static StatusOr<Layout> Any(DType dtype, const Dims& dims);

  bool empty() const { return impl_ == nullptr; }
  int64_t bytes() const;
  // A box of the tensor in the same memory. kInvalidArgument where the layout's blocks forbid it.
  StatusOr<Layout> Part(const Dims& dims, const Dims& offsets) const;
  bool operator==(const Layout& other) const;

  struct Impl;
  explicit Layout(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

class Call {
 public:
  virtual ~Call() = default;
  virtual int64_t scratch_bytes() const = 0;
  // Operand i's layout, in the order of the Make function's comment.
  virtual const Layout& layout(int operand) const = 0;
  // One pointer an operand; scratch_bytes() at `scratch`, 64-byte aligned.
  virtual Status Run(void* const* operands, void* scratch) = 0;
  // The library's name of what it chose: "brg:avx512_core".
  virtual const char* info() const = 0;
};

// c = a·b, or c += a·b, then + bias, then relu. Ranks equal, 2 or 3; where a leading dimension of a
// or b is 1, it is repeated. Operands: a, b, c, and bias where there is one (a row of c's rank).
struct ProductSpec {
  Layout a, b, c, bias;
  bool relu = false;
  bool accumulate = false;
};
StatusOr<std::unique_ptr<Call>> MakeProduct(const Context& context, const ProductSpec& spec);

// Convolutions; tensors have the logical order NCHW and OIHW (GOIHW with groups), whatever their
// layout.
struct ConvolutionSpec {
  enum class Kind { kForward, kGradInput, kGradWeight };
  Kind kind = Kind::kForward;
  Layout x, w, y, bias;   // of gradients where the kind says so
  Dims stride, dilation;  // dilation 1: dense
  Dims pad_before, pad_after;
  // kGradWeight where w's dtype is not x's: weights of x's dtype, which the library wants to see.
  Layout hint_w;
};
// Operands: x, w, y, and bias where there is one.
StatusOr<std::unique_ptr<Call>> MakeConvolution(const Context& context,
                                                const ConvolutionSpec& spec);

// Copies from one layout (and dtype) to another; `accumulate`: adds. Operands: from, to.
StatusOr<std::unique_ptr<Call>> MakeReorder(const Context& context, const Layout& from,
                                            const Layout& to, bool accumulate = false);

// c = op(a)·op(b) + beta·c, row-major f32, on the calling thread. The library allocates inside.
Status Sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
             int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc);

// "2.6.3"
const char* Version();

}  // namespace oc::onednn

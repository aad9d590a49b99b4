#include "openclaw/devices/cpu/onednn/split_product.h"

#include <algorithm>

#include "openclaw/devices/cpu/onednn/first_error.h"

namespace oc::onednn {
namespace {

// Parts begin at multiples of what the kernels take at once: 48 columns of an sgemm, 64 of a
// primitive.
constexpr int64_t kSgemmColumns = 48, kPrimitiveColumns = 64, kRows = 16;
// With at least so many columns a worker, columns are split: b, which both kernels copy into a form
// of their own, is then copied once in all, not once a worker.
constexpr int64_t kColumnsWorthSplitting = 192;
constexpr int64_t kAlignment = 64;

bool UsesSgemm(const Product& p) {
  if (p.dtype != DType::kF32 || p.transpose_b || p.bias || p.relu) return false;
  // What takes microseconds: a call of the primitive costs less where it has nothing to transpose.
  constexpr int64_t kTiny = 1 << 16;
  if (!p.transpose_a && p.m * p.n * p.k <= kTiny) return false;
  // Long sums over transposed rows of a wide result: 0.8 to 0.95 of the primitive's speed.
  constexpr int64_t kLongSum = 1024, kWide = 512;
  return !(p.transpose_a && p.k >= kLongSum && std::max(p.m, p.n) >= kWide);
}

// How evenly `threads` workers are loaded when n is cut at multiples of `grain`: mean over largest.
double Balance(int64_t n, int64_t grain, int threads) {
  const WorkRange largest = SplitWork(n, grain, threads, 0);
  return static_cast<double>(n) / static_cast<double>(largest.end - largest.begin) / threads;
}

}  // namespace

void SplitProduct::Split(int threads) {
  const Product& p = product_;
  const WorkRange stack{0, p.batch}, rows{0, p.m}, columns{0, p.n};
  const int64_t column_grain = std::min(UsesSgemm(p) ? kSgemmColumns : kPrimitiveColumns,
                                        std::max<int64_t>(16, (p.n / threads + 15) / 16 * 16));
  const int64_t row_grain = std::min(kRows, std::max<int64_t>(1, p.m / threads));
  const double by_stack = Balance(p.batch, 1, threads);
  const double by_rows = Balance(p.m, row_grain, threads);
  const double by_columns = Balance(p.n, column_grain, threads);
  const bool columns_first = p.n >= kColumnsWorthSplitting * threads || p.n >= p.m;
  for (int worker = 0; worker < threads; ++worker) {
    Part part{stack, rows, columns, nullptr, 0};
    if (by_stack > 0.9 || by_stack >= std::max(by_rows, by_columns)) {
      part.stack = SplitWork(p.batch, 1, threads, worker);
    } else if (by_columns > 0.85 && columns_first) {
      part.columns = SplitWork(p.n, column_grain, threads, worker);
    } else if (by_rows > 0.85 || by_rows >= by_columns) {
      part.rows = SplitWork(p.m, row_grain, threads, worker);
    } else {
      part.columns = SplitWork(p.n, column_grain, threads, worker);
    }
    parts_.push_back(std::move(part));
  }
}

namespace {
int64_t Length(const WorkRange& r) { return r.end - r.begin; }
}  // namespace

StatusOr<std::unique_ptr<Call>> SplitProduct::Prepare(const Context& context,
                                                      const Part& part) const {
  const Product& p = product_;
  const int64_t batch = Length(part.stack), m = Length(part.rows), n = Length(part.columns);
  const auto matrix = [&](DType dtype, int64_t stack, int64_t rows, int64_t columns,
                          int64_t stack_stride, int64_t row_stride, int64_t column_stride) {
    // Strides of dimensions of one are free: what the library takes for a plain matrix is kept.
    if (p.batch == 1) {
      return Layout::Strided(dtype, {rows, columns}, {row_stride, column_stride});
    }
    return Layout::Strided(dtype, {stack, rows, columns},
                           {stack_stride, row_stride, column_stride});
  };
  ProductSpec spec;
  OC_ASSIGN_OR_RETURN(spec.a, matrix(p.dtype, p.share_a ? 1 : batch, m, p.k, p.m * p.k,
                                     p.transpose_a ? 1 : p.k, p.transpose_a ? p.m : 1));
  OC_ASSIGN_OR_RETURN(spec.b, matrix(p.dtype, p.share_b ? 1 : batch, p.k, n, p.k * p.n,
                                     p.transpose_b ? 1 : p.n, p.transpose_b ? p.k : 1));
  OC_ASSIGN_OR_RETURN(spec.c, matrix(p.sum_type(), batch, m, n, p.m * p.n, p.n, 1));
  if (p.bias) {
    OC_ASSIGN_OR_RETURN(spec.bias, matrix(p.dtype, 1, 1, n, n, n, 1));
  }
  spec.relu = p.relu;
  spec.accumulate = p.accumulate;
  return MakeProduct(context, spec);
}

StatusOr<std::unique_ptr<SplitProduct>> SplitProduct::Create(const Context& context,
                                                             const Product& product, int threads) {
  if (product.batch < 1 || product.m < 1 || product.n < 1 || product.k < 1) {
    return Unimplemented("a product without elements");
  }
  std::unique_ptr<SplitProduct> result(new SplitProduct(product));
  result->Split(threads);
  for (Part& part : result->parts_) {
    if (Length(part.stack) == 0 || Length(part.rows) == 0 || Length(part.columns) == 0) continue;
    if (UsesSgemm(product)) continue;
    OC_ASSIGN_OR_RETURN(part.call, result->Prepare(context, part));
    part.scratch_offset = result->workspace_bytes_;
    result->workspace_bytes_ +=
        (part.call->scratch_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  }
  return result;
}

Status SplitProduct::RunSgemm(const Part& part, const float* a, const float* b, float* c) const {
  const Product& p = product_;
  const int64_t lda = p.transpose_a ? p.m : p.k, ldb = p.transpose_b ? p.k : p.n;
  for (int64_t s = part.stack.begin; s < part.stack.end; ++s) {
    const float* as = a + (p.share_a ? 0 : s * p.m * p.k);
    const float* bs = b + (p.share_b ? 0 : s * p.k * p.n);
    OC_RETURN_IF_ERROR(Sgemm(p.transpose_a, p.transpose_b, Length(part.rows), Length(part.columns),
                             p.k, as + part.rows.begin * (p.transpose_a ? 1 : p.k), lda,
                             bs + part.columns.begin * (p.transpose_b ? p.k : 1), ldb,
                             p.accumulate ? 1.0f : 0.0f,
                             c + s * p.m * p.n + part.rows.begin * p.n + part.columns.begin, p.n));
  }
  return OkStatus();
}

Status SplitProduct::RunPart(const Part& part, const std::byte* a, const std::byte* b,
                             const std::byte* bias, std::byte* c, std::byte* workspace) const {
  if (Length(part.stack) == 0 || Length(part.rows) == 0 || Length(part.columns) == 0) {
    return OkStatus();
  }
  if (part.call == nullptr) {
    return RunSgemm(part, reinterpret_cast<const float*>(a), reinterpret_cast<const float*>(b),
                    reinterpret_cast<float*>(c));
  }
  const Product& p = product_;
  const int64_t bytes = SizeInBytes(p.dtype);
  const int64_t s = part.stack.begin, row = part.rows.begin, column = part.columns.begin;
  const std::byte* as =
      a + ((p.share_a ? 0 : s * p.m * p.k) + row * (p.transpose_a ? 1 : p.k)) * bytes;
  const std::byte* bs =
      b + ((p.share_b ? 0 : s * p.k * p.n) + column * (p.transpose_b ? p.k : 1)) * bytes;
  std::byte* cs = c + (s * p.m * p.n + row * p.n + column) * SizeInBytes(p.sum_type());
  const std::byte* bias_part = p.bias ? bias + column * bytes : nullptr;
  // The library's interface knows no constant operands.
  void* operands[] = {const_cast<std::byte*>(as), const_cast<std::byte*>(bs), cs,
                      const_cast<std::byte*>(bias_part)};
  return part.call->Run(operands, workspace + part.scratch_offset);
}

Status SplitProduct::Run(WorkerPool& pool, const std::byte* a, const std::byte* b,
                         const std::byte* bias, std::byte* c, std::byte* workspace) const {
  FirstError error;
  pool.Run([&](int worker) {
    error.Keep(RunPart(parts_[static_cast<size_t>(worker)], a, b, bias, c, workspace));
  });
  return error.Take();
}

}  // namespace oc::onednn

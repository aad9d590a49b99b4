#include "openclaw/devices/cpu/onednn/split_product.h"

#include <algorithm>
#include <cstring>

#include "openclaw/devices/cpu/native/product_loops.h"
#include "openclaw/devices/cpu/onednn/first_error.h"

namespace oc::onednn {
namespace {

// Parts begin at multiples of what the kernels take at once: 48 columns of an sgemm, 64 of a
// primitive.
constexpr int64_t kSgemmColumns = 48, kPrimitiveColumns = 64, kRows = 16;
constexpr int64_t kAlignment = 64;
// What a worker holds of an operand in scratch memory: it stays in the second cache.
constexpr int64_t kPieceBytes = 1 << 19;
// But so many rows of bf16 at least, since b is copied into the library's form for each piece.
constexpr int64_t kFewestHalfRows = 512;

int64_t Length(const WorkRange& r) { return r.end - r.begin; }
int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Cycles that are worth waking another worker for.
constexpr double kWorthSplitting = 8000;

bool UsesOwnLoops(const Product& p) {
  constexpr int64_t kSmall = 1 << 18;  // multiplications
  return p.dtype == DType::kF32 && cpu::ActiveIsa() != cpu::Isa::kNone && p.m * p.n * p.k <= kSmall;
}

bool UsesSgemm(const Product& p) {
  if (p.dtype != DType::kF32 || p.transpose_b || p.bias || p.relu) return false;
  if (!p.transpose_a || p.batch > 1) return true;
  // Lines of a that lie 4 KiB apart fall on the same places of the first cache: 0.75 to 0.95 of the
  // primitive's speed, until the result is so wide that each number of a is used often.
  constexpr int64_t kSamePlace = 1024, kWide = 1024;
  if (p.m % kSamePlace == 0 && p.n < kWide) return false;
  // Short sums of a middling width: 0.85 to 1.0 of it.
  constexpr int64_t kShortSum = 64, kMiddling = 512;
  return p.k > kShortSum || p.n > kMiddling;
}

}  // namespace

SplitProduct::Way SplitProduct::WayOf(const Product& p) {
  if (UsesOwnLoops(p)) return Way::kOwn;
  return UsesSgemm(p) ? Way::kSgemm : Way::kPrimitive;
}

bool SplitProduct::IsApart(const Part& part) const {
  const Product& p = product_;
  return way_ == Way::kPrimitive && p.batch == 1 && !p.transpose_a && p.transpose_b &&
         !p.accumulate && Length(part.columns) < p.n;
}

bool SplitProduct::CopiesA(const Part& part) const {
  const Product& p = product_;
  return way_ == Way::kPrimitive && p.batch == 1 && p.transpose_a && !p.bias &&
         Length(part.rows) < p.m;
}

// About how many cycles a part takes (AVX-512): multiplications, and copies of operands into the
// forms that the kernels want, which two parts that share an operand both make.
double SplitProduct::CyclesOf(const Part& part) const {
  constexpr int64_t kLanes = 16;
  constexpr double kCopy = 0.27;     // a number
  constexpr double kStrided = 1.08;  // of the multiplications
  constexpr double kFar = 0.25;      // a byte of an operand that is larger than kCachedBytes
  constexpr int64_t kCachedBytes = 1 << 24;
  constexpr double kSharedLine = 40;  // a row: its columns end within another worker's cache line
  const Product& p = product_;
  const auto rows = static_cast<double>(Length(part.rows));
  const auto columns = static_cast<double>(RoundUp(Length(part.columns), kLanes));
  const auto depth = static_cast<double>(p.k);
  const bool whole_rows = Length(part.columns) == p.n;
  double multiply = rows * columns * depth / (p.dtype == DType::kF32 ? 2 * kLanes : 4 * kLanes);
  double copied = 0;
  if (way_ != Way::kOwn || p.transpose_b) copied += columns * depth;
  if (way_ == Way::kSgemm || (way_ == Way::kPrimitive && p.transpose_a)) copied += rows * depth;
  if (IsApart(part)) copied += rows * columns;
  if (CopiesA(part)) copied += rows * depth;
  if (way_ == Way::kPrimitive && !whole_rows && !IsApart(part)) multiply *= kStrided;
  const bool shares_lines = !whole_rows && p.n * SizeInBytes(p.sum_type()) % kAlignment != 0;
  const auto far_bytes = [&](int64_t lines, double part_lines) {
    const int64_t size = SizeInBytes(p.dtype);
    return lines * p.k * size <= kCachedBytes ? 0 : part_lines * depth * static_cast<double>(size);
  };
  const double far =
      far_bytes(p.m, rows) + far_bytes(p.n, static_cast<double>(Length(part.columns)));
  return static_cast<double>(Length(part.stack)) *
         (multiply + kCopy * copied + kFar * far + (shares_lines ? kSharedLine * rows : 0));
}

void SplitProduct::Split(int threads) {
  const Product& p = product_;
  const int64_t column_grain = std::min(way_ == Way::kSgemm ? kSgemmColumns : kPrimitiveColumns,
                                        std::max<int64_t>(16, RoundUp(p.n / threads, 16)));
  const int64_t row_grain = std::min(kRows, std::max<int64_t>(1, p.m / threads));
  const auto whole = [&] {
    Part part;
    part.stack = {0, p.batch}, part.rows = {0, p.m}, part.columns = {0, p.n};
    return part;
  };
  struct Axis {
    WorkRange Part::*range;
    int64_t n, grain;
  };
  const Axis axes[] = {{&Part::stack, p.batch, 1},
                       {&Part::columns, p.n, column_grain},
                       {&Part::rows, p.m, row_grain}};
  const Axis* best = nullptr;  // whose largest part, the first, takes least
  double least = 0;
  for (const Axis& axis : axes) {
    Part first = whole();
    first.*axis.range = SplitWork(axis.n, axis.grain, threads, 0);
    const double cycles = CyclesOf(first);
    if (best == nullptr || cycles < least) best = &axis, least = cycles;
  }
  if (CyclesOf(whole()) < kWorthSplitting) threads = 1;
  for (int worker = 0; worker < threads; ++worker) {
    Part part = whole();
    part.*best->range = SplitWork(best->n, best->grain, threads, worker);
    if (Length(part.*best->range) > 0) parts_.push_back(std::move(part));
  }
}

cpu::SmallProduct SplitProduct::SizesOf(const Part& part) const {
  const Product& p = product_;
  return {.m = Length(part.rows),
          .n = Length(part.columns),
          .k = p.k,
          .lda = p.transpose_a ? p.m : p.k,
          .ldb = p.transpose_b ? p.k : p.n,
          .ldc = p.n,
          .transpose_a = p.transpose_a,
          .transpose_b = p.transpose_b,
          .relu = p.relu,
          .accumulate = p.accumulate};
}

StatusOr<std::unique_ptr<Call>> SplitProduct::Prepare(const Context& context, const Part& part,
                                                      int64_t m, int64_t n) const {
  const Product& p = product_;
  const int64_t batch = Length(part.stack), line_a = CopiesA(part) ? m : p.m;
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
                                     p.transpose_a ? 1 : p.k, p.transpose_a ? line_a : 1));
  OC_ASSIGN_OR_RETURN(spec.b, matrix(p.dtype, p.share_b ? 1 : batch, p.k, n, p.k * p.n,
                                     p.transpose_b ? 1 : p.n, p.transpose_b ? p.k : 1));
  OC_ASSIGN_OR_RETURN(spec.c,
                      matrix(p.sum_type(), batch, m, n, p.m * p.n, IsApart(part) ? n : p.n, 1));
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
    part.scratch_offset = result->workspace_bytes_;
    OC_ASSIGN_OR_RETURN(const int64_t bytes, result->PreparePart(context, part));
    result->workspace_bytes_ += RoundUp(bytes, kAlignment);
  }
  return result;
}

// Returns the bytes of workspace that it takes.
StatusOr<int64_t> SplitProduct::PreparePart(const Context& context, Part& part) const {
  if (way_ == Way::kSgemm) return 0;
  if (way_ == Way::kOwn) {
    return cpu::GetProductLoops().scratch_floats(SizesOf(part)) * SizeInBytes(DType::kF32);
  }
  const int64_t rows = Length(part.rows), columns = Length(part.columns);
  const bool by_rows = CopiesA(part);
  const int64_t whole = by_rows ? rows : columns;
  part.piece = whole;
  if (by_rows || IsApart(part)) {
    // Of scratch memory a row of op(a), or a column of c.
    const int64_t line = by_rows ? product_.k * SizeInBytes(product_.dtype)
                                 : rows * SizeInBytes(product_.sum_type());
    const int64_t fit = kPieceBytes / line / kPrimitiveColumns * kPrimitiveColumns;
    const bool copies_b = by_rows && product_.dtype == DType::kBF16;
    part.piece = std::min(whole, std::max(copies_b ? kFewestHalfRows : kPrimitiveColumns, fit));
    part.piece_bytes = RoundUp(part.piece * line, kAlignment);
  }
  const auto prepare = [&](int64_t piece) {
    return Prepare(context, part, by_rows ? piece : rows, by_rows ? columns : piece);
  };
  OC_ASSIGN_OR_RETURN(part.call, prepare(part.piece));
  int64_t scratch = part.call->scratch_bytes();
  if (whole % part.piece != 0) {
    OC_ASSIGN_OR_RETURN(part.last_call, prepare(whole % part.piece));
    scratch = std::max(scratch, part.last_call->scratch_bytes());
  }
  return part.piece_bytes + scratch;
}

template <typename F>
Status SplitProduct::ForMatrices(const Part& part, const float* a, const float* b, float* c,
                                 const F& f) const {
  const Product& p = product_;
  a += part.rows.begin * (p.transpose_a ? 1 : p.k);
  b += part.columns.begin * (p.transpose_b ? p.k : 1);
  c += part.rows.begin * p.n + part.columns.begin;
  for (int64_t s = part.stack.begin; s < part.stack.end; ++s) {
    OC_RETURN_IF_ERROR(f(a + (p.share_a ? 0 : s * p.m * p.k), b + (p.share_b ? 0 : s * p.k * p.n),
                         c + s * p.m * p.n));
  }
  return OkStatus();
}

Status SplitProduct::RunSgemm(const Part& part, const float* a, const float* b, float* c) const {
  const cpu::SmallProduct p = SizesOf(part);
  return ForMatrices(part, a, b, c, [&](const float* as, const float* bs, float* cs) {
    return Sgemm(p.transpose_a, p.transpose_b, p.m, p.n, p.k, as, p.lda, bs, p.ldb,
                 p.accumulate ? 1.0f : 0.0f, cs, p.ldc);
  });
}

Status SplitProduct::RunOwn(const Part& part, const float* a, const float* b, const float* bias,
                            float* c, float* scratch) const {
  const cpu::SmallProduct p = SizesOf(part);
  const float* const of_part = bias == nullptr ? nullptr : bias + part.columns.begin;
  return ForMatrices(part, a, b, c, [&](const float* as, const float* bs, float* cs) {
    cpu::GetProductLoops().multiply(p, as, bs, of_part, cs, scratch);
    return OkStatus();
  });
}

Status SplitProduct::RunPart(const Part& part, const std::byte* a, const std::byte* b,
                             const std::byte* bias, std::byte* c, std::byte* workspace) const {
  std::byte* const scratch = workspace + part.scratch_offset;
  if (CopiesA(part)) return RunByRows(part, a, b, c, scratch);
  if (way_ == Way::kPrimitive) return RunPrimitive(part, a, b, bias, c, scratch);
  const auto* af = reinterpret_cast<const float*>(a);
  const auto* bf = reinterpret_cast<const float*>(b);
  auto* cf = reinterpret_cast<float*>(c);
  if (way_ == Way::kSgemm) return RunSgemm(part, af, bf, cf);
  return RunOwn(part, af, bf, reinterpret_cast<const float*>(bias), cf,
                reinterpret_cast<float*>(scratch));
}

Status SplitProduct::RunPrimitive(const Part& part, const std::byte* a, const std::byte* b,
                                  const std::byte* bias, std::byte* c, std::byte* scratch) const {
  const Product& p = product_;
  const int64_t size = SizeInBytes(p.dtype), sum_size = SizeInBytes(p.sum_type());
  const int64_t s = part.stack.begin, row = part.rows.begin;
  a += ((p.share_a ? 0 : s * p.m * p.k) + row * (p.transpose_a ? 1 : p.k)) * size;
  b += (p.share_b ? 0 : s * p.k * p.n) * size;
  c += (s * p.m * p.n + row * p.n) * sum_size;
  for (int64_t j = part.columns.begin; j < part.columns.end; j += part.piece) {
    const int64_t columns = std::min(part.piece, part.columns.end - j);
    Call& call = *(columns < part.piece ? part.last_call : part.call);
    std::byte* const to = c + j * sum_size;
    // The library's interface knows no constant operands.
    void* operands[] = {const_cast<std::byte*>(a),
                        const_cast<std::byte*>(b + j * (p.transpose_b ? p.k : 1) * size),
                        part.piece_bytes > 0 ? scratch : to,
                        const_cast<std::byte*>(bias == nullptr ? bias : bias + j * size)};
    OC_RETURN_IF_ERROR(call.Run(operands, scratch + part.piece_bytes));
    if (part.piece_bytes == 0) continue;
    const auto line = static_cast<size_t>(columns * sum_size);
    for (int64_t i = 0; i < Length(part.rows); ++i) {
      std::memcpy(to + i * p.n * sum_size, scratch + static_cast<size_t>(i) * line, line);
    }
  }
  return OkStatus();
}

Status SplitProduct::RunByRows(const Part& part, const std::byte* a, const std::byte* b,
                               std::byte* c, std::byte* scratch) const {
  const Product& p = product_;
  const int64_t size = SizeInBytes(p.dtype), sum_size = SizeInBytes(p.sum_type());
  for (int64_t i = part.rows.begin; i < part.rows.end; i += part.piece) {
    const int64_t rows = std::min(part.piece, part.rows.end - i);
    const auto line = static_cast<size_t>(rows * size);
    for (int64_t k = 0; k < p.k; ++k) {
      std::memcpy(scratch + static_cast<size_t>(k) * line, a + (k * p.m + i) * size, line);
    }
    // The library's interface knows no constant operands.
    void* operands[] = {scratch, const_cast<std::byte*>(b), c + i * p.n * sum_size};
    Call& call = *(rows < part.piece ? part.last_call : part.call);
    OC_RETURN_IF_ERROR(call.Run(operands, scratch + part.piece_bytes));
  }
  return OkStatus();
}

Status SplitProduct::Run(WorkerPool& pool, const std::byte* a, const std::byte* b,
                         const std::byte* bias, std::byte* c, std::byte* workspace) const {
  if (parts_.size() == 1) return RunPart(parts_[0], a, b, bias, c, workspace);
  return RunParts(pool, parts_,
                  [&](const Part& part) { return RunPart(part, a, b, bias, c, workspace); });
}

}  // namespace oc::onednn

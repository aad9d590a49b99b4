#include "openclaw/devices/opencl/plan.h"

#include <algorithm>
#include <cstdio>

namespace oc::opencl {
namespace {

// Every product of two indices in a kernel is an idx too: half of the range is left to them.
constexpr int64_t kNarrow = int64_t{1} << 30;

// Of tiles.cl.
constexpr int64_t kTileRows = 8, kTileColumns = 32;

}  // namespace

KernelStep& KernelStep::AddScalar(const void* value, size_t size) {
  Scalar scalar;
  std::memcpy(scalar.bytes, value, size);
  scalar.size = size;
  args_.emplace_back(scalar);
  return *this;
}

KernelStep& KernelStep::Int(int64_t value) {
  const auto narrow = static_cast<int32_t>(value);
  return wide_ ? AddScalar(&value, sizeof(value)) : AddScalar(&narrow, sizeof(narrow));
}

KernelStep& KernelStep::Ints(const std::vector<int64_t>& values, int64_t rest) {
  OC_CHECK(values.size() <= 8);
  int64_t wide[8];
  int32_t narrow[8];
  for (size_t i = 0; i < 8; ++i) {
    wide[i] = i < values.size() ? values[i] : rest;
    narrow[i] = static_cast<int32_t>(wide[i]);
  }
  return wide_ ? AddScalar(wide, sizeof(wide)) : AddScalar(narrow, sizeof(narrow));
}

OpPlan::OpPlan(const OpRequest& request, const Limits& limits) : limits_(limits) {
  for (const auto* types : {&request.inputs, &request.outputs}) {
    for (const TensorType& t : *types) {
      wide_ |= t.shape.num_elements() > kNarrow;
      const bool narrow = t.dtype == DType::kF16 || t.dtype == DType::kBF16;
      if (narrow && element_ == "float") element_ = *TypeName(t.dtype);
    }
  }
}

void OpPlan::Product(const ProductStep& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) {
    if (p.beta != 0) return;
    Kernel("movement", "clear").Add(p.c).Int(p.m).Int(p.n).Int(p.ldc).Items(p.m * p.n);
    return;
  }
  if (limits_.is_cpu && p.m >= kTileRows) {
    Tiles(p);
    return;
  }
  products_ = true;
  steps_.emplace_back(p);
}

void OpPlan::Tiles(const ProductStep& p) {
  const int64_t panels = (p.n + kTileColumns - 1) / kTileColumns;
  const int64_t blocks = (p.m + kTileRows - 1) / kTileRows;
  const int64_t floats = panels * kTileColumns * p.k;
  // The products of a plan follow each other: they share the room.
  if (packed_floats_ < floats) {
    packed_ = Reserve(floats);
    packed_floats_ = floats;
  }
  Kernel("tiles", "pack")
      .Add(p.b)
      .Add(packed_)
      .Int(p.n)
      .Int(p.k)
      .Int(p.ldb)
      .Int32(p.transpose_b ? 1 : 0)
      .Items(panels * p.k);
  Kernel("tiles", "tile")
      .Add(p.a)
      .Add(packed_)
      .Add(p.c)
      .Int(p.m)
      .Int(p.n)
      .Int(p.k)
      .Int(p.lda)
      .Int(p.ldc)
      .Int32(p.transpose_a ? 1 : 0)
      .Float(p.beta)
      .Groups(panels * blocks, 1);
}

Operand OpPlan::Reserve(int64_t floats) {
  const int64_t at = workspace_;
  workspace_ += (floats * 4 + 63) / 64 * 64;
  return Work(at);
}

Operand OpPlan::Flags(const std::string& what, const std::string& range) {
  what_ = what;
  range_ = range;
  return {Operand::kFlags};
}

StatusOr<std::string> TypeName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return std::string("float");
    case DType::kF16:
      return std::string("half");
    case DType::kBF16:
      return std::string("bf16");
    case DType::kI32:
      return std::string("int");
    case DType::kI64:
      return std::string("long");
    case DType::kU8:
    case DType::kBool:
      return std::string("uchar");
    default:
      return Unimplemented("no kernel for ", Name(dtype),
                           "; there are f32, f16, bf16, i32, i64, u8, bool");
  }
}

std::string Literal(double value) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.9ef", value);
  return text;
}

Status WantFloat(const TensorType& type) {
  if (IsFloat(type.dtype) && type.dtype != DType::kF64) return OkStatus();
  return Unimplemented("no kernel for ", Name(type.dtype), "; there are f32, f16, bf16");
}

Status WantFloats(const OpRequest& request) {
  for (const auto* types : {&request.inputs, &request.outputs}) {
    for (const TensorType& t : *types) {
      if (IsFloat(t.dtype)) OC_RETURN_IF_ERROR(WantFloat(t));
    }
  }
  return OkStatus();
}

std::string MoveType(DType dtype) {
  switch (SizeInBytes(dtype)) {
    case 1:
      return "uchar";
    case 2:
      return "ushort";
    case 4:
      return "uint";
    default:
      return "ulong";
  }
}

void AddConvert(OpPlan& plan, Operand from, const std::string& from_type, Operand to,
                const std::string& to_type, int64_t n, double factor) {
  plan.Kernel("elementwise", "unary")
      .Define("A", from_type)
      .Define("R", to_type)
      .Define("UNARY(x)", factor == 1 ? "(x)" : absl::StrCat("((x) * ", Literal(factor), ")"))
      .Add(from)
      .Add(to)
      .Int(n)
      .Items(n);
}

void AddColumnSums(OpPlan& plan, int64_t rows, int64_t columns, const std::vector<Operand>& inputs,
                   const std::vector<std::string>& values, const std::vector<Operand>& outputs,
                   const std::string& type, double scale, uint32_t accumulate) {
  // Chunks of rows: enough to occupy a device, each long enough to be worth it.
  const int64_t wanted = std::max<int64_t>(1, std::min<int64_t>(64, (rows + 31) / 32));
  const int64_t chunk = std::max<int64_t>(1, (rows + wanted - 1) / wanted);
  const int64_t chunks = std::max<int64_t>(1, (rows + chunk - 1) / chunk);
  const Operand partial = plan.Reserve(static_cast<int64_t>(values.size()) * chunks * columns);
  KernelStep& first = plan.Kernel("columns", "partial_sums");
  for (size_t n = 0; n < values.size(); ++n) first.Define(absl::StrCat("VALUE", n), values[n]);
  for (size_t i = 0; i < 6; ++i) first.Add(i < inputs.size() ? inputs[i] : Operand{});
  first.Add(partial).Int(rows).Int(columns).Int(chunk).Int(chunks).Items(chunks * columns);
  for (size_t n = 0; n < values.size(); ++n) {
    const Operand part = Work(partial.offset + static_cast<int64_t>(n) * chunks * columns * 4);
    plan.Kernel("columns", "final_sums")
        .Define("R", type)
        .Add(part)
        .Add(outputs[n])
        .Int(columns)
        .Int(chunks)
        .Float(scale)
        .Int(accumulate >> n & 1)
        .Items(columns);
  }
}

}  // namespace oc::opencl

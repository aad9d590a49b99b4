// An op on this leaf is data: a list of kernel launches and matrix products over its operands.
// The files of ops (elementwise.cc, norms.cc, ...) write such plans, and know nothing of OpenCL's
// host side; op.cc compiles and enqueues them.
//
//   Status Softmax(const OpRequest& r, OpPlan& plan) {
//     plan.Kernel("softmax", "softmax").In(0).Out(0).Int(columns).Groups(rows, kRow);
//     return OkStatus();
//   }
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "openclaw/devices/device.h"

namespace oc::opencl {

// Work-items of a group: of kernels with an element an item, and of those with a row a group, whose
// sums are trees of this width.
constexpr int64_t kFlat = 256;
constexpr int64_t kRow = 64;

// Where an argument of a kernel lies.
struct Operand {
  enum Kind { kNone, kInput, kOutput, kWorkspace, kFlags };
  Kind kind = kNone;
  int index = 0;
  int64_t offset = 0;  // bytes from the operand's begin
};
inline Operand In(int i, int64_t offset = 0) { return {Operand::kInput, i, offset}; }
inline Operand Out(int i, int64_t offset = 0) { return {Operand::kOutput, i, offset}; }
inline Operand Work(int64_t offset) { return {Operand::kWorkspace, 0, offset}; }

// A number passed by value.
struct Scalar {
  unsigned char bytes[64];
  size_t size = 0;
};
// Local memory.
struct Local {
  size_t bytes = 0;
};

class KernelStep {
 public:
  // `element`: the type E of the texts.
  KernelStep(std::string file, std::string kernel, std::string element, bool wide)
      : file_(std::move(file)),
        kernel_(std::move(kernel)),
        element_(std::move(element)),
        wide_(wide) {}

  // "#define NAME VALUE" before the text: one program for each set of them.
  KernelStep& Define(const std::string& name, const std::string& value) {
    absl::StrAppend(&defines_, "#define ", name, " ", value, "\n");
    return *this;
  }
  // Two arguments of the kernel: ARG(T, name).
  KernelStep& Add(Operand operand) {
    args_.emplace_back(operand);
    return *this;
  }
  KernelStep& In(int i) { return Add(opencl::In(i)); }
  KernelStep& Out(int i) { return Add(opencl::Out(i)); }
  // An idx, which is wide enough for every operand's elements.
  KernelStep& Int(int64_t value);
  KernelStep& Int32(int32_t value) { return AddScalar(&value, sizeof(value)); }
  KernelStep& Uint64(uint64_t value) { return AddScalar(&value, sizeof(value)); }
  KernelStep& Float(double value) {
    const auto f = static_cast<float>(value);
    return AddScalar(&f, sizeof(f));
  }
  // An idx8, filled up with `rest`. Precondition: at most eight.
  KernelStep& Ints(const std::vector<int64_t>& values, int64_t rest);
  KernelStep& LocalFloats(int64_t count) {
    args_.emplace_back(Local{static_cast<size_t>(count) * sizeof(float)});
    return *this;
  }
  // So many groups of `width` items.
  void Groups(int64_t groups, int64_t width) {
    groups_ = groups;
    width_ = width;
  }
  // An item an element.
  void Items(int64_t items) { Groups((items + kFlat - 1) / kFlat, kFlat); }

  using Arg = std::variant<Operand, Scalar, Local>;
  const std::string& file() const { return file_; }
  const std::string& kernel() const { return kernel_; }
  std::string defines() const {
    const char* idx = wide_ ? "long" : "int";
    return absl::StrCat("#define OC_IDX ", idx, "\n#define OC_IDX8 ", idx, "8\n#define E ",
                        element_, "\n", defines_);
  }
  const std::vector<Arg>& args() const { return args_; }
  int64_t groups() const { return groups_; }
  int64_t width() const { return width_; }

 private:
  KernelStep& AddScalar(const void* value, size_t size);

  std::string file_, kernel_, element_, defines_;
  bool wide_;
  std::vector<Arg> args_;
  int64_t groups_ = 0, width_ = kFlat;
};

// c[m, n] = op(a) op(b) + beta * c, row-major f32.
struct ProductStep {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  Operand a, b, c;
  int64_t lda = 0, ldb = 0, ldc = 0;
  float beta = 0;
};

// What a device allows a plan.
struct Limits {
  int64_t local_bytes = 0;
  // A processor. CLBlast's kernels, which are tuned for accelerators, took ten times as long there
  // as tiles.cl: 41 against 3.5 ms for 512 x 512 x 512 on one core with AVX-512 under PoCL 3.1.
  bool is_cpu = false;
  bool has_doubles = false;  // cl_khr_fp64
};

class OpPlan {
 public:
  OpPlan(const OpRequest& request, const Limits& limits);

  KernelStep& Kernel(const std::string& file, const std::string& kernel) {
    steps_.emplace_back(KernelStep(file, kernel, element_, wide_));
    return std::get<KernelStep>(steps_.back());
  }
  // Nothing where the product is empty; c is cleared (or kept, where beta is 1) where k is 0. By
  // CLBlast, but for products on a processor with the rows of a tile.
  void Product(const ProductStep& product);
  // Floats of the workspace.
  Operand Reserve(int64_t floats);
  // The op's float type, E of the texts: that of its narrow operands; "float" where there are none.
  const std::string& element() const { return element_; }
  // A kernel of the plan reports bad data through Flags(): "WHAT value at position p is outside
  // RANGE".
  Operand Flags(const std::string& what, const std::string& range);

  using Step = std::variant<KernelStep, ProductStep>;
  const std::vector<Step>& steps() const { return steps_; }
  int64_t workspace_bytes() const { return workspace_; }
  const std::string& check_what() const { return what_; }
  const std::string& check_range() const { return range_; }
  bool products() const { return products_; }

 private:
  void Tiles(const ProductStep& product);

  Limits limits_;
  std::string element_ = "float";
  bool wide_ = false;
  std::vector<Step> steps_;
  int64_t workspace_ = 0;
  Operand packed_;  // of Tiles
  int64_t packed_floats_ = 0;
  std::string what_, range_;
  bool products_ = false;
};

// kUnimplemented where the variant is missing.
using PlanFunction = Status (*)(const OpRequest& request, const Limits& limits, OpPlan& plan);
struct PlanEntry {
  PlanFunction plan = nullptr;
  uint32_t accumulable = 0;
};
using PlanRegistry = std::map<std::string, PlanEntry>;

void RegisterElementwise(PlanRegistry& registry);  // elementwise.cc
void RegisterMovement(PlanRegistry& registry);     // movement.cc
void RegisterReduce(PlanRegistry& registry);       // reduce.cc
void RegisterSoftmax(PlanRegistry& registry);      // softmax.cc: also cross-entropy and counts
void RegisterNorms(PlanRegistry& registry);        // norms.cc
void RegisterSequence(PlanRegistry& registry);     // sequence.cc: embedding, rope, attention
void RegisterImages(PlanRegistry& registry);       // images.cc: pools and convolutions
void RegisterProducts(PlanRegistry& registry);     // products.cc
void RegisterUpdates(PlanRegistry& registry);      // updates.cc: state, norms, dropout
void RegisterOptimizers(PlanRegistry& registry);   // optimizers.cc

// "float", "half", "bf16", "int", "long", "uchar": of the dtypes that the leaf computes with.
StatusOr<std::string> TypeName(DType dtype);
// kUnimplemented where an operand is neither f32 nor a narrow float, which kernels of E take.
Status WantFloat(const TensorType& type);
// Of floats; integers need no check.
Status WantFloats(const OpRequest& request);
// An integer of that size: for what is moved.
std::string MoveType(DType dtype);

// Of f32: "1.000000000e-05f".
std::string Literal(double value);

// to[i] = factor * from[i], of types as "E" and "float".
void AddConvert(OpPlan& plan, Operand from, const std::string& from_type, Operand to,
                const std::string& to_type, int64_t n, double factor = 1);
// Sums over the rows of [rows, columns] of one or two expressions of r, c, i = r * columns + c and
// a, b, m, s, g, h (of `inputs`, in this order; m and s floats, the others of E): outputs[n][c] =
// scale * sum, as `type`, added to where bit n of `accumulate` is set. In two stages of fixed
// order.
void AddColumnSums(OpPlan& plan, int64_t rows, int64_t columns, const std::vector<Operand>& inputs,
                   const std::vector<std::string>& values, const std::vector<Operand>& outputs,
                   const std::string& type, double scale, uint32_t accumulate);

}  // namespace oc::opencl

// An op on this leaf is data: calls of operators on views of its operands and of its workspace. The
// files of ops (elementwise.cc, norms.cc, ...) write such plans and know nothing of the runtime;
// call.cc and op.cc run them.
//
//   Status Softmax(const OpRequest&, Plan& plan) {
//     plan.Call(Operator::kSoftmax, {plan.In(0), Int{-1}, plan.Out(0)});
//     return OkStatus();
//   }
//
// Views are dense and as their tensors are, but what would have no dimensions has one of size 1.
// A call with a view of nothing is left out.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "openclaw/devices/ascend/api.h"
#include "openclaw/devices/device.h"

namespace oc::ascend {

// Where a view's memory lies.
struct Place {
  enum Kind { kInput, kOutput, kWorkspace, kConstant };
  Kind kind = kWorkspace;
  int index = 0;
  int64_t offset = 0;  // bytes from its begin, a multiple of 64
};

// Elements of a place, strides apart. Values: the functions make new views.
struct View {
  Place place;
  DType dtype = DType::kF32;
  std::vector<int64_t> dims, strides;
  int64_t offset = 0;  // elements from the place

  int rank() const { return static_cast<int>(dims.size()); }
  int64_t elements() const;
  // Precondition of the next two: the view is dense.
  View Shaped(std::vector<int64_t> new_dims) const;
  View Flat() const { return Shaped({elements()}); }
  // Axes in a new order.
  View Permuted(const std::vector<int>& axes) const;
  // The last two axes swapped.
  View Transposed() const;
  // size elements from `begin` along the axis.
  View Sliced(int axis, int64_t begin, int64_t size) const;
  // One more axis of 1 before `axis`, or one of 1 fewer.
  View Unsqueezed(int axis) const;
  // Axes of 1 repeated.
  View Expanded(const std::vector<int64_t>& new_dims) const;
};

// What a tensor takes within a larger block. The vendor asks for 32 bytes behind each (aclrtMalloc,
// on memory that is divided).
int64_t RoomFor(int64_t bytes);

// Arguments of an operator besides tensors: scalars by reference, then plain values.
struct NoTensor {
  bool operator==(const NoTensor&) const = default;
};
struct Number {
  double value = 0;
};
struct Whole {
  int64_t value = 0;
};
struct Ints {
  std::vector<int64_t> values;
};
struct Bools {
  std::vector<bool> values;
};
struct Int {
  int64_t value = 0;
};
struct Flag {
  bool value = false;
};
struct Real {
  double value = 0;
};
struct Text {
  std::string value;
};
using Arg = std::variant<View, NoTensor, Number, Whole, Ints, Bools, Int, Flag, Real, DType, Text>;

struct CallStep {
  Operator op;
  std::vector<Arg> args;  // as the operator's prototype has them
};

// Three i64 of one workspace place each: whether there is bad data, where, and the value.
struct Check {
  Place place;
  std::string what, range;  // "label", "0..9"
};
constexpr int64_t kCheckStride = 64;
constexpr int64_t kCheckBytes = 3 * kCheckStride;

class Plan {
 public:
  explicit Plan(const OpRequest& request) : request_(request) {}

  View In(int i) const;
  View Out(int i) const;
  // In f32: the operand itself, or a copy in the workspace where it is of a narrow type.
  View InF32(int i);
  // Where to write f32; Finish casts it where the output is of a narrow type, and adds it where the
  // output accumulates.
  View OutF32(int i);
  // The same in the output's own type.
  View OutAccumulated(int i);
  // A tensor of the workspace.
  View Reserve(DType dtype, std::vector<int64_t> dims);
  // A tensor that the op keeps on the device.
  View Constant(const std::vector<float>& values, std::vector<int64_t> dims);
  View Constant(const std::vector<int64_t>& values, std::vector<int64_t> dims);
  View ConstantMask(const std::vector<bool>& values, std::vector<int64_t> dims);

  void Call(Operator op, std::vector<Arg> args);
  // out = a + factor * b and the like, which are common.
  void Add(const View& a, const View& b, const View& out, double factor = 1);
  void Mul(const View& a, const View& b, const View& out);
  void Scale(const View& a, double factor, const View& out);
  // Sums over the axes, which stay with size 1.
  void Sum(const View& from, const std::vector<int64_t>& axes, const View& to);
  void Copy(const View& from, const View& to) { Call(Operator::kInplaceCopy, {to, from}); }
  void Clear(const View& to) { Call(Operator::kInplaceZero, {to}); }
  // to = op(a) op(b), also of sums of nothing. `to` is dense.
  void Product(const View& a, const View& b, const View& to);
  // Which of `bad` (bool, one axis) holds is reported with the value of `values` (i64) there.
  void Report(const View& bad, const View& values, const std::string& what,
              const std::string& range);
  // Adds what outputs wait for.
  void Finish();

  const std::vector<CallStep>& calls() const { return calls_; }
  const std::vector<Check>& checks() const { return checks_; }
  int64_t workspace_bytes() const { return workspace_; }
  const std::vector<std::byte>& constants() const { return constants_; }

 private:
  View Of(Place::Kind kind, int i, const TensorType& type) const;
  View Keep(const void* data, size_t bytes, DType dtype, std::vector<int64_t> dims);

  const OpRequest& request_;
  std::vector<CallStep> calls_;
  std::vector<std::pair<View, View>> casts_, sums_;  // at the end: from, to
  std::vector<Check> checks_;
  std::map<int, View> wide_inputs_;
  int64_t workspace_ = 0;
  std::vector<std::byte> constants_;
};

// kUnimplemented where the variant is missing.
using PlanFunction = Status (*)(const OpRequest& request, Plan& plan);
struct PlanEntry {
  PlanFunction plan = nullptr;
  uint32_t accumulable = 0;
};
using PlanRegistry = std::map<std::string, PlanEntry>;

void RegisterElementwise(PlanRegistry& registry);  // elementwise.cc
void RegisterMovement(PlanRegistry& registry);     // movement.cc
void RegisterReduce(PlanRegistry& registry);       // reduce.cc
void RegisterProducts(PlanRegistry& registry);     // products.cc
void RegisterSoftmax(PlanRegistry& registry);      // softmax.cc: also cross-entropy and counts
void RegisterNorms(PlanRegistry& registry);        // norms.cc
void RegisterBatchNorm(PlanRegistry& registry);    // batch_norm.cc
void RegisterImages(PlanRegistry& registry);       // images.cc: pools and convolutions
void RegisterEmbedding(PlanRegistry& registry);    // embedding.cc
void RegisterAttention(PlanRegistry& registry);    // attention.cc
void RegisterRope(PlanRegistry& registry);         // rope.cc
void RegisterUpdates(PlanRegistry& registry);      // updates.cc: state, optimizers
void RegisterDropout(PlanRegistry& registry);      // dropout.cc

// Rows of the last axis: the dimensions before it as one.
View AsRows(const View& view);

}  // namespace oc::ascend

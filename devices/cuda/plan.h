// An op on this leaf is a list of steps over its operands, most of them kernel launches. The files
// of ops (elementwise.cc, reduce.cc, ...) write such plans from a request; making one touches no
// device, so that it also answers Support. A step that wants more than a launch (a library's
// product, with an algorithm to choose) is a class of its own.
//
//   Status Softmax(const OpRequest& r, const Traits&, OpPlan& plan) {
//     const RowSplit rows(r.inputs[0].shape);
//     plan.Launch([=, type = TypeOf(r.inputs[0].dtype)](const Call& c) {
//       return kernels::Softmax(type, c.In(0), c.Out(0), rows.count, rows.columns, c.stream);
//     });
//     return OkStatus();
//   }
//
// Kernels (kernels/*.cu) are reached through plain functions that launch on a stream and return
// cudaGetLastError(). They take every size, also 0, and pointers of any alignment that is the
// element's; they neither allocate nor synchronise, so that a plan can be captured.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "openclaw/devices/cuda/api.h"
#include "openclaw/devices/cuda/kernels/types.h"
#include "openclaw/devices/device.h"

namespace oc::cuda {

class CudaSlice;

// What a slice is, as far as plans depend on it.
struct Traits {
  int ordinal = 0;           // of the device
  int units = 0;             // multiprocessors of the slice
  int capability = 0;        // 90: compute capability 9.0
  int64_t shared_bytes = 0;  // that a block may have, when asked for
  int64_t l2_bytes = 0;
  bool tf32 = false;  // products of f32 may round their factors to 10 bits
};

// One run: where the operands lie, and the stream.
struct Call {
  std::span<char*const> inputs, outputs;
  char* workspace = nullptr;  // 256-byte aligned
  cudaStream_t stream = nullptr;
  kernels::Flags flags;  // of the queue; its code is that of the op's check

  template <typename T = void>
  const T* In(int i) const {
    return reinterpret_cast<const T*>(inputs[static_cast<size_t>(i)]);
  }
  template <typename T = void>
  T* Out(int i) const {
    return reinterpret_cast<T*>(outputs[static_cast<size_t>(i)]);
  }
  // At OpPlan::Reserve's offset.
  template <typename T = void>
  T* Work(int64_t offset) const {
    return reinterpret_cast<T*>(workspace + offset);
  }
};

// Thread-safe once prepared: several queues may run it at once.
class Step {
 public:
  virtual ~Step() = default;
  // What may load, measure or fail, in the slice's device. Returns bytes of scratch, which the
  // steps of an op share.
  virtual StatusOr<int64_t> Prepare(const CudaSlice& slice, const std::string& where) {
    return int64_t{0};
  }
  // Once prepared: which code it turned out to run (a constant), where that is not the plan's, and
  // whether that repeats its results bit by bit.
  virtual const char* implementation() const { return nullptr; }
  virtual bool deterministic() const { return true; }
  // `scratch`: 256-byte aligned, of as many bytes as Prepare said.
  virtual Status Run(const Call& call, char* scratch, const std::string& where) const = 0;
};

class OpPlan {
 public:
  explicit OpPlan(const OpRequest& request) : request_(request) {}

  using Function = std::function<cudaError_t(const Call&)>;
  // Enqueues work on the call's stream.
  void Launch(Function function);
  void Add(std::unique_ptr<Step> step) { steps_.push_back(std::move(step)); }
  // Bytes of the workspace: where they begin, a multiple of 256.
  int64_t Reserve(int64_t bytes);
  // Kernels of the plan report bad data through Call::flags: "WHAT value at position p is outside
  // RANGE". One check an op.
  void Check(const std::string& what, const std::string& range);
  // A kernel of the plan does not repeat its results bit by bit. kUnimplemented where that is
  // wanted.
  Status NotDeterministic();
  void SetImplementation(const char* name) { implementation_ = name; }  // a constant

  std::vector<std::unique_ptr<Step>> TakeSteps() { return std::move(steps_); }
  int64_t workspace_bytes() const { return workspace_; }
  const std::string& check_what() const { return what_; }
  const std::string& check_range() const { return range_; }
  bool deterministic() const { return deterministic_; }
  const char* implementation() const { return implementation_; }

 private:
  const OpRequest& request_;
  std::vector<std::unique_ptr<Step>> steps_;
  int64_t workspace_ = 0;
  std::string what_, range_;
  bool deterministic_ = true;
  const char* implementation_ = "cuda";
};

// kUnimplemented where the variant is missing.
using PlanFunction = Status (*)(const OpRequest& request, const Traits& traits, OpPlan& plan);
struct PlanEntry {
  PlanFunction plan = nullptr;
  uint32_t accumulable = 0;
  bool sum_type = false;  // takes the attribute dtype of parameters' gradients (WantsSumType)
};
using PlanRegistry = std::map<std::string, PlanEntry>;

void RegisterElementwise(PlanRegistry& registry);   // elementwise.cc
void RegisterMovement(PlanRegistry& registry);      // movement.cc
void RegisterReduce(PlanRegistry& registry);        // reduce.cc
void RegisterProducts(PlanRegistry& registry);      // products.cc
void RegisterConvolutions(PlanRegistry& registry);  // convolutions.cc
void RegisterBatchNorm(PlanRegistry& registry);     // batch_norm.cc
void RegisterRowNorms(PlanRegistry& registry);      // row_norms.cc: layer norm, RMS norm
void RegisterSoftmax(PlanRegistry& registry);       // softmax.cc: also cross-entropy and counts
void RegisterSequence(PlanRegistry& registry);      // sequence.cc: embedding, rope, dropout
void RegisterAttention(PlanRegistry& registry);     // attention.cc
void RegisterPools(PlanRegistry& registry);         // pools.cc
void RegisterUpdates(PlanRegistry& registry);       // updates.cc: optimizers, state, norms
// All of the above.
const PlanRegistry& Plans();

// The kernels' name of the type. Precondition: Has(dtype).
kernels::Type TypeOf(DType dtype);
// kUnimplemented where an operand is neither f32, bf16 nor f16.
Status WantFloat(const TensorType& type);
// Of all operands that are floats.
Status WantFloats(const OpRequest& request);

// A tensor as rows of its last axis.
struct RowSplit {
  explicit RowSplit(const Shape& shape);
  int64_t columns, count;
};

}  // namespace oc::cuda

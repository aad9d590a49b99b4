// cuDNN's graphs: operations over tensors that cuDNN compiles to one plan (its backend API, version
// 9). The library is loaded when it is first wanted; its types and numbers are declared here in our
// own words, as NVIDIA's documentation gives them, so that nothing of it is needed to build.
//
//   OC_ASSIGN_OR_RETURN(auto dnn, Dnn::Create(ordinal, where));
//   DnnGraph graph(dnn);
//   const DnnTensor x = graph.Memory(dims, strides, DnnType::kBF16), y = ...;
//   graph.Pointwise(DnnMode::kMul, x, graph.Scalar(0.5f), y);
//   OC_ASSIGN_OR_RETURN(auto plan, graph.Build({.deterministic = true}));
//   plan->Run(stream, {{x, x_pointer}, {y, y_pointer}}, workspace);
//
// Threads: Dnn and plans from any, one graph from one.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "openclaw/core/status.h"
#include "openclaw/devices/cuda/kernels/types.h"

namespace oc::cuda {

// cudnnDataType_t.
enum class DnnType : int32_t { kF32 = 0, kF16 = 2, kI32 = 4, kBF16 = 9, kBool = 11 };
// Precondition: f32, bf16 or f16.
DnnType DnnTypeOf(kernels::Type type);

// cudnnPointwiseMode_t.
enum class DnnMode : int32_t {
  kAdd = 0,
  kMul = 1,
  kDiv = 6,
  kSub = 9,
  kExp = 13,
  kLog = 15,
  kIdentity = 21,
  kGreaterEqual = 303,
  kIndex = 501,
  kSelect = 601
};
// cudnnReduceTensorOp_t.
enum class DnnReduction : int32_t { kSum = 0, kMax = 3 };

// Batch, heads, rows, columns.
using DnnShape = std::array<int64_t, 4>;

struct DnnFunctions;
class DnnPlan;

// A cuDNN handle of a device, and the plans that were made with it.
class Dnn {
 public:
  // kFailedPrecondition where cuDNN 9 is not to be had: the message says what to install.
  static StatusOr<std::shared_ptr<Dnn>> Create(int ordinal, const std::string& where);
  ~Dnn();
  Dnn(const Dnn&) = delete;
  // 91900 for 9.19.0.
  int64_t version() const { return version_; }
  // The plan of that name, made where there is none yet: making one takes from a millisecond to
  // seconds. That none can be made is remembered too.
  using Made = StatusOr<std::shared_ptr<const DnnPlan>>;
  Made Plan(const std::string& name, const std::function<Made()>& make);

 private:
  friend class DnnObject;
  friend class DnnGraph;
  friend class DnnPlan;
  Dnn() = default;
  Status ToStatus(int code, const char* call) const;

  std::unique_ptr<const DnnFunctions> functions_;
  void* handle_ = nullptr;
  int64_t version_ = 0;
  std::string where_;
  std::mutex mutex_;  // of the handle, whose stream is set for each call
  std::mutex plans_mutex_;
  // Plans hold the handle: who drops the last op of a kind drops its plan.
  std::map<std::string, std::weak_ptr<const DnnPlan>> plans_;
  std::map<std::string, Status> failures_;
};

// An object of cuDNN's.
class DnnObject {
 public:
  DnnObject() = default;
  DnnObject(std::shared_ptr<const Dnn> dnn, void* object) : dnn_(std::move(dnn)), object_(object) {}
  ~DnnObject();
  DnnObject(DnnObject&& other) noexcept
      : dnn_(std::move(other.dnn_)), object_(std::exchange(other.object_, nullptr)) {}
  DnnObject& operator=(DnnObject&& other) noexcept;
  void* get() const { return object_; }

 private:
  std::shared_ptr<const Dnn> dnn_;
  void* object_ = nullptr;
};

// A tensor of a graph, by number.
using DnnTensor = int64_t;

class DnnPlan {
 public:
  using Pointers = std::span<const std::pair<DnnTensor, const void*>>;

  int64_t workspace_bytes() const { return workspace_bytes_; }
  // Enqueues; pointers of all tensors of memory, aligned to 16 bytes.
  Status Run(cudaStream_t stream, Pointers pointers, void* workspace) const;

 private:
  friend class DnnGraph;
  std::shared_ptr<Dnn> dnn_;
  // What the plan was made of: the graph, which plans of one graph share, and its own.
  std::shared_ptr<const std::vector<DnnObject>> graph_;
  DnnObject configuration_;
  DnnObject plan_;
  std::vector<std::pair<DnnTensor, float>> scalars_;
  int64_t workspace_bytes_ = 0;
};

// Operations in any order; the first error stays and comes from Build.
class DnnGraph {
 public:
  explicit DnnGraph(std::shared_ptr<Dnn> dnn) : dnn_(std::move(dnn)) {}

  // In memory, whose pointer comes with each run.
  DnnTensor Memory(const DnnShape& dims, const DnnShape& strides, DnnType type);
  // Between operations, never in memory.
  DnnTensor Virtual(const DnnShape& dims, const DnnShape& strides, DnnType type);
  DnnTensor Scalar(float value);

  void Product(DnnTensor a, DnnTensor b, DnnTensor c);
  void Unary(DnnMode mode, DnnTensor x, DnnTensor y);
  void Binary(DnnMode mode, DnnTensor x, DnnTensor b, DnnTensor y,
              DnnType computed = DnnType::kF32);
  // y = condition ? x : otherwise.
  void Select(DnnTensor x, DnnTensor otherwise, DnnTensor condition, DnnTensor y);
  // y = each element's index along the axis.
  void Index(DnnTensor x, int axis, DnnTensor y);
  void Reduce(DnnReduction reduction, DnnTensor x, DnnTensor y);
  // Of images, channels, rows, columns; the weights' are output channels, input channels of a
  // group, rows, columns. kForward: from x, w to y; kInput: from dy (y), w to dx (x); kWeight: from
  // dy, x to dw (w).
  enum class Convolution { kForward, kInput, kWeight };
  struct Window {
    std::array<int64_t, 2> stride, before, after, dilation;
  };
  void Convolve(Convolution kind, const Window& window, DnnTensor x, DnnTensor w, DnnTensor y);
  // The same elements with the dimensions and strides of y.
  void Reshape(DnnTensor x, DnnTensor y);

  struct Options {
    bool deterministic = false;  // only plans that repeat their results bit by bit
    // Of f32: no plans that round the factors of products to fewer bits.
    bool exact = false;
    // Seconds of a plan, below 0 where it does not run: of the first `candidates` plans the fastest
    // is taken (one of 0 seconds at once), and its number kept in `pick`. Null: the plan of the
    // number `pick` is taken.
    std::function<StatusOr<double>(const DnnPlan&)> measure;
    int candidates = 1;
    int pick = 0;
  };
  // Plans are numbered as cuDNN's heuristic lists them, those left out that cannot be made or are
  // not wanted; kUnimplemented where there is none.
  StatusOr<std::shared_ptr<const DnnPlan>> Build(Options& options);
  StatusOr<std::shared_ptr<const DnnPlan>> Build(Options&& options) { return Build(options); }

 private:
  DnnTensor Add(const DnnShape& dims, const DnnShape& strides, DnnType type, bool is_virtual,
                bool by_value);
  DnnObject Make(int32_t kind);
  void Set(const DnnObject& object, int32_t name, int32_t type, int64_t count, const void* value);
  void SetTensor(const DnnObject& object, int32_t name, DnnTensor tensor);
  void SetObject(const DnnObject& object, int32_t name, const DnnObject& value);
  void Finish(const DnnObject& object);
  void AddPointwise(DnnMode mode, DnnType computed, int axis, DnnTensor x, DnnTensor b, DnnTensor t,
                    DnnTensor y);
  void Keep(int code, const char* call);
  StatusOr<std::vector<DnnObject>> Configurations(const DnnObject& graph, int32_t mode);
  bool Allowed(const DnnObject& configuration, const Options& options);
  // Null where none can be made of the configuration; what cuDNN said is in status_.
  std::shared_ptr<DnnPlan> MakePlan(DnnObject configuration);

  std::shared_ptr<Dnn> dnn_;
  Status status_;
  std::vector<DnnObject> tensors_, descriptions_, operations_;
  std::vector<std::pair<DnnTensor, float>> scalars_;
};

}  // namespace oc::cuda

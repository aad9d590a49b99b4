#include "openclaw/devices/cuda/cudnn_graph.h"

#include <algorithm>

#include "openclaw/devices/cuda/api.h"
#include "openclaw/devices/cuda/library.h"

namespace oc::cuda {

// cudnn.h and cudnn_backend.h, version 9.
struct DnnFunctions {
  size_t (*version)() = nullptr;
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*set_stream)(void* handle, cudaStream_t stream) = nullptr;
  const char* (*error_string)(int code) = nullptr;
  void (*last_error)(char* message, size_t bytes) = nullptr;
  int (*create_object)(int32_t kind, void** object) = nullptr;
  int (*destroy_object)(void* object) = nullptr;
  int (*finalize)(void* object) = nullptr;
  int (*set)(void* object, int32_t name, int32_t type, int64_t count, const void* value) = nullptr;
  int (*get)(void* object, int32_t name, int32_t type, int64_t wanted, int64_t* count,
             void* value) = nullptr;
  int (*execute)(void* handle, void* plan, void* pack) = nullptr;
};

namespace {

// cudnnBackendDescriptorType_t.
enum : int32_t {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kConfiguration = 3,
  kHeuristic = 4,
  kExecutionPlan = 5,
  kForwardOperation = 10,
  kWeightOperation = 11,
  kInputOperation = 12,
  kPointwiseOperation = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensorObject = 17,
  kProduct = 18,
  kProductOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kReshapeOperation = 31
};

// cudnnBackendAttributeType_t.
enum : int32_t {
  kOfHandle = 0,
  kOfDataType = 1,
  kOfBool = 2,
  kOfInt64 = 3,
  kOfFloat = 4,
  kOfPointer = 6,
  kOfConvolutionMode = 7,
  kOfHeuristicMode = 8,
  kOfNumericalNote = 11,
  kOfPointwiseMode = 14,
  kOfObject = 15,
  kOfReduction = 18
};

// cudnnBackendAttributeName_t.
enum : int32_t {
  kPointwiseMode = 0,
  kPointwiseType = 1,
  kPointwiseAxis = 9,
  kConvolutionType = 100,
  kConvolutionMode = 101,
  kConvolutionDilation = 102,
  kConvolutionStride = 103,
  kConvolutionAfter = 104,
  kConvolutionBefore = 105,
  kConvolutionDims = 106,
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kConfigurationEngine = 300,
  kPlanHandle = 400,
  kPlanConfiguration = 401,
  kPlanWorkspace = 402,
  kOperationPointwise = 750,
  kOperationX = 751,
  kOperationB = 752,
  kOperationY = 753,
  kOperationT = 758,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDims = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorVirtual = 907,
  kTensorByValue = 908,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineNotes = 1303,
  kProductType = 1500,
  kOperationProductA = 1520,
  kOperationProductB = 1521,
  kOperationProductC = 1522,
  kOperationProduct = 1523,
  kReductionKind = 1600,
  kReductionType = 1601,
  kOperationReductionX = 1610,
  kOperationReductionY = 1611,
  kOperationReduction = 1612,
  kOperationReshapeX = 2200,
  kOperationReshapeY = 2201
};

// cudnnBackendHeurMode_t, cudnnBackendNumericalNote_t.
constexpr int32_t kModeFallback = 2, kModeA = 3;
constexpr int32_t kNoteTensorCore = 0, kNoteDownConvert = 1, kNoteReducedSum = 2,
                  kNoteNondeterministic = 4;

constexpr int64_t kLeastVersion = 90000;
constexpr DnnTensor kNoTensor = -1;
constexpr int64_t kAlignment = 16;

}  // namespace

DnnType DnnTypeOf(kernels::Type type) {
  switch (type) {
    case kernels::Type::kBF16:
      return DnnType::kBF16;
    case kernels::Type::kF16:
      return DnnType::kF16;
    default:
      return DnnType::kF32;
  }
}

StatusOr<std::shared_ptr<Dnn>> Dnn::Create(int ordinal, const std::string& where) {
  OC_ASSIGN_OR_RETURN(const Library library,
                      Library::Open("libcudnn.so.9", "cuDNN", "install cuDNN 9"));
  auto f = std::make_unique<DnnFunctions>();
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    function = library.Get<std::remove_reference_t<decltype(function)>>(name);
    if (function == nullptr && missing == nullptr) missing = name;
  };
  find(f->version, "cudnnGetVersion");
  find(f->create, "cudnnCreate");
  find(f->destroy, "cudnnDestroy");
  find(f->set_stream, "cudnnSetStream");
  find(f->error_string, "cudnnGetErrorString");
  find(f->last_error, "cudnnGetLastErrorString");
  find(f->create_object, "cudnnBackendCreateDescriptor");
  find(f->destroy_object, "cudnnBackendDestroyDescriptor");
  find(f->finalize, "cudnnBackendFinalize");
  find(f->set, "cudnnBackendSetAttribute");
  find(f->get, "cudnnBackendGetAttribute");
  find(f->execute, "cudnnBackendExecute");
  if (missing != nullptr) {
    return FailedPrecondition("cuDNN of ", library.path(), " has no ", missing,
                              ": cuDNN 9 is wanted (", where, ")");
  }
  std::shared_ptr<Dnn> dnn(new Dnn());
  dnn->functions_ = std::move(f);
  dnn->where_ = where;
  dnn->version_ = static_cast<int64_t>(dnn->functions_->version());
  if (dnn->version_ < kLeastVersion) {
    return FailedPrecondition("cuDNN of ", library.path(), " is version ", dnn->version_,
                              ": cuDNN 9 is wanted (", where, ")");
  }
  OC_RETURN_IF_ERROR(UseDevice(ordinal, where));
  OC_RETURN_IF_ERROR(dnn->ToStatus(dnn->functions_->create(&dnn->handle_), "cudnnCreate"));
  return dnn;
}

Dnn::~Dnn() {
  if (handle_ != nullptr) functions_->destroy(handle_);
}

Dnn::Made Dnn::Plan(const std::string& name, const std::function<Made()>& make) {
  std::lock_guard<std::mutex> lock(plans_mutex_);
  if (auto plan = plans_[name].lock(); plan != nullptr) return plan;
  if (const auto it = failures_.find(name); it != failures_.end()) return it->second;
  Made made = make();
  if (made.ok()) {
    plans_[name] = *made;
  } else {
    failures_[name] = made.status();
  }
  return made;
}

Status Dnn::ToStatus(int code, const char* call) const {
  if (code == 0) return OkStatus();
  char more[512] = "";
  functions_->last_error(more, sizeof(more));
  const std::string message =
      absl::StrCat(call, ": ", functions_->error_string(code), more[0] != 0 ? ": " : "", more,
                   " (cuDNN ", version_, ", ", where_, ")");
  // Codes go by thousands: 2000 a wrong call, 3000 not supported, 4000 internal, 5000 execution.
  if (code / 1000 == 3) return Unimplemented(message);
  return Internal(message);
}

DnnObject::~DnnObject() {
  if (object_ != nullptr) dnn_->functions_->destroy_object(object_);
}

DnnObject& DnnObject::operator=(DnnObject&& other) noexcept {
  std::swap(dnn_, other.dnn_);
  std::swap(object_, other.object_);
  return *this;
}

void DnnGraph::Keep(int code, const char* call) {
  if (code != 0 && status_.ok()) status_ = dnn_->ToStatus(code, call);
}

DnnObject DnnGraph::Make(int32_t kind) {
  void* object = nullptr;
  Keep(dnn_->functions_->create_object(kind, &object), "cudnnBackendCreateDescriptor");
  return {dnn_, object};
}

void DnnGraph::Set(const DnnObject& object, int32_t name, int32_t type, int64_t count,
                   const void* value) {
  if (!status_.ok()) return;
  Keep(dnn_->functions_->set(object.get(), name, type, count, value), "cudnnBackendSetAttribute");
}

void DnnGraph::SetObject(const DnnObject& object, int32_t name, const DnnObject& value) {
  void* raw = value.get();
  Set(object, name, kOfObject, 1, &raw);
}

void DnnGraph::SetTensor(const DnnObject& object, int32_t name, DnnTensor tensor) {
  if (tensor != kNoTensor) SetObject(object, name, tensors_[static_cast<size_t>(tensor)]);
}

void DnnGraph::Finish(const DnnObject& object) {
  if (status_.ok()) Keep(dnn_->functions_->finalize(object.get()), "cudnnBackendFinalize");
}

DnnTensor DnnGraph::Add(const DnnShape& dims, const DnnShape& strides, DnnType type,
                        bool is_virtual, bool by_value) {
  const auto id = static_cast<DnnTensor>(tensors_.size());
  DnnObject object = Make(kTensorObject);
  Set(object, kTensorType, kOfDataType, 1, &type);
  Set(object, kTensorDims, kOfInt64, 4, dims.data());
  Set(object, kTensorStrides, kOfInt64, 4, strides.data());
  Set(object, kTensorId, kOfInt64, 1, &id);
  Set(object, kTensorAlignment, kOfInt64, 1, &kAlignment);
  if (is_virtual) Set(object, kTensorVirtual, kOfBool, 1, &is_virtual);
  if (by_value) Set(object, kTensorByValue, kOfBool, 1, &by_value);
  Finish(object);
  tensors_.push_back(std::move(object));
  return id;
}

DnnTensor DnnGraph::Memory(const DnnShape& dims, const DnnShape& strides, DnnType type) {
  return Add(dims, strides, type, false, false);
}

DnnTensor DnnGraph::Virtual(const DnnShape& dims, const DnnShape& strides, DnnType type) {
  return Add(dims, strides, type, true, false);
}

DnnTensor DnnGraph::Scalar(float value) {
  const DnnTensor id = Add({1, 1, 1, 1}, {1, 1, 1, 1}, DnnType::kF32, false, true);
  scalars_.emplace_back(id, value);
  return id;
}

void DnnGraph::Product(DnnTensor a, DnnTensor b, DnnTensor c) {
  DnnObject product = Make(kProduct), operation = Make(kProductOperation);
  const DnnType computed = DnnType::kF32;
  Set(product, kProductType, kOfDataType, 1, &computed);
  Finish(product);
  SetTensor(operation, kOperationProductA, a);
  SetTensor(operation, kOperationProductB, b);
  SetTensor(operation, kOperationProductC, c);
  SetObject(operation, kOperationProduct, product);
  Finish(operation);
  descriptions_.push_back(std::move(product));
  operations_.push_back(std::move(operation));
}

void DnnGraph::AddPointwise(DnnMode mode, DnnType computed, int axis, DnnTensor x, DnnTensor b,
                            DnnTensor t, DnnTensor y) {
  DnnObject pointwise = Make(kPointwise), operation = Make(kPointwiseOperation);
  Set(pointwise, kPointwiseMode, kOfPointwiseMode, 1, &mode);
  Set(pointwise, kPointwiseType, kOfDataType, 1, &computed);
  if (axis >= 0) {
    const int64_t wide = axis;
    Set(pointwise, kPointwiseAxis, kOfInt64, 1, &wide);
  }
  Finish(pointwise);
  SetObject(operation, kOperationPointwise, pointwise);
  SetTensor(operation, kOperationX, x);
  SetTensor(operation, kOperationB, b);
  SetTensor(operation, kOperationT, t);
  SetTensor(operation, kOperationY, y);
  Finish(operation);
  descriptions_.push_back(std::move(pointwise));
  operations_.push_back(std::move(operation));
}

void DnnGraph::Unary(DnnMode mode, DnnTensor x, DnnTensor y) {
  AddPointwise(mode, DnnType::kF32, -1, x, kNoTensor, kNoTensor, y);
}
void DnnGraph::Binary(DnnMode mode, DnnTensor x, DnnTensor b, DnnTensor y, DnnType computed) {
  AddPointwise(mode, computed, -1, x, b, kNoTensor, y);
}
void DnnGraph::Select(DnnTensor x, DnnTensor otherwise, DnnTensor condition, DnnTensor y) {
  AddPointwise(DnnMode::kSelect, DnnType::kF32, -1, x, otherwise, condition, y);
}
void DnnGraph::Index(DnnTensor x, int axis, DnnTensor y) {
  AddPointwise(DnnMode::kIndex, DnnType::kF32, axis, x, kNoTensor, kNoTensor, y);
}

void DnnGraph::Reduce(DnnReduction kind, DnnTensor x, DnnTensor y) {
  DnnObject reduction = Make(kReduction), operation = Make(kReductionOperation);
  const DnnType computed = DnnType::kF32;
  Set(reduction, kReductionType, kOfDataType, 1, &computed);
  Set(reduction, kReductionKind, kOfReduction, 1, &kind);
  Finish(reduction);
  SetTensor(operation, kOperationReductionX, x);
  SetTensor(operation, kOperationReductionY, y);
  SetObject(operation, kOperationReduction, reduction);
  Finish(operation);
  descriptions_.push_back(std::move(reduction));
  operations_.push_back(std::move(operation));
}

void DnnGraph::Convolve(Convolution kind, const Window& window, DnnTensor x, DnnTensor w,
                        DnnTensor y) {
  DnnObject convolution = Make(kConvolution);
  const DnnType computed = DnnType::kF32;
  const int32_t cross_correlation = 1;
  const int64_t dims = 2;
  Set(convolution, kConvolutionType, kOfDataType, 1, &computed);
  Set(convolution, kConvolutionMode, kOfConvolutionMode, 1, &cross_correlation);
  Set(convolution, kConvolutionDims, kOfInt64, 1, &dims);
  Set(convolution, kConvolutionStride, kOfInt64, 2, window.stride.data());
  Set(convolution, kConvolutionBefore, kOfInt64, 2, window.before.data());
  Set(convolution, kConvolutionAfter, kOfInt64, 2, window.after.data());
  Set(convolution, kConvolutionDilation, kOfInt64, 2, window.dilation.data());
  Finish(convolution);
  // Attributes of the three operations, in one order: alpha, beta, convolution, w, x, y.
  struct Names {
    int32_t operation, alpha, beta, convolution, w, x, y;
  };
  constexpr Names kNames[] = {{kForwardOperation, 700, 701, 702, 703, 704, 705},
                              {kInputOperation, 706, 707, 708, 709, 710, 711},
                              {kWeightOperation, 712, 713, 714, 715, 716, 717}};
  const Names& names = kNames[static_cast<size_t>(kind)];
  DnnObject operation = Make(names.operation);
  const float alpha = 1, beta = 0;
  Set(operation, names.alpha, kOfFloat, 1, &alpha);
  Set(operation, names.beta, kOfFloat, 1, &beta);
  SetObject(operation, names.convolution, convolution);
  SetTensor(operation, names.w, w);
  SetTensor(operation, names.x, x);
  SetTensor(operation, names.y, y);
  Finish(operation);
  descriptions_.push_back(std::move(convolution));
  operations_.push_back(std::move(operation));
}

void DnnGraph::Reshape(DnnTensor x, DnnTensor y) {
  DnnObject operation = Make(kReshapeOperation);
  SetTensor(operation, kOperationReshapeX, x);
  SetTensor(operation, kOperationReshapeY, y);
  Finish(operation);
  operations_.push_back(std::move(operation));
}

StatusOr<std::vector<DnnObject>> DnnGraph::Configurations(const DnnObject& graph, int32_t mode) {
  const DnnFunctions& f = *dnn_->functions_;
  DnnObject heuristic = Make(kHeuristic);
  SetObject(heuristic, kHeuristicGraph, graph);
  Set(heuristic, kHeuristicMode, kOfHeuristicMode, 1, &mode);
  Finish(heuristic);
  OC_RETURN_IF_ERROR(status_);
  int64_t count = 0;
  Keep(f.get(heuristic.get(), kHeuristicResults, kOfObject, 0, &count, nullptr),
       "cudnnBackendGetAttribute");
  std::vector<DnnObject> configurations;
  std::vector<void*> raw;
  for (int64_t i = 0; status_.ok() && i < count; ++i) {
    configurations.push_back(Make(kConfiguration));
    raw.push_back(configurations.back().get());
  }
  OC_RETURN_IF_ERROR(status_);
  Keep(f.get(heuristic.get(), kHeuristicResults, kOfObject, count, &count, raw.data()),
       "cudnnBackendGetAttribute");
  OC_RETURN_IF_ERROR(status_);
  configurations.resize(static_cast<size_t>(count));
  return configurations;
}

bool DnnGraph::Allowed(const DnnObject& configuration, const Options& options) {
  if (!options.deterministic && !options.exact) return true;
  const DnnFunctions& f = *dnn_->functions_;
  const DnnObject engine = Make(kEngine);
  void* raw = engine.get();
  int64_t count = 0;
  int32_t notes[32] = {};
  if (!status_.ok() ||
      f.get(configuration.get(), kConfigurationEngine, kOfObject, 1, &count, &raw) != 0 ||
      f.get(raw, kEngineNotes, kOfNumericalNote, std::size(notes), &count, notes) != 0) {
    return false;
  }
  const auto has = [&](int32_t note) {
    return std::find(notes, notes + count, note) != notes + count;
  };
  if (options.deterministic && has(kNoteNondeterministic)) return false;
  return !options.exact || !(has(kNoteTensorCore) || has(kNoteDownConvert) || has(kNoteReducedSum));
}

std::shared_ptr<DnnPlan> DnnGraph::MakePlan(DnnObject configuration) {
  const DnnFunctions& f = *dnn_->functions_;
  DnnObject made = Make(kExecutionPlan);
  Set(made, kPlanHandle, kOfHandle, 1, &dnn_->handle_);
  SetObject(made, kPlanConfiguration, configuration);
  Finish(made);
  auto plan = std::make_shared<DnnPlan>();
  if (status_.ok()) {
    Keep(f.get(made.get(), kPlanWorkspace, kOfInt64, 1, nullptr, &plan->workspace_bytes_),
         "cudnnBackendGetAttribute");
  }
  if (!status_.ok()) return nullptr;
  plan->dnn_ = dnn_;
  plan->plan_ = std::move(made);
  plan->scalars_ = scalars_;
  plan->configuration_ = std::move(configuration);
  return plan;
}

StatusOr<std::shared_ptr<const DnnPlan>> DnnGraph::Build(Options& options) {
  DnnObject graph = Make(kOperationGraph);
  std::vector<void*> operations;
  for (const DnnObject& operation : operations_) operations.push_back(operation.get());
  Set(graph, kGraphOperations, kOfObject, static_cast<int64_t>(operations.size()),
      operations.data());
  Set(graph, kGraphHandle, kOfHandle, 1, &dnn_->handle_);
  Finish(graph);
  OC_RETURN_IF_ERROR(status_);
  Status last = Unimplemented("cuDNN ", dnn_->version(), " has no plan (", dnn_->where_, ")");
  std::shared_ptr<DnnPlan> best;
  double best_seconds = 0;
  const int most = options.measure == nullptr ? options.pick + 1 : options.candidates;
  int tried = 0;
  for (const int32_t mode : {kModeA, kModeFallback}) {
    if (best != nullptr) break;
    auto configurations = Configurations(graph, mode);
    if (!configurations.ok()) {
      last = configurations.status();
      status_ = OkStatus();
      continue;
    }
    for (DnnObject& configuration : *configurations) {
      if (tried >= most) break;
      if (!Allowed(configuration, options)) continue;
      auto plan = MakePlan(std::move(configuration));
      if (plan == nullptr) {
        last = std::exchange(status_, OkStatus());
        continue;
      }
      const int number = tried++;
      if (options.measure == nullptr) {
        best = std::move(plan);  // the last of them is the one
        continue;
      }
      OC_ASSIGN_OR_RETURN(const double seconds, options.measure(*plan));
      if (seconds < 0 || (best != nullptr && seconds >= best_seconds)) continue;
      best = std::move(plan);
      best_seconds = seconds;
      options.pick = number;
      if (seconds == 0) break;
    }
  }
  if (best == nullptr) return last;
  auto kept = std::make_shared<std::vector<DnnObject>>();
  kept->push_back(std::move(graph));
  for (auto* list : {&operations_, &descriptions_, &tensors_}) {
    for (DnnObject& object : *list) kept->push_back(std::move(object));
    list->clear();
  }
  best->graph_ = std::move(kept);
  return std::shared_ptr<const DnnPlan>(std::move(best));
}

Status DnnPlan::Run(cudaStream_t stream, Pointers pointers, void* workspace) const {
  const DnnFunctions& f = *dnn_->functions_;
  std::vector<int64_t> ids;
  std::vector<const void*> values;
  for (const auto& [id, pointer] : pointers) {
    ids.push_back(id);
    values.push_back(pointer);
  }
  for (const auto& [id, value] : scalars_) {
    ids.push_back(id);
    values.push_back(&value);
  }
  void* raw = nullptr;
  OC_RETURN_IF_ERROR(
      dnn_->ToStatus(f.create_object(kVariantPack, &raw), "cudnnBackendCreateDescriptor"));
  const DnnObject pack(dnn_, raw);
  const auto count = static_cast<int64_t>(ids.size());
  const auto set = [&](int32_t name, int32_t type, int64_t n, const void* value) {
    return dnn_->ToStatus(f.set(raw, name, type, n, value), "cudnnBackendSetAttribute");
  };
  OC_RETURN_IF_ERROR(set(kPackPointers, kOfPointer, count, values.data()));
  OC_RETURN_IF_ERROR(set(kPackIds, kOfInt64, count, ids.data()));
  OC_RETURN_IF_ERROR(set(kPackWorkspace, kOfPointer, 1, &workspace));
  OC_RETURN_IF_ERROR(dnn_->ToStatus(f.finalize(raw), "cudnnBackendFinalize"));
  std::lock_guard<std::mutex> lock(dnn_->mutex_);
  OC_RETURN_IF_ERROR(dnn_->ToStatus(f.set_stream(dnn_->handle_, stream), "cudnnSetStream"));
  // cuDNN has a CUDA runtime of its own, where the error of an earlier launch that a device refused
  // (a plan that was tried and does not fit a part of it) waits for the next who looks: the call
  // that finds it has done its work, and may be made again.
  if (f.execute(dnn_->handle_, plan_.get(), raw) == 0) return OkStatus();
  return dnn_->ToStatus(f.execute(dnn_->handle_, plan_.get(), raw), "cudnnBackendExecute");
}

}  // namespace oc::cuda

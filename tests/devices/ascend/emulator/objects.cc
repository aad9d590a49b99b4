#include "objects.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

#include "memory.h"
#include "streams.h"

namespace ascend_emulator {
namespace {

// base, aclCreateTensor and aclSetTensorAddr: else "an undefined error may occur".
constexpr uintptr_t kAlignment = 32;
constexpr size_t kMostDims = 8;

struct Objects {
  std::mutex mutex;
  std::set<const void*> live;
};
Objects& TheObjects() {
  static auto* objects = new Objects;
  return *objects;
}

template <typename T>
T* Register(T* object) {
  Objects& o = TheObjects();
  std::lock_guard<std::mutex> lock(o.mutex);
  o.live.insert(object);
  return object;
}

bool Unregister(const void* object) {
  Objects& o = TheObjects();
  std::lock_guard<std::mutex> lock(o.mutex);
  return o.live.erase(object) > 0;
}

template <typename T>
int32_t Destroy(const T* object, const char* what) {
  if (!Unregister(object)) return Fail(kAclnnInnerNullptr, std::string(what) + ": no such object");
  delete object;
  return kAclSuccess;
}

bool Aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % kAlignment == 0; }

// One past the last element that the view reaches, from the storage's begin.
int64_t Reach(const aclTensor& t) {
  int64_t last = t.offset;
  for (size_t d = 0; d < t.dims.size(); ++d) {
    if (t.dims[d] == 0) return 0;
    last += (t.dims[d] - 1) * t.strides[d];
  }
  return last + 1;
}

}  // namespace

size_t SizeOf(int32_t dtype) {
  switch (dtype) {
    case kAclFloat:
    case kAclInt32:
      return 4;
    case kAclFloat16:
    case kAclBf16:
      return 2;
    case kAclInt64:
    case kAclDouble:
      return 8;
    case kAclUint8:
    case kAclBool:
      return 1;
    default:
      return 0;
  }
}

bool IsLive(const void* object) {
  Objects& o = TheObjects();
  std::lock_guard<std::mutex> lock(o.mutex);
  return o.live.count(object) > 0;
}

int32_t MakeExecutor(const std::string& op, std::vector<const aclTensor*> tensors,
                     std::vector<size_t> apart, uint64_t workspace, bool repeatable, Body body,
                     uint64_t* size, aclOpExecutor** executor) {
  auto made = std::make_unique<aclOpExecutor>();
  made->op = op;
  made->tensors = std::move(tensors);
  made->apart = std::move(apart);
  made->workspace = workspace;
  made->may_repeat = repeatable;
  made->body = std::move(body);
  *size = workspace;
  *executor = Register(made.release());
  return kAclSuccess;
}

namespace {

// A tensor as a launch saw it; its address is looked up when the task runs.
struct Bound {
  aclTensor tensor;
  size_t bytes = 0;
};

int32_t Bind(const std::string& what, const aclTensor* t, int device, std::vector<Bound>& bound) {
  if (t == nullptr) return kAclSuccess;
  if (!IsLive(t)) return Fail(kAclnnInner, what + ": a tensor was destroyed");
  Bound b{*t, static_cast<size_t>(Reach(*t)) * SizeOf(t->dtype)};
  if (b.bytes > 0) {
    if (t->data == nullptr) return Fail(kAclnnParamNullptr, what + ": a tensor without an address");
    if (!Aligned(t->data))
      return Fail(kAclnnParamInvalid, what + ": an address not 32-byte aligned");
    const Piece piece = Find(t->data, b.bytes);
    if (piece.block == nullptr) {
      return Fail(kAclnnParamInvalid, what + ": a tensor beyond device memory");
    }
    if (piece.block->device != device) {
      return Fail(kAclnnRuntimeError, what + ": memory of another device");
    }
  }
  bound.push_back(std::move(b));
  return kAclSuccess;
}

// Whether no other tensor of the call reaches into the output.
bool LiesApart(const aclTensor* output, const std::vector<const aclTensor*>& tensors) {
  const auto begin = [](const aclTensor* t) {
    return static_cast<const char*>(t->data) + t->offset * static_cast<int64_t>(SizeOf(t->dtype));
  };
  const auto end = [](const aclTensor* t) {
    return static_cast<const char*>(t->data) + Reach(*t) * static_cast<int64_t>(SizeOf(t->dtype));
  };
  return std::none_of(tensors.begin(), tensors.end(), [&](const aclTensor* t) {
    return t != nullptr && t != output && begin(t) < end(output) && begin(output) < end(t);
  });
}

// On the stream's thread. Memory that was freed meanwhile is an exception of the core.
int32_t Run(const std::vector<Bound>& bound, void* workspace, uint64_t size, const Body& body) {
  std::vector<Piece> pieces;
  std::vector<View> views;
  for (const Bound& b : bound) {
    Piece piece;
    if (b.bytes > 0) {
      piece = Find(b.tensor.data, b.bytes);
      if (piece.block == nullptr) return kRtAicoreException;
    }
    const auto skip = static_cast<size_t>(b.tensor.offset) * SizeOf(b.tensor.dtype);
    views.push_back({b.tensor.dtype, b.tensor.dims, b.tensor.strides,
                     piece.data == nullptr ? nullptr : piece.data + skip});
    pieces.push_back(std::move(piece));
  }
  if (size > 0) {
    const Piece scratch = Find(workspace, size);
    if (scratch.block == nullptr) return kRtAicoreException;
    std::memset(scratch.data, 0xCD, size);  // it is the operator's while it runs
  }
  body(views);
  return kAclSuccess;
}

}  // namespace

int32_t Launch(const char* op, void* workspace, uint64_t size, aclOpExecutor* executor,
               void* stream_handle) {
  int32_t status = kAclSuccess;
  const std::string what = std::string("aclnn") + op;
  const auto stream = UsableStream(what.c_str(), stream_handle, &status);
  if (stream == nullptr) return Fail(kAclnnRuntimeError, what + ": " + TakeError());
  if (executor == nullptr) return Fail(kAclnnInnerNullptr, what + ": no executor");
  // base, aclDestroyAclOpExecutor: a launch destroys an executor that was not made repeatable.
  if (!IsLive(executor)) return Fail(kAclnnInner, what + ": the executor was used up or destroyed");
  if (executor->op != op) return Fail(kAclnnInner, what + ": an executor of aclnn" + executor->op);
  // op, every page: the size is the one that the first phase gave.
  if (size < executor->workspace || (executor->workspace > 0 && workspace == nullptr)) {
    return Fail(kAclnnParamInvalid, what + ": the workspace is smaller than it was told to be");
  }
  if (executor->workspace > 0) {
    const Piece piece = Find(workspace, executor->workspace);
    if (piece.block == nullptr || !Aligned(workspace) || piece.block->device != stream->device()) {
      return Fail(kAclnnParamInvalid, what + ": the workspace is not the device's memory");
    }
  }
  std::vector<Bound> bound;
  for (const aclTensor* t : executor->tensors) {
    status = Bind(what, t, stream->device(), bound);
    if (status != kAclSuccess) return status;
  }
  // No page says that an operator of more than elements may write over what it reads.
  for (const size_t index : executor->apart) {
    const aclTensor* output = executor->tensors[index];
    if (output != nullptr && !LiesApart(output, executor->tensors)) {
      return Fail(kAclnnInner, what + ": an output over another tensor of the call");
    }
  }
  stream->Push([bound = std::move(bound), workspace, needed = executor->workspace,
                body = executor->body, fault = FaultOf("ASCEND_EMULATOR_FAULT")] {
    if (fault != kAclSuccess) return fault;
    return Run(bound, workspace, needed, body);
  });
  if (!executor->repeats) {
    Unregister(executor);
    delete executor;
  }
  return kAclSuccess;
}

// base, aclCreateTensor: dimensions, strides and the offset are not negative; null on failure.
EMULATOR_EXPORT aclTensor* aclCreateTensor(const int64_t* dims, uint64_t num_dims, int32_t dtype,
                                           const int64_t* strides, int64_t offset, int32_t format,
                                           const int64_t* storage_dims, uint64_t num_storage_dims,
                                           void* data) {
  if (num_dims > kMostDims || SizeOf(dtype) == 0 || offset < 0 || format != kAclFormatNd) {
    return nullptr;
  }
  auto t = std::make_unique<aclTensor>();
  t->dtype = dtype;
  t->dims.assign(dims, dims + num_dims);
  if (strides != nullptr) {
    t->strides.assign(strides, strides + num_dims);
  } else {
    t->strides.assign(num_dims, 1);
    for (size_t d = num_dims; d-- > 1;) t->strides[d - 1] = t->strides[d] * t->dims[d];
  }
  for (size_t d = 0; d < num_dims; ++d) {
    if (t->dims[d] < 0 || t->strides[d] < 0) return nullptr;
  }
  t->offset = offset;
  t->storage_elements = 1;
  for (uint64_t d = 0; d < num_storage_dims; ++d) {
    if (storage_dims[d] < 0) return nullptr;
    t->storage_elements *= storage_dims[d];
  }
  if (Reach(*t) > t->storage_elements) return nullptr;
  t->data = data;
  return Register(t.release());
}

EMULATOR_EXPORT int32_t aclDestroyTensor(const aclTensor* t) {
  return Destroy(t, "aclDestroyTensor");
}

EMULATOR_EXPORT aclScalar* aclCreateScalar(void* value, int32_t dtype) {
  if (value == nullptr) return nullptr;
  aclScalar s;
  s.dtype = dtype;
  if (dtype == kAclFloat) {
    float f = 0;
    std::memcpy(&f, value, sizeof(f));
    s.value = f;
    s.integer = static_cast<int64_t>(f);
  } else if (dtype == kAclDouble) {
    std::memcpy(&s.value, value, sizeof(double));
    s.integer = static_cast<int64_t>(s.value);
  } else if (dtype == kAclInt64) {
    std::memcpy(&s.integer, value, sizeof(int64_t));
    s.value = static_cast<double>(s.integer);
  } else {
    return nullptr;
  }
  return Register(new aclScalar(s));
}
EMULATOR_EXPORT int32_t aclDestroyScalar(const aclScalar* s) {
  return Destroy(s, "aclDestroyScalar");
}
EMULATOR_EXPORT aclIntArray* aclCreateIntArray(const int64_t* values, uint64_t size) {
  return Register(new aclIntArray{std::vector<int64_t>(values, values + size)});
}
EMULATOR_EXPORT int32_t aclDestroyIntArray(const aclIntArray* array) {
  return Destroy(array, "aclDestroyIntArray");
}
EMULATOR_EXPORT aclBoolArray* aclCreateBoolArray(const bool* values, uint64_t size) {
  return Register(new aclBoolArray{std::vector<bool>(values, values + size)});
}
EMULATOR_EXPORT int32_t aclDestroyBoolArray(const aclBoolArray* array) {
  return Destroy(array, "aclDestroyBoolArray");
}

// base, aclSetAclOpExecutorRepeatable: right after the first phase; not where the operator makes
// tensors of its own or copies from the host.
EMULATOR_EXPORT int32_t aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  if (executor == nullptr) return Fail(kAclnnInnerNullptr, "aclSetAclOpExecutorRepeatable: null");
  if (!IsLive(executor)) return Fail(kAclnnInner, "the executor was used up or destroyed");
  // A switch for tests: as if every operator were one of those.
  if (!executor->may_repeat || std::getenv("ASCEND_EMULATOR_NO_REPEAT") != nullptr) {
    return Fail(kAclnnInner, "aclnn" + executor->op + " cannot be repeated as it was called");
  }
  executor->repeats = true;
  return kAclSuccess;
}

EMULATOR_EXPORT int32_t aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  if (executor == nullptr) return Fail(kAclnnInnerNullptr, "aclDestroyAclOpExecutor: null");
  return Destroy(executor, "aclDestroyAclOpExecutor");
}

// base, aclSetTensorAddr: `index` counts all tensors of the call, absent ones too, and names one
// that was not absent.
EMULATOR_EXPORT int32_t aclSetTensorAddr(aclOpExecutor* executor, size_t index, aclTensor* tensor,
                                         void* address) {
  if (executor == nullptr || tensor == nullptr) {
    return Fail(kAclnnInnerNullptr, "aclSetTensorAddr: null");
  }
  if (!IsLive(executor)) return Fail(kAclnnInner, "the executor was used up or destroyed");
  if (!executor->repeats) {
    return Fail(kAclnnInner, "aclSetTensorAddr of an executor that was not made repeatable");
  }
  if (index >= executor->tensors.size() || executor->tensors[index] != tensor) {
    return Fail(kAclnnParamInvalid, "aclSetTensorAddr: not the tensor of that index");
  }
  if (!Aligned(address)) return Fail(kAclnnParamInvalid, "an address not 32-byte aligned");
  tensor->data = address;
  return kAclSuccess;
}

}  // namespace ascend_emulator

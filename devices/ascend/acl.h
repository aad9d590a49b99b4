// The part of Huawei's CANN that this leaf calls: names, prototypes and numbers as its public
// documentation gives them, in our own words, so that nothing of the toolkit is needed to build.
// Enumerations are int32_t here. tests/devices/ascend/prototypes_test.cc compares every prototype
// with the toolkit's headers where there is a toolkit.
//
//   runtime: libascendcl.so, operators' base: libnnopbase.so, operators: libopapi.so,
//   collectives: libhccl.so
#pragma once

#include <cstddef>
#include <cstdint>

// Opaque objects of the toolkit, by its names: only pointers to them pass.
struct aclTensor;
struct aclTensorList;
struct aclScalar;
struct aclIntArray;
struct aclBoolArray;
struct aclOpExecutor;
struct HcclRootInfoDef;

namespace oc::ascend {

using Stream = void*;
using AclEvent = void*;
using Comm = void*;
using HostFunction = void (*)(void*);

// aclDataType.
enum : int32_t {
  kAclFloat = 0,
  kAclFloat16 = 1,
  kAclInt32 = 3,
  kAclUint8 = 4,
  kAclInt64 = 9,
  kAclDouble = 11,
  kAclBool = 12,
  kAclBf16 = 27
};
constexpr int32_t kAclFormatNd = 2;

// aclrtMemMallocPolicy, aclrtMemcpyKind, aclrtMemAttr, aclDeviceInfo, aclSysParamOpt, event flags.
constexpr int32_t kMallocHugeFirst = 0;
enum : int32_t {
  kMemcpyHostToHost = 0,
  kMemcpyHostToDevice = 1,
  kMemcpyDeviceToHost = 2,
  kMemcpyDeviceToDevice = 3
};
constexpr int32_t kHbmMemory = 1;
constexpr int32_t kInfoAiCores = 0;
constexpr int32_t kOptDeterministic = 0;
constexpr uint32_t kEventSync = 1;

// cubeMathType of products: in the type of the inputs.
constexpr int8_t kKeepDtype = 0;

// Results.
enum : int32_t {
  kAclSuccess = 0,
  kAclInvalidParam = 100000,
  kAclUninitialized = 100001,
  kAclRepeatInitialize = 100002,
  kRtParamInvalid = 107000,
  kRtInvalidDeviceId = 107001,
  kRtContextNull = 107002,
  kRtStreamContext = 107003,
  kRtInvalidHandle = 107017,
  kRtWaitTimeout = 107019,
  kRtFeatureNotSupport = 207000,
  kRtMemoryAllocation = 207001,
  kRtMemoryFree = 207002,
  kRtNoDevice = 207004,
  kRtDeviceOom = 207018,
  kRtLostHeartbeat = 507010,
  kRtAicoreTimeout = 507014,
  kRtAicoreException = 507015,
  kRtAicpuTimeout = 507017,
  kRtAicpuException = 507018,
  kRtVectorCoreTimeout = 507034,
  kRtVectorCoreException = 507035,
  kRtVectorCoreTrapException = 507036,
  kRtStreamSyncTimeout = 507046,
  kRtEventSyncTimeout = 507047,
  kRtDeviceMemoryError = 507053,
  kRtHbmEccError = 507054,
  kRtLinkError = 507056,
  kRtDrvInternalError = 507899,
  kAclnnParamNullptr = 161001,
  kAclnnParamInvalid = 161002,
  kAclnnRuntimeError = 361001,
  kAclnnInner = 561000,
  kAclnnInnerNullptr = 561103
};

// HcclResult, HcclDataType, HcclReduceOp, and the size of HcclRootInfo.
enum : int32_t {
  kHcclSuccess = 0,
  kHcclParameter = 1,
  kHcclPointer = 2,
  kHcclMemory = 3,
  kHcclInternal = 4,
  kHcclNotSupported = 5,
  kHcclUnavailable = 7,
  kHcclTimeout = 9,
  kHcclNetwork = 19,
  kHcclAgain = 20,
  kHcclRemote = 21,
  kHcclOutOfMemory = 24
};
enum : int32_t {
  kHcclInt32 = 2,
  kHcclFp16 = 3,
  kHcclFp32 = 4,
  kHcclInt64 = 5,
  kHcclUint8 = 7,
  kHcclFp64 = 10,
  kHcclBf16 = 11
};
enum : int32_t { kHcclSum = 0, kHcclProduct = 1, kHcclMax = 2, kHcclMin = 3 };
constexpr int64_t kHcclRootInfoBytes = 4108;

// X(name, result, arguments...)
#define OC_ASCEND_RUNTIME(X)                                                                   \
  X(aclInit, int32_t, const char* config)                                                      \
  X(aclGetRecentErrMsg, const char*)                                                           \
  X(aclGetDeviceCapability, int32_t, uint32_t device, int32_t what, int64_t* value)            \
  X(aclrtGetDeviceCount, int32_t, uint32_t* count)                                             \
  X(aclrtGetSocName, const char*)                                                              \
  X(aclrtSetDevice, int32_t, int32_t device)                                                   \
  X(aclrtGetDevice, int32_t, int32_t* device)                                                  \
  X(aclrtSetSysParamOpt, int32_t, int32_t option, int64_t value)                               \
  X(aclrtSynchronizeDeviceWithTimeout, int32_t, int32_t milliseconds)                          \
  X(aclrtGetMemInfo, int32_t, int32_t attribute, size_t* free, size_t* total)                  \
  X(aclrtMalloc, int32_t, void** address, size_t size, int32_t policy)                         \
  X(aclrtFree, int32_t, void* address)                                                         \
  X(aclrtMallocHost, int32_t, void** address, size_t size)                                     \
  X(aclrtFreeHost, int32_t, void* address)                                                     \
  X(aclrtMemset, int32_t, void* to, size_t most, int32_t value, size_t count)                  \
  X(aclrtMemcpy, int32_t, void* to, size_t most, const void* from, size_t count, int32_t kind) \
  X(aclrtMemcpyAsync, int32_t, void* to, size_t most, const void* from, size_t count,          \
    int32_t kind, void* stream)                                                                \
  X(aclrtCreateStream, int32_t, void** stream)                                                 \
  X(aclrtDestroyStream, int32_t, void* stream)                                                 \
  X(aclrtSynchronizeStreamWithTimeout, int32_t, void* stream, int32_t milliseconds)            \
  X(aclrtCreateEventExWithFlag, int32_t, void** event, uint32_t flag)                          \
  X(aclrtDestroyEvent, int32_t, void* event)                                                   \
  X(aclrtRecordEvent, int32_t, void* event, void* stream)                                      \
  X(aclrtStreamWaitEvent, int32_t, void* stream, void* event)                                  \
  X(aclrtSynchronizeEventWithTimeout, int32_t, void* event, int32_t milliseconds)

#define OC_ASCEND_OPERATOR_BASE(X)                                                       \
  X(aclCreateTensor, aclTensor*, const int64_t* dims, uint64_t num_dims, int32_t dtype,  \
    const int64_t* strides, int64_t offset, int32_t format, const int64_t* storage_dims, \
    uint64_t num_storage_dims, void* data)                                               \
  X(aclDestroyTensor, int32_t, const aclTensor* tensor)                                  \
  X(aclCreateScalar, aclScalar*, void* value, int32_t dtype)                             \
  X(aclDestroyScalar, int32_t, const aclScalar* scalar)                                  \
  X(aclCreateIntArray, aclIntArray*, const int64_t* values, uint64_t size)               \
  X(aclDestroyIntArray, int32_t, const aclIntArray* array)                               \
  X(aclCreateBoolArray, aclBoolArray*, const bool* values, uint64_t size)                \
  X(aclDestroyBoolArray, int32_t, const aclBoolArray* array)                             \
  X(aclSetAclOpExecutorRepeatable, int32_t, aclOpExecutor* executor)                     \
  X(aclDestroyAclOpExecutor, int32_t, aclOpExecutor* executor)                           \
  X(aclSetTensorAddr, int32_t, aclOpExecutor* executor, size_t index, aclTensor* tensor, \
    void* address)

#define OC_ASCEND_COLLECTIVES(X)                                                                  \
  X(HcclGetRootInfo, int32_t, HcclRootInfoDef* info)                                              \
  X(HcclCommInitRootInfo, int32_t, uint32_t ranks, const HcclRootInfoDef* info, uint32_t rank,    \
    void** comm)                                                                                  \
  X(HcclCommDestroy, int32_t, void* comm)                                                         \
  X(HcclGetCommAsyncError, int32_t, void* comm, int32_t* error)                                   \
  X(HcclAllReduce, int32_t, void* from, void* to, uint64_t count, int32_t dtype, int32_t op,      \
    void* comm, void* stream)                                                                     \
  X(HcclAllGather, int32_t, void* from, void* to, uint64_t count, int32_t dtype, void* comm,      \
    void* stream)                                                                                 \
  X(HcclReduceScatter, int32_t, void* from, void* to, uint64_t count, int32_t dtype, int32_t op,  \
    void* comm, void* stream)                                                                     \
  X(HcclBroadcast, int32_t, void* data, uint64_t count, int32_t dtype, uint32_t root, void* comm, \
    void* stream)                                                                                 \
  X(HcclSend, int32_t, void* from, uint64_t count, int32_t dtype, uint32_t peer, void* comm,      \
    void* stream)                                                                                 \
  X(HcclRecv, int32_t, void* to, uint64_t count, int32_t dtype, uint32_t peer, void* comm,        \
    void* stream)

// The operators: X(Name, arguments...) is
//   int32_t aclnnNameGetWorkspaceSize(arguments..., uint64_t* size, aclOpExecutor** executor)
//   int32_t aclnnName(void* workspace, uint64_t size, aclOpExecutor* executor, void* stream)
#define OC_ASCEND_UNARY_OPERATORS(X)                   \
  X(Relu, const aclTensor* self, aclTensor* out)       \
  X(Silu, const aclTensor* self, aclTensor* out)       \
  X(Tanh, const aclTensor* self, aclTensor* out)       \
  X(Sigmoid, const aclTensor* self, aclTensor* out)    \
  X(Exp, const aclTensor* self, aclTensor* out)        \
  X(Expm1, const aclTensor* self, aclTensor* out)      \
  X(Log, const aclTensor* self, aclTensor* out)        \
  X(Sqrt, const aclTensor* self, aclTensor* out)       \
  X(Reciprocal, const aclTensor* self, aclTensor* out) \
  X(Cast, const aclTensor* self, int32_t dtype, aclTensor* out)

#define OC_ASCEND_BINARY_OPERATORS(X)                                                            \
  X(Add, const aclTensor* self, const aclTensor* other, const aclScalar* alpha, aclTensor* out)  \
  X(Mul, const aclTensor* self, const aclTensor* other, aclTensor* out)                          \
  X(Div, const aclTensor* self, const aclTensor* other, aclTensor* out)                          \
  X(EqTensor, const aclTensor* self, const aclTensor* other, aclTensor* out)                     \
  X(LtTensor, const aclTensor* self, const aclTensor* other, aclTensor* out)                     \
  X(GtTensor, const aclTensor* self, const aclTensor* other, aclTensor* out)                     \
  X(LogicalAnd, const aclTensor* self, const aclTensor* other, aclTensor* out)                   \
  X(LogicalOr, const aclTensor* self, const aclTensor* other, aclTensor* out)                    \
  X(BitwiseXorTensor, const aclTensor* self, const aclTensor* other, aclTensor* out)             \
  X(RightShift, const aclTensor* input, const aclTensor* bits, aclTensor* out)                   \
  X(Adds, const aclTensor* self, const aclScalar* other, const aclScalar* alpha, aclTensor* out) \
  X(Muls, const aclTensor* self, const aclScalar* other, aclTensor* out)                         \
  X(NeScalar, const aclTensor* self, const aclScalar* other, aclTensor* out)                     \
  X(LtScalar, const aclTensor* self, const aclScalar* other, aclTensor* out)                     \
  X(GeScalar, const aclTensor* self, const aclScalar* other, aclTensor* out)                     \
  X(BitwiseAndScalar, const aclTensor* self, const aclScalar* other, aclTensor* out)             \
  X(ClampMax, const aclTensor* self, const aclScalar* most, aclTensor* out)                      \
  X(SWhere, const aclTensor* condition, const aclTensor* self, const aclTensor* other,           \
    aclTensor* out)                                                                              \
  X(InplaceAdd, aclTensor* self, const aclTensor* other, const aclScalar* alpha)

#define OC_ASCEND_GRADIENT_OPERATORS(X)                                                  \
  X(ThresholdBackward, const aclTensor* gradient, const aclTensor* self,                 \
    const aclScalar* threshold, aclTensor* out)                                          \
  X(TanhBackward, const aclTensor* gradient, const aclTensor* output, aclTensor* out)    \
  X(SigmoidBackward, const aclTensor* gradient, const aclTensor* output, aclTensor* out) \
  X(SiluBackward, const aclTensor* gradient, const aclTensor* self, aclTensor* out)      \
  X(GeluV2, const aclTensor* x, int64_t approximate, aclTensor* y)                       \
  X(GeluBackwardV2, const aclTensor* gradient, const aclTensor* self, char* approximate, \
    aclTensor* out)                                                                      \
  X(SoftmaxBackward, const aclTensor* gradient, const aclTensor* output, int64_t dim,    \
    aclTensor* out)

#define OC_ASCEND_MOVEMENT_OPERATORS(X)                                                      \
  X(InplaceCopy, aclTensor* self, const aclTensor* from)                                     \
  X(InplaceZero, aclTensor* self)                                                            \
  X(InplaceFillScalar, aclTensor* self, const aclScalar* value)                              \
  X(InplaceMaskedFillScalar, aclTensor* self, const aclTensor* mask, const aclScalar* value) \
  X(Gather, const aclTensor* self, int64_t dim, const aclTensor* index, aclTensor* out)      \
  X(Embedding, const aclTensor* weight, const aclTensor* indices, aclTensor* out)            \
  X(EmbeddingDenseBackward, const aclTensor* gradient, const aclTensor* indices,             \
    uint64_t num_weights, uint64_t padding_index, bool scale_by_frequency, aclTensor* out)

#define OC_ASCEND_REDUCTION_OPERATORS(X)                                                      \
  X(ReduceSum, const aclTensor* self, const aclIntArray* dims, bool keep_dims, int32_t dtype, \
    aclTensor* out)                                                                           \
  X(Amax, const aclTensor* self, const aclIntArray* dims, bool keep_dims, aclTensor* out)     \
  X(ArgMax, const aclTensor* self, int64_t dim, bool keep_dims, aclTensor* out)               \
  X(Softmax, const aclTensor* self, int64_t dim, aclTensor* out)                              \
  X(Matmul, const aclTensor* self, const aclTensor* other, aclTensor* out, int8_t cube_math)  \
  X(LayerNorm, const aclTensor* input, const aclIntArray* shape, const aclTensor* weight,     \
    const aclTensor* bias, double eps, aclTensor* out, aclTensor* mean, aclTensor* rstd)      \
  X(LayerNormBackward, const aclTensor* gradient, const aclTensor* input,                     \
    const aclIntArray* shape, const aclTensor* mean, const aclTensor* rstd,                   \
    const aclTensor* weight, const aclTensor* bias, const aclBoolArray* wanted,               \
    aclTensor* input_gradient, aclTensor* weight_gradient, aclTensor* bias_gradient)

#define OC_ASCEND_OPERATORS(X)    \
  OC_ASCEND_UNARY_OPERATORS(X)    \
  OC_ASCEND_BINARY_OPERATORS(X)   \
  OC_ASCEND_GRADIENT_OPERATORS(X) \
  OC_ASCEND_MOVEMENT_OPERATORS(X) \
  OC_ASCEND_REDUCTION_OPERATORS(X)

// The types, as FunctionOf_aclrtMalloc, SizeFunction_Relu; and of every operator's second call.
#define OC_ASCEND_FUNCTION_TYPE_(name, result, ...) using FunctionOf_##name = result(__VA_ARGS__);
OC_ASCEND_RUNTIME(OC_ASCEND_FUNCTION_TYPE_)
OC_ASCEND_OPERATOR_BASE(OC_ASCEND_FUNCTION_TYPE_)
OC_ASCEND_COLLECTIVES(OC_ASCEND_FUNCTION_TYPE_)
#undef OC_ASCEND_FUNCTION_TYPE_
#define OC_ASCEND_SIZE_TYPE_(name, ...) \
  using SizeFunction_##name = int32_t(__VA_ARGS__, uint64_t* size, aclOpExecutor** executor);
OC_ASCEND_OPERATORS(OC_ASCEND_SIZE_TYPE_)
#undef OC_ASCEND_SIZE_TYPE_
using LaunchFunction = int32_t(void* workspace, uint64_t size, aclOpExecutor* executor,
                               void* stream);

}  // namespace oc::ascend

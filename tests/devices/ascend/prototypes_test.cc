// Compares the prototypes of devices/ascend/acl.h with the toolkit's headers, while compiling.
// Built where ASCEND_HOME_PATH names a toolkit. Two pass for the same where they are called the
// same: an enumeration is 32 bits, and const does not matter.
#include <acl/acl.h>
#include <aclnn/acl_meta.h>
#include <aclnnop/aclnn_add.h>
#include <aclnnop/aclnn_amax.h>
#include <aclnnop/aclnn_argmax.h>
#include <aclnnop/aclnn_bitwise_and_scalar.h>
#include <aclnnop/aclnn_bitwise_xor_tensor.h>
#include <aclnnop/aclnn_cast.h>
#include <aclnnop/aclnn_clamp.h>
#include <aclnnop/aclnn_copy.h>
#include <aclnnop/aclnn_div.h>
#include <aclnnop/aclnn_embedding.h>
#include <aclnnop/aclnn_embedding_dense_backward.h>
#include <aclnnop/aclnn_eq_tensor.h>
#include <aclnnop/aclnn_exp.h>
#include <aclnnop/aclnn_expm1.h>
#include <aclnnop/aclnn_fill_scalar.h>
#include <aclnnop/aclnn_gather.h>
#include <aclnnop/aclnn_ge_scalar.h>
#include <aclnnop/aclnn_gelu_backward_v2.h>
#include <aclnnop/aclnn_gelu_v2.h>
#include <aclnnop/aclnn_gt_tensor.h>
#include <aclnnop/aclnn_layer_norm.h>
#include <aclnnop/aclnn_layer_norm_backward.h>
#include <aclnnop/aclnn_log.h>
#include <aclnnop/aclnn_logical_and.h>
#include <aclnnop/aclnn_logical_or.h>
#include <aclnnop/aclnn_lt_scalar.h>
#include <aclnnop/aclnn_lt_tensor.h>
#include <aclnnop/aclnn_masked_fill_scalar.h>
#include <aclnnop/aclnn_matmul.h>
#include <aclnnop/aclnn_mul.h>
#include <aclnnop/aclnn_ne_scalar.h>
#include <aclnnop/aclnn_reciprocal.h>
#include <aclnnop/aclnn_reduce_sum.h>
#include <aclnnop/aclnn_relu.h>
#include <aclnnop/aclnn_right_shift.h>
#include <aclnnop/aclnn_s_where.h>
#include <aclnnop/aclnn_sigmoid.h>
#include <aclnnop/aclnn_sigmoid_backward.h>
#include <aclnnop/aclnn_silu.h>
#include <aclnnop/aclnn_silu_backward.h>
#include <aclnnop/aclnn_softmax.h>
#include <aclnnop/aclnn_softmax_backward.h>
#include <aclnnop/aclnn_sqrt.h>
#include <aclnnop/aclnn_tanh.h>
#include <aclnnop/aclnn_tanh_backward.h>
#include <aclnnop/aclnn_threshold_backward.h>
#include <aclnnop/aclnn_zero.h>
#include <hccl/hccl.h>

#include <type_traits>

#include "openclaw/devices/ascend/acl.h"

namespace oc::ascend {
namespace {

template <typename T, typename = void>
struct As {
  using Type = T;
};
template <typename T>
struct As<T, std::enable_if_t<std::is_enum_v<T>>> {
  static_assert(sizeof(T) == sizeof(int32_t));
  using Type = int32_t;
};
template <>
struct As<uint32_t> {
  using Type = int32_t;
};
template <typename T>
struct As<T*> {
  using Type = typename As<std::remove_const_t<T>>::Type*;
};
template <typename R, typename... A>
struct As<R(A...)> {
  using Type = typename As<R>::Type(typename As<std::remove_const_t<A>>::Type...);
};
template <typename A, typename B>
constexpr bool kSame = std::is_same_v<typename As<A>::Type, typename As<B>::Type>;

#define OC_TEST_COMPARE_(name, ...) \
  static_assert(kSame<FunctionOf_##name, decltype(::name)>, #name);
OC_ASCEND_RUNTIME(OC_TEST_COMPARE_)
OC_ASCEND_OPERATOR_BASE(OC_TEST_COMPARE_)
OC_ASCEND_COLLECTIVES(OC_TEST_COMPARE_)
#undef OC_TEST_COMPARE_
#define OC_TEST_COMPARE_(name, ...)                                                            \
  static_assert(kSame<SizeFunction_##name, decltype(::aclnn##name##GetWorkspaceSize)>, #name); \
  static_assert(kSame<LaunchFunction, decltype(::aclnn##name)>, #name);
OC_ASCEND_OPERATORS(OC_TEST_COMPARE_)
#undef OC_TEST_COMPARE_

static_assert(kAclFloat == ACL_FLOAT && kAclFloat16 == ACL_FLOAT16 && kAclInt32 == ACL_INT32);
static_assert(kAclUint8 == ACL_UINT8 && kAclInt64 == ACL_INT64 && kAclDouble == ACL_DOUBLE);
static_assert(kAclBool == ACL_BOOL && kAclBf16 == ACL_BF16 && kAclFormatNd == ACL_FORMAT_ND);
static_assert(kMallocHugeFirst == ACL_MEM_MALLOC_HUGE_FIRST && kHbmMemory == ACL_HBM_MEM);
static_assert(kMemcpyHostToHost == ACL_MEMCPY_HOST_TO_HOST);
static_assert(kMemcpyHostToDevice == ACL_MEMCPY_HOST_TO_DEVICE);
static_assert(kMemcpyDeviceToHost == ACL_MEMCPY_DEVICE_TO_HOST);
static_assert(kMemcpyDeviceToDevice == ACL_MEMCPY_DEVICE_TO_DEVICE);
static_assert(kInfoAiCores == ACL_DEVICE_INFO_AI_CORE_NUM);
static_assert(kOptDeterministic == ACL_OPT_DETERMINISTIC && kEventSync == ACL_EVENT_SYNC);
static_assert(kRtEventSyncTimeout == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
static_assert(kRtMemoryAllocation == ACL_ERROR_RT_MEMORY_ALLOCATION);
static_assert(kHcclRootInfoBytes == HCCL_ROOT_INFO_BYTES);
static_assert(kHcclSum == HCCL_REDUCE_SUM && kHcclMax == HCCL_REDUCE_MAX);
static_assert(kHcclFp32 == HCCL_DATA_TYPE_FP32 && kHcclFp16 == HCCL_DATA_TYPE_FP16);
static_assert(kHcclInt32 == HCCL_DATA_TYPE_INT32 && kHcclInt64 == HCCL_DATA_TYPE_INT64);
static_assert(kHcclBf16 == HCCL_DATA_TYPE_BFP16 && kHcclFp64 == HCCL_DATA_TYPE_FP64);
static_assert(kHcclUint8 == HCCL_DATA_TYPE_UINT8 && kHcclTimeout == HCCL_E_TIMEOUT);

}  // namespace
}  // namespace oc::ascend

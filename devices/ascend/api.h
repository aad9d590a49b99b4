// The toolkit's functions, found in its libraries while the program runs, and its codes as
// statuses. The calling thread's "current device" is set here and nowhere else: each object of the
// leaf that calls the runtime begins with UseDevice.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "openclaw/core/status.h"
#include "openclaw/devices/ascend/acl.h"

namespace oc::ascend {

enum class Operator : int {
#define OC_ASCEND_ENUM_(name, ...) k##name,
  OC_ASCEND_OPERATORS(OC_ASCEND_ENUM_)
#undef OC_ASCEND_ENUM_
      kCount
};
constexpr int kNumOperators = static_cast<int>(Operator::kCount);
// "aclnnAdd".
const char* NameOf(Operator op);

struct HcclApi {
#define OC_ASCEND_MEMBER_(name, ...) FunctionOf_##name* name = nullptr;
  OC_ASCEND_COLLECTIVES(OC_ASCEND_MEMBER_)
};

// Thread-safe; lives as long as the process, as the libraries do.
struct Api {
  OC_ASCEND_RUNTIME(OC_ASCEND_MEMBER_)
  OC_ASCEND_OPERATOR_BASE(OC_ASCEND_MEMBER_)
#undef OC_ASCEND_MEMBER_
  // SizeFunction_X and the launch of each operator; null where this toolkit has none.
  void* sizes[kNumOperators] = {};
  LaunchFunction* launches[kNumOperators] = {};

  // Opens libascendcl.so, libnnopbase.so and libopapi.so, of ASCEND_HOME_PATH where it is set, else
  // where the loader looks, and initialises the runtime. kFailedPrecondition says what to install
  // or set.
  static StatusOr<std::shared_ptr<const Api>> Load();

  // The functions of libhccl.so, which is opened the first time.
  StatusOr<const HcclApi*> Collectives() const;

  // Makes `device` the calling thread's.
  Status UseDevice(int device) const;
  // Of a runtime's or operator's code: "aclrtMalloc: code 207001 (its text) (where)".
  Status ToStatus(int32_t code, const char* function, const std::string& where) const;
  // Of an HcclResult.
  Status HcclStatus(int32_t result, const char* function, const std::string& where) const;

 private:
  mutable std::mutex mutex_;
  mutable std::unique_ptr<HcclApi> hccl_;  // guarded by mutex_
};

}  // namespace oc::ascend

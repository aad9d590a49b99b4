// The functions of the emulated libraries, for tests that link them.
#pragma once

#include "openclaw/devices/ascend/acl.h"

namespace oc::ascend {
#define OC_TEST_DECLARE_(name, ...) extern "C" FunctionOf_##name name;
OC_ASCEND_RUNTIME(OC_TEST_DECLARE_)
OC_ASCEND_OPERATOR_BASE(OC_TEST_DECLARE_)
OC_ASCEND_COLLECTIVES(OC_TEST_DECLARE_)
#undef OC_TEST_DECLARE_
#define OC_TEST_DECLARE_(name, ...)                             \
  extern "C" SizeFunction_##name aclnn##name##GetWorkspaceSize; \
  extern "C" LaunchFunction aclnn##name;
OC_ASCEND_OPERATORS(OC_TEST_DECLARE_)
#undef OC_TEST_DECLARE_
}  // namespace oc::ascend

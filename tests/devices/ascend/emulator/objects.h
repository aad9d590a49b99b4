// What operators are called with, and what a call's first phase makes: an executor.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "machine.h"

struct aclTensor {
  int32_t dtype = 0;
  std::vector<int64_t> dims, strides;
  int64_t offset = 0;            // elements
  int64_t storage_elements = 0;  // what the storage dimensions hold
  void* data = nullptr;
};
struct aclScalar {
  int32_t dtype = 0;
  double value = 0;
  int64_t integer = 0;
};
struct aclIntArray {
  std::vector<int64_t> values;
};
struct aclBoolArray {
  std::vector<bool> values;
};

namespace ascend_emulator {

// A tensor while an operator runs.
struct View {
  int32_t dtype = 0;
  std::vector<int64_t> dims, strides;
  std::byte* data = nullptr;  // of the first element
};

// Runs an operator; inputs and outputs in the order of its arguments, without absent ones.
using Body = std::function<void(const std::vector<View>&)>;

size_t SizeOf(int32_t dtype);  // 0: unknown

// Whether the object was made and not destroyed.
bool IsLive(const void* object);

// The first phase's end: an executor of these tensors. Those whose numbers are in `apart` may not
// lie over others.
int32_t MakeExecutor(const std::string& op, std::vector<const aclTensor*> tensors,
                     std::vector<size_t> apart, uint64_t workspace, bool repeatable, Body body,
                     uint64_t* size, aclOpExecutor** executor);
// The second phase.
int32_t Launch(const char* op, void* workspace, uint64_t size, aclOpExecutor* executor,
               void* stream);

}  // namespace ascend_emulator

struct aclOpExecutor {
  std::string op;
  std::vector<const aclTensor*> tensors;  // null: an absent one
  std::vector<size_t> apart;              // numbers of outputs that lie over no other tensor
  uint64_t workspace = 0;
  bool may_repeat = true, repeats = false;
  ascend_emulator::Body body;
};

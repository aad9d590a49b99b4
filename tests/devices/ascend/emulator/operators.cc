#include "operators.h"

namespace ascend_emulator {
namespace {

bool Dense(const aclTensor& t) {
  int64_t stride = 1;
  for (size_t d = t.dims.size(); d-- > 0;) {
    if (t.dims[d] != 1 && t.strides[d] != stride) return false;
    stride *= t.dims[d];
  }
  return true;
}

}  // namespace

Operator::Operator(const char* name, uint64_t* size, aclOpExecutor** executor)
    : name_(name), size_(size), executor_(executor) {
  // op, every page: the thread's device is where it will run.
  status_ = CheckThread((std::string("aclnn") + name + "GetWorkspaceSize").c_str());
  NotNull(size, "workspaceSize").NotNull(executor, "executor");
}

Operator& Operator::Refuse(int32_t code, const std::string& what) {
  if (status_ == kAclSuccess) {
    status_ = Fail(code, "aclnn" + name_ + "GetWorkspaceSize: " + what);
  }
  return *this;
}

Operator& Operator::In(const aclTensor* t, Types types) {
  NotNull(t, "a tensor");
  return Optional(t, types);
}

Operator& Operator::Out(const aclTensor* t, Types types) {
  outputs_.push_back(tensors_.size());
  return In(t, types);
}

Operator& Operator::OptionalOut(const aclTensor* t, Types types) {
  outputs_.push_back(tensors_.size());
  return Optional(t, types);
}

Operator& Operator::Elementwise() {
  elementwise_ = true;
  return *this;
}

Operator& Operator::Optional(const aclTensor* t, Types types) {
  if (t != nullptr) {
    if (!IsLive(t)) return Refuse(kAclnnParamInvalid, "a tensor that was destroyed");
    if ((types & TypeBit(t->dtype)) == 0) {
      return Refuse(kAclnnParamInvalid, "a tensor of type " + std::to_string(t->dtype));
    }
    // What does not lie together is gathered first.
    if (!Dense(*t)) {
      workspace_ +=
          static_cast<uint64_t>(ascend_emulator::Elements(t->dims)) * SizeOf(t->dtype) + 512;
    }
  }
  tensors_.push_back(t);
  return *this;
}

Operator& Operator::NotNull(const void* argument, const char* what) {
  return argument != nullptr ? *this : Refuse(kAclnnParamNullptr, std::string(what) + " is null");
}

Operator& Operator::Require(bool condition, const char* what) {
  return condition ? *this : Refuse(kAclnnParamInvalid, what);
}

Operator& Operator::Broadcast(const aclTensor* out,
                              std::initializer_list<const aclTensor*> operands) {
  if (status_ != kAclSuccess) return *this;
  std::vector<int64_t> dims;
  for (const aclTensor* t : operands) {
    if (t->dims.size() > dims.size()) dims.insert(dims.begin(), t->dims.size() - dims.size(), 1);
    for (size_t d = 0; d < t->dims.size(); ++d) {
      int64_t& size = dims[dims.size() - t->dims.size() + d];
      if (size == 1) size = t->dims[d];
      Require(t->dims[d] == size || t->dims[d] == 1, "shapes that do not broadcast");
    }
  }
  return Require(dims == out->dims, "the output's shape is not the operands'");
}

Operator& Operator::SameType(const aclTensor* a, const aclTensor* b) {
  return status_ != kAclSuccess ? *this : Require(a->dtype == b->dtype, "types that differ");
}
Operator& Operator::SameShape(const aclTensor* a, const aclTensor* b) {
  return status_ != kAclSuccess ? *this : Require(a->dims == b->dims, "shapes that differ");
}
Operator& Operator::MakesTensors() {
  repeatable_ = false;
  return *this;
}
Operator& Operator::Workspace(uint64_t bytes) {
  workspace_ += bytes;
  return *this;
}

int32_t Operator::Done(Body body) {
  if (status_ != kAclSuccess) return status_;
  if (elementwise_) outputs_.clear();
  return MakeExecutor(name_, tensors_, outputs_, workspace_, repeatable_, std::move(body), size_,
                      executor_);
}

int64_t Elements(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

std::vector<int64_t> StridesOver(const View& v, const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 0);
  const size_t added = dims.size() - v.dims.size();
  for (size_t d = 0; d < v.dims.size(); ++d) {
    if (v.dims[d] != 1 || dims[added + d] == 1) strides[added + d] = v.strides[d];
  }
  return strides;
}

// The second phase of every operator.
#define OC_EMULATOR_LAUNCH_(name, ...)                                                         \
  EMULATOR_EXPORT int32_t aclnn##name(void* workspace, uint64_t size, aclOpExecutor* executor, \
                                      void* stream) {                                          \
    return Launch(#name, workspace, size, executor, stream);                                   \
  }
OC_ASCEND_OPERATORS(OC_EMULATOR_LAUNCH_)
#undef OC_EMULATOR_LAUNCH_

}  // namespace ascend_emulator

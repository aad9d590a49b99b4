#include "operators.h"

#include <algorithm>
#include <cstring>
#include <limits>

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

float FromHalf(uint16_t h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  const float sign = (h & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

// To nearest, ties to even: of a value v = m * 2^e with few bits of m.
uint16_t ToHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double v = std::fabs(value);
  if (std::isnan(v)) return 0x7E00;
  if (v >= 65520) return sign | 0x7C00;
  int exponent = 0;
  std::frexp(v, &exponent);
  exponent = std::max(exponent, -13);  // below, steps are 2^-24
  const double steps = std::nearbyint(std::ldexp(v, 11 - exponent));
  // 1024 to 2048 steps; the carry of 2048 goes into the exponent by itself.
  const int bits = static_cast<int>(steps) + (exponent + 13) * 1024;
  return static_cast<uint16_t>(sign | bits);
}

uint16_t ToBrain(double value) {
  const auto f = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &f, sizeof(bits));
  if (std::isnan(f)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  bits += 0x7FFF + (bits >> 16 & 1);
  return static_cast<uint16_t>(bits >> 16);
}

template <typename T>
T Read(const View& v, int64_t at) {
  T value;
  std::memcpy(&value, v.data + at * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <typename T>
void Write(const View& v, int64_t at, T value) {
  std::memcpy(v.data + at * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

// Without a fraction, within the type.
template <typename T>
T Truncate(double value) {
  if (std::isnan(value)) return 0;
  constexpr auto kLowest = static_cast<double>(std::numeric_limits<T>::lowest());
  constexpr auto kLargest = static_cast<double>(std::numeric_limits<T>::max());
  if (value <= kLowest) return std::numeric_limits<T>::lowest();
  if (value >= kLargest) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
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

Operator& Operator::Optional(const aclTensor* t, Types types) {
  if (t != nullptr) {
    if (!IsLive(t)) return Refuse(kAclnnParamInvalid, "a tensor that was destroyed");
    if ((types & TypeBit(t->dtype)) == 0) {
      return Refuse(kAclnnParamInvalid, "a tensor of type " + std::to_string(t->dtype));
    }
    // What does not lie together is gathered first.
    if (!Dense(*t)) {
      workspace_ += static_cast<uint64_t>(ascend_emulator::Elements(t->dims)) * SizeOf(t->dtype) +
                    512;
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
  return MakeExecutor(name_, tensors_, workspace_, repeatable_, std::move(body), size_, executor_);
}

int64_t Elements(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

bool IsWhole(int32_t dtype) { return ((kWholes | kBools) & TypeBit(dtype)) != 0; }

double Load(const View& v, int64_t at) {
  switch (v.dtype) {
    case kAclFloat:
      return Read<float>(v, at);
    case kAclDouble:
      return Read<double>(v, at);
    case kAclFloat16:
      return FromHalf(Read<uint16_t>(v, at));
    case kAclBf16: {
      const uint32_t bits = static_cast<uint32_t>(Read<uint16_t>(v, at)) << 16;
      float f = 0;
      std::memcpy(&f, &bits, sizeof(f));
      return f;
    }
    default:
      return static_cast<double>(LoadWhole(v, at));
  }
}

int64_t LoadWhole(const View& v, int64_t at) {
  switch (v.dtype) {
    case kAclInt32:
      return Read<int32_t>(v, at);
    case kAclInt64:
      return Read<int64_t>(v, at);
    case kAclUint8:
      return Read<uint8_t>(v, at);
    case kAclBool:
      return Read<uint8_t>(v, at) != 0 ? 1 : 0;
    default:
      return Truncate<int64_t>(Load(v, at));
  }
}

void Store(const View& v, int64_t at, double value) {
  switch (v.dtype) {
    case kAclFloat:
      return Write(v, at, static_cast<float>(value));
    case kAclDouble:
      return Write(v, at, value);
    case kAclFloat16:
      return Write(v, at, ToHalf(static_cast<float>(value)));
    case kAclBf16:
      return Write(v, at, ToBrain(value));
    case kAclInt32:
      return Write(v, at, Truncate<int32_t>(value));
    case kAclInt64:
      return Write(v, at, Truncate<int64_t>(value));
    case kAclUint8:
      return Write(v, at, Truncate<uint8_t>(value));
    default:
      return Write(v, at, static_cast<uint8_t>(value != 0 ? 1 : 0));
  }
}

void StoreWhole(const View& v, int64_t at, int64_t value) {
  switch (v.dtype) {
    case kAclInt32:
      return Write(v, at, static_cast<int32_t>(value));
    case kAclInt64:
      return Write(v, at, value);
    case kAclUint8:
      return Write(v, at, static_cast<uint8_t>(value));
    case kAclBool:
      return Write(v, at, static_cast<uint8_t>(value != 0 ? 1 : 0));
    default:
      return Store(v, at, static_cast<double>(value));
  }
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
#define OC_EMULATOR_LAUNCH_(name, ...)                                                        \
  EMULATOR_EXPORT int32_t aclnn##name(void* workspace, uint64_t size, aclOpExecutor* executor, \
                                      void* stream) {                                          \
    return Launch(#name, workspace, size, executor, stream);                                   \
  }
OC_ASCEND_OPERATORS(OC_EMULATOR_LAUNCH_)
#undef OC_EMULATOR_LAUNCH_

}  // namespace ascend_emulator

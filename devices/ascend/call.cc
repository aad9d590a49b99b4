#include "openclaw/devices/ascend/call.h"

#include <algorithm>

namespace oc::ascend {
namespace {

// Of tensors' addresses.
constexpr uintptr_t kAlignment = 32;

uintptr_t Misaligned(const char* address) {
  return reinterpret_cast<uintptr_t>(address) % kAlignment;
}

}  // namespace

int32_t AclType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return kAclFloat;
    case DType::kF16:
      return kAclFloat16;
    case DType::kBF16:
      return kAclBf16;
    case DType::kF64:
      return kAclDouble;
    case DType::kI32:
      return kAclInt32;
    case DType::kI64:
      return kAclInt64;
    case DType::kU8:
      return kAclUint8;
    case DType::kBool:
      return kAclBool;
  }
  return -1;
}

StatusOr<std::unique_ptr<ReadyCall>> ReadyCall::Create(const Api& api, const CallStep& step,
                                                       const std::string& where) {
  if (api.sizes[static_cast<int>(step.op)] == nullptr) {
    return Unimplemented("this CANN has no ", NameOf(step.op), " (", where, ")");
  }
  std::unique_ptr<ReadyCall> call(new ReadyCall(api, step, where));
  OC_RETURN_IF_ERROR(call->MakeArguments());
  OC_ASSIGN_OR_RETURN(call->tensors_, call->MakeTensors({}));
  OC_ASSIGN_OR_RETURN(const Phase phase, call->Begin(call->tensors_));
  call->workspace_bytes_ = static_cast<int64_t>(phase.size);
  if (api.aclSetAclOpExecutorRepeatable(phase.executor) == kAclSuccess) {
    call->executor_ = phase.executor;
  } else {
    api.aclDestroyAclOpExecutor(phase.executor);
  }
  return call;
}

ReadyCall::~ReadyCall() {
  if (executor_ != nullptr) api_.aclDestroyAclOpExecutor(executor_);
  Destroy(tensors_);
  for (size_t i = 0; i < values_.size(); ++i) {
    void* object = values_[i].object;
    if (object == nullptr) continue;
    const Arg& arg = step_.args[i];
    if (std::holds_alternative<Ints>(arg)) {
      api_.aclDestroyIntArray(static_cast<aclIntArray*>(object));
    } else if (std::holds_alternative<Bools>(arg)) {
      api_.aclDestroyBoolArray(static_cast<aclBoolArray*>(object));
    } else {
      api_.aclDestroyScalar(static_cast<aclScalar*>(object));
    }
  }
}

Status ReadyCall::MakeArguments() {
  size_t tensors = 0;
  for (size_t i = 0; i < step_.args.size(); ++i) {
    const Arg& arg = step_.args[i];
    Value v;
    bool is_object = false;
    if (const auto* view = std::get_if<View>(&arg)) {
      constexpr size_t kMostDims = 8;
      if (view->dims.size() > kMostDims) {
        return Unimplemented("operators take tensors of at most ", kMostDims, " dimensions, not ",
                             view->dims.size(), " (", where_, ")");
      }
      places_.push_back(view->place);
      tensor_args_.push_back(i);
      tensor_index_.push_back(tensors++);
    } else if (std::holds_alternative<NoTensor>(arg)) {
      ++tensors;
    } else if (const auto* number = std::get_if<Number>(&arg)) {
      // Floats are what the operators of floats expect of a scalar.
      auto value = static_cast<float>(number->value);
      v.object = api_.aclCreateScalar(&value, kAclFloat);
      is_object = true;
    } else if (const auto* whole = std::get_if<oc::ascend::Whole>(&arg)) {
      int64_t value = whole->value;
      v.object = api_.aclCreateScalar(&value, kAclInt64);
      is_object = true;
    } else if (const auto* ints = std::get_if<Ints>(&arg)) {
      v.object = api_.aclCreateIntArray(ints->values.data(), ints->values.size());
      is_object = true;
    } else if (const auto* bools = std::get_if<Bools>(&arg)) {
      bool raw[8] = {};
      std::copy_n(bools->values.begin(), std::min<size_t>(bools->values.size(), 8), raw);
      v.object = api_.aclCreateBoolArray(raw, bools->values.size());
      is_object = true;
    } else if (const auto* integer = std::get_if<Int>(&arg)) {
      v.integer = integer->value;
    } else if (const auto* flag = std::get_if<Flag>(&arg)) {
      v.integer = flag->value ? 1 : 0;
    } else if (const auto* real = std::get_if<Real>(&arg)) {
      v.real = real->value;
    } else if (const auto* dtype = std::get_if<DType>(&arg)) {
      v.integer = AclType(*dtype);
    } else if (const auto* text = std::get_if<Text>(&arg)) {
      v.text = text->value.c_str();
    }
    values_.push_back(v);
    if (is_object && v.object == nullptr) {
      return Internal(NameOf(step_.op), ": argument ", i, " was refused (", where_, ")");
    }
  }
  return OkStatus();
}

// A place's address that is not aligned becomes one that is, and the view begins later.
StatusOr<std::vector<aclTensor*>> ReadyCall::MakeTensors(std::span<char* const> addresses) const {
  std::vector<aclTensor*> tensors;
  for (size_t i = 0; i < tensor_args_.size(); ++i) {
    const View& view = std::get<View>(step_.args[tensor_args_[i]]);
    char* address = addresses.empty() ? nullptr : addresses[i];
    const int64_t rest = static_cast<int64_t>(Misaligned(address)), size = SizeInBytes(view.dtype);
    if (rest % size != 0) {
      Destroy(tensors);
      return InvalidArgument(NameOf(step_.op), ": an address that is no multiple of ", size,
                             " bytes (", where_, ")");
    }
    const int64_t offset = view.offset + rest / size;
    int64_t reach = offset + 1;
    for (size_t d = 0; d < view.dims.size(); ++d) reach += (view.dims[d] - 1) * view.strides[d];
    aclTensor* tensor =
        api_.aclCreateTensor(view.dims.data(), view.dims.size(), AclType(view.dtype),
                             view.strides.data(), offset, kAclFormatNd, &reach, 1, address - rest);
    if (tensor == nullptr) {
      Destroy(tensors);
      return Internal("aclCreateTensor for ", NameOf(step_.op), " was refused (", where_, ")");
    }
    tensors.push_back(tensor);
  }
  return tensors;
}

void ReadyCall::Destroy(const std::vector<aclTensor*>& tensors) const {
  for (aclTensor* t : tensors) api_.aclDestroyTensor(t);
}

template <typename T>
T ReadyCall::Get(const Value& value) {
  if constexpr (std::is_same_v<T, char*>) {
    return const_cast<char*>(value.text);  // the prototype lacks a const
  } else if constexpr (std::is_pointer_v<T>) {
    return static_cast<T>(value.object);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value.real);
  } else {
    return static_cast<T>(value.integer);
  }
}

template <size_t... I, typename... A>
int32_t ReadyCall::Invoke(int32_t (*f)(A...), const std::vector<Value>& values, Phase* phase,
                          std::index_sequence<I...>) {
  using Types = std::tuple<A...>;
  return f(Get<std::tuple_element_t<I, Types>>(values[I])..., &phase->size, &phase->executor);
}

namespace {

template <typename R, typename... A>
constexpr size_t CountOf(R (*)(A...)) {
  return sizeof...(A);
}

}  // namespace

int32_t ReadyCall::Dispatch(const std::vector<Value>& values, Phase* phase) const {
  void* const function = api_.sizes[static_cast<int>(step_.op)];
  switch (step_.op) {
#define OC_ASCEND_CASE_(name, ...)                                                    \
  case Operator::k##name: {                                                           \
    auto* f = reinterpret_cast<SizeFunction_##name*>(function);                       \
    constexpr size_t kArgs = CountOf(static_cast<SizeFunction_##name*>(nullptr)) - 2; \
    OC_CHECK(values.size() == kArgs, #name);                                          \
    return Invoke(f, values, phase, std::make_index_sequence<kArgs>());               \
  }
    OC_ASCEND_OPERATORS(OC_ASCEND_CASE_)
#undef OC_ASCEND_CASE_
    case Operator::kCount:
      break;
  }
  return kAclnnInner;
}

StatusOr<ReadyCall::Phase> ReadyCall::Begin(const std::vector<aclTensor*>& tensors) {
  std::vector<Value> values = values_;
  for (size_t i = 0; i < tensors.size(); ++i) values[tensor_args_[i]].object = tensors[i];
  Phase phase;
  const std::string name = absl::StrCat(NameOf(step_.op), "GetWorkspaceSize");
  OC_RETURN_IF_ERROR(api_.ToStatus(Dispatch(values, &phase), name.c_str(), where_));
  return phase;
}

Status ReadyCall::Launch(std::span<char* const> addresses, void* workspace, void* stream) {
  const bool aligned = std::all_of(addresses.begin(), addresses.end(),
                                   [](const char* a) { return Misaligned(a) == 0; });
  if (executor_ == nullptr || !aligned) return LaunchOnce(addresses, workspace, stream);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    OC_RETURN_IF_ERROR(
        api_.ToStatus(api_.aclSetTensorAddr(executor_, tensor_index_[i], tensors_[i], addresses[i]),
                      "aclSetTensorAddr", where_));
  }
  return api_.ToStatus(api_.launches[static_cast<int>(step_.op)](
                           workspace, static_cast<uint64_t>(workspace_bytes_), executor_, stream),
                       NameOf(step_.op), where_);
}

Status ReadyCall::LaunchOnce(std::span<char* const> addresses, void* workspace, void* stream) {
  OC_ASSIGN_OR_RETURN(const std::vector<aclTensor*> tensors, MakeTensors(addresses));
  const auto phase = Begin(tensors);
  Status status = phase.status();
  if (status.ok() && phase->size > static_cast<uint64_t>(workspace_bytes_)) {
    status = Internal(NameOf(step_.op), " wants ", phase->size, " bytes of workspace, it said ",
                      workspace_bytes_, " (", where_, ")");
    api_.aclDestroyAclOpExecutor(phase->executor);
  } else if (status.ok()) {
    status = api_.ToStatus(
        api_.launches[static_cast<int>(step_.op)](workspace, phase->size, phase->executor, stream),
        NameOf(step_.op), where_);
  }
  Destroy(tensors);
  return status;
}

}  // namespace oc::ascend

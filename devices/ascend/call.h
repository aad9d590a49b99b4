// One call of an operator, made ready: its scalars and arrays, and where the toolkit allows it an
// executor that is launched again and again. Else (an address that is not aligned, an operator that
// cannot be repeated) each launch makes tensors and an executor of its own.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "openclaw/devices/ascend/plan.h"

namespace oc::ascend {

int32_t AclType(DType dtype);

// Not thread-safe. The calling thread uses the device that the call is for.
class ReadyCall {
 public:
  // kUnimplemented where the toolkit lacks the operator, or the operator refuses its arguments.
  static StatusOr<std::unique_ptr<ReadyCall>> Create(const Api& api, const CallStep& step,
                                                     const std::string& where);
  ~ReadyCall();
  ReadyCall(const ReadyCall&) = delete;

  int64_t workspace_bytes() const { return workspace_bytes_; }
  // Where each view's place begins, for Launch.
  const std::vector<Place>& places() const { return places_; }
  // `addresses`: of each place, in order; `workspace`: workspace_bytes().
  Status Launch(std::span<char* const> addresses, void* workspace, void* stream);

 private:
  // An argument as the toolkit takes it: an object of it, or a plain value.
  struct Value {
    void* object = nullptr;
    int64_t integer = 0;
    double real = 0;
    const char* text = nullptr;
  };
  struct Phase {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
  };

  ReadyCall(const Api& api, const CallStep& step, std::string where)
      : api_(api), step_(step), where_(std::move(where)) {}
  Status MakeArguments();
  // Tensors of the views, at these addresses (none: without addresses).
  StatusOr<std::vector<aclTensor*>> MakeTensors(std::span<char* const> addresses) const;
  void Destroy(const std::vector<aclTensor*>& tensors) const;
  // The operator's first phase.
  StatusOr<Phase> Begin(const std::vector<aclTensor*>& tensors);
  Status LaunchOnce(std::span<char* const> addresses, void* workspace, void* stream);

  template <typename T>
  static T Get(const Value& value);
  template <size_t... I, typename... A>
  static int32_t Invoke(int32_t (*f)(A...), const std::vector<Value>& values, Phase* phase,
                        std::index_sequence<I...>);
  int32_t Dispatch(const std::vector<Value>& values, Phase* phase) const;

  const Api& api_;
  const CallStep step_;
  const std::string where_;
  std::vector<Place> places_;
  std::vector<size_t> tensor_args_;   // which arguments are tensors; index: of all tensor arguments
  std::vector<size_t> tensor_index_;  // of each view, among all tensors, absent ones too
  std::vector<Value> values_;
  std::vector<aclTensor*> tensors_;    // of the executor that is repeated
  aclOpExecutor* executor_ = nullptr;  // null: each launch makes its own
  int64_t workspace_bytes_ = 0;
};

}  // namespace oc::ascend

// OpenCL's headers, its handles with owners, and its codes as a Status: the one place where the
// leaf turns one into the other.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>
#include <utility>

#include "openclaw/core/status.h"

namespace oc::opencl {

// "CL_OUT_OF_RESOURCES"; "CL code -9999" where unknown.
std::string ErrorName(cl_int code);

// "CALL: NAME (where)". Memory is kResourceExhausted, a lost device kUnavailable, all else
// kInternal.
Status ToStatus(cl_int code, const char* call, const std::string& where);

// Owns one reference.
template <typename T, cl_int (*release)(T)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T value) : value_(value) {}
  Handle(Handle&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Handle() {
    if (value_ != nullptr) release(value_);
  }
  T get() const { return value_; }

 private:
  T value_ = nullptr;
};

// OpenCL's functions have attributes that a template parameter cannot carry.
template <auto function, typename T>
cl_int Released(T value) {
  return function(value);
}
using ClContext = Handle<cl_context, Released<clReleaseContext, cl_context>>;
using ClQueue = Handle<cl_command_queue, Released<clReleaseCommandQueue, cl_command_queue>>;
using ClMemory = Handle<cl_mem, Released<clReleaseMemObject, cl_mem>>;
using ClProgram = Handle<cl_program, Released<clReleaseProgram, cl_program>>;
using ClKernel = Handle<cl_kernel, Released<clReleaseKernel, cl_kernel>>;
using ClEvent = Handle<cl_event, Released<clReleaseEvent, cl_event>>;
// Of root devices a no-op.
using ClDevice = Handle<cl_device_id, Released<clReleaseDevice, cl_device_id>>;

}  // namespace oc::opencl

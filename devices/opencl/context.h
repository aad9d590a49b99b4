// What all slices of the same compute units of a device share: the context, and the programs that
// were compiled in it.
//
// A context is made once and kept for the life of the process. One a slice was not only more to
// compile: CLBlast keeps the programs of every context that it has seen, and with them the context,
// until its whole cache is cleared, under the slices that still compute. So contexts piled up with
// every pipeline of a process, until the driver refused another (NVIDIA's after some ninety). There
// are at most as many as there are sets of compute units in use: one where a device is not divided.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "openclaw/devices/opencl/cl.h"
#include "openclaw/devices/opencl/plan.h"

namespace oc::opencl {

// Thread-safety: all methods.
class OpenClContext {
 public:
  // `where` names it in messages: "opencl/MODEL/2u".
  static StatusOr<std::shared_ptr<const OpenClContext>> Create(ClDevice device, std::string where);

  cl_context get() const { return context_.get(); }
  cl_device_id device() const { return device_.get(); }
  // A kernel of its own, from a program that is compiled once for each set of definitions.
  StatusOr<ClKernel> MakeKernel(const KernelStep& step) const;

 private:
  OpenClContext(ClDevice device, std::string where)
      : device_(std::move(device)), where_(std::move(where)) {}
  StatusOr<ClProgram> Compile(const std::string& text, const std::string& file) const;

  const ClDevice device_;  // a sub-device, or the device itself
  const std::string where_;
  ClContext context_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, ClProgram> programs_;  // by text
};

}  // namespace oc::opencl

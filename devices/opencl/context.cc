#include "openclaw/devices/opencl/context.h"

#include "openclaw/devices/opencl/sources.h"

namespace oc::opencl {

StatusOr<std::shared_ptr<const OpenClContext>> OpenClContext::Create(ClDevice device,
                                                                     std::string where) {
  std::shared_ptr<OpenClContext> made(new OpenClContext(std::move(device), std::move(where)));
  const cl_device_id id = made->device();
  cl_int code = CL_SUCCESS;
  made->context_ = ClContext(clCreateContext(nullptr, 1, &id, nullptr, nullptr, &code));
  OC_RETURN_IF_ERROR(ToStatus(code, "clCreateContext", made->where_));
  return std::shared_ptr<const OpenClContext>(std::move(made));
}

StatusOr<ClProgram> OpenClContext::Compile(const std::string& text, const std::string& file) const {
  const std::string what = absl::StrCat("program ", file, " on ", where_);
  const char* data = text.c_str();
  const size_t size = text.size();
  cl_int code = CL_SUCCESS;
  ClProgram program(clCreateProgramWithSource(get(), 1, &data, &size, &code));
  OC_RETURN_IF_ERROR(ToStatus(code, "clCreateProgramWithSource", what));
  const cl_device_id id = device();
  code = clBuildProgram(program.get(), 1, &id, "-cl-std=CL1.2", nullptr, nullptr);
  if (code == CL_SUCCESS) return program;
  size_t length = 0;
  clGetProgramBuildInfo(program.get(), id, CL_PROGRAM_BUILD_LOG, 0, nullptr, &length);
  std::string log(length, '\0');
  clGetProgramBuildInfo(program.get(), id, CL_PROGRAM_BUILD_LOG, length, log.data(), nullptr);
  constexpr size_t kMostOfLog = 600;
  return ToStatus(code, "clBuildProgram",
                  absl::StrCat(what, "; the compiler says: ", log.substr(0, kMostOfLog)));
}

StatusOr<ClKernel> OpenClContext::MakeKernel(const KernelStep& step) const {
  OC_ASSIGN_OR_RETURN(const std::string source, SourceOf(step.file()));
  const std::string text = step.defines() + source;
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = programs_.find(text);
  if (found == programs_.end()) {
    OC_ASSIGN_OR_RETURN(ClProgram program, Compile(text, step.file()));
    found = programs_.emplace(text, std::move(program)).first;
  }
  cl_int code = CL_SUCCESS;
  ClKernel kernel(clCreateKernel(found->second.get(), step.kernel().c_str(), &code));
  OC_RETURN_IF_ERROR(
      ToStatus(code, "clCreateKernel", absl::StrCat(step.kernel(), " of ", step.file())));
  return kernel;
}

}  // namespace oc::opencl

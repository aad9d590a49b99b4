#include "openclaw/devices/opencl/op.h"

#include <clblast_c.h>

#include <algorithm>

#include "openclaw/devices/opencl/slice.h"

namespace oc::opencl {
namespace {

// Memory of one argument.
struct Place {
  cl_mem memory = nullptr;
  cl_long offset = 0;
};

Place Locate(const BufferRange& range, int64_t offset) {
  if (range.buffer == nullptr) return {};
  return {static_cast<OpenClBuffer*>(range.buffer)->get(), range.offset + offset};
}

Place PlaceOf(const Operand& operand, const OpenClOp::Call& call) {
  switch (operand.kind) {
    case Operand::kInput:
      return Locate(call.inputs[static_cast<size_t>(operand.index)], operand.offset);
    case Operand::kOutput:
      return Locate(call.outputs[static_cast<size_t>(operand.index)], operand.offset);
    case Operand::kWorkspace:
      return Locate(call.workspace, operand.offset);
    case Operand::kFlags:
      return {call.queue.flags(), 0};
    case Operand::kNone:
      break;
  }
  return {};
}

// CLBlast's codes beyond OpenCL's own.
Status ProductStatus(CLBlastStatusCode code, const std::string& where) {
  if (code == CLBlastSuccess) return OkStatus();
  if (code <= -1000) return Internal("CLBlastSgemm: CLBlast's code ", code, " (", where, ")");
  return ToStatus(static_cast<cl_int>(code), "CLBlastSgemm", where);
}

CLBlastTranspose TransposeOf(bool transpose) {
  return transpose ? CLBlastTransposeYes : CLBlastTransposeNo;
}

}  // namespace

OpenClOp::OpenClOp(const OpenClSlice& slice, const OpRequest& request, OpPlan plan)
    : slice_(slice),
      where_(absl::StrCat("op ", ToString(request), " on ", slice.where())),
      plan_(std::move(plan)),
      workspace_bytes_(plan_.workspace_bytes()) {
  if (plan_.check_what().empty()) return;
  check_ = std::make_shared<const DataCheck>(
      DataCheck{slice.NextCheckCode(), request.def->name, plan_.check_what(), plan_.check_range()});
}

StatusOr<std::unique_ptr<PreparedOp>> OpenClOp::Create(const OpenClSlice& slice,
                                                       const OpRequest& request, OpPlan plan) {
  std::unique_ptr<OpenClOp> op(new OpenClOp(slice, request, std::move(plan)));
  for (const OpPlan::Step& step : op->plan_.steps()) {
    op->kernels_.emplace_back();
    if (const auto* kernel = std::get_if<KernelStep>(&step)) {
      if (kernel->groups() == 0) continue;
      auto made = slice.MakeKernel(*kernel);
      OC_RETURN_IF_ERROR(Annotate(made.status(), absl::StrCat("prepare ", op->where_)));
      op->kernels_.back() = std::move(made).value();
    } else {
      OC_RETURN_IF_ERROR(op->SizeScratch(std::get<ProductStep>(step)));
    }
  }
  if (op->scratch_bytes_ > 0) {
    // A sub-buffer begins where the device wants it to.
    op->workspace_bytes_ += op->scratch_bytes_ + slice.scratch_align();
  }
  return std::unique_ptr<PreparedOp>(std::move(op));
}

Status OpenClOp::SizeScratch(const ProductStep& p) {
  cl_command_queue queue = slice_.setup_queue();
  size_t bytes = 0;
  // With offsets that are not zero, so that no shortcut is taken that needs aligned ones.
  OC_RETURN_IF_ERROR(
      ProductStatus(CLBlastSGemmTempBufferSize(CLBlastLayoutRowMajor, TransposeOf(p.transpose_a),
                                               TransposeOf(p.transpose_b), p.m, p.n, p.k, 1, p.lda,
                                               1, p.ldb, 1, p.ldc, &queue, &bytes),
                    where_));
  scratch_bytes_ = std::max(scratch_bytes_, static_cast<int64_t>(bytes));
  return OkStatus();
}

Status OpenClOp::SetArgs(const KernelStep& step, cl_kernel kernel, const Call& call) const {
  cl_uint next = 0;
  cl_int code = CL_SUCCESS;
  const auto set = [&](size_t size, const void* value) {
    const cl_int result = clSetKernelArg(kernel, next++, size, value);
    if (code == CL_SUCCESS) code = result;
  };
  for (const KernelStep::Arg& arg : step.args()) {
    if (const auto* operand = std::get_if<Operand>(&arg)) {
      const Place place = PlaceOf(*operand, call);
      set(sizeof(cl_mem), &place.memory);
      if (operand->kind == Operand::kFlags) {
        set(sizeof(cl_int), &check_->code);
      } else {
        set(sizeof(cl_long), &place.offset);
      }
    } else if (const auto* scalar = std::get_if<Scalar>(&arg)) {
      set(scalar->size, scalar->bytes);
    } else {
      set(std::get<Local>(arg).bytes, nullptr);
    }
  }
  return ToStatus(code, "clSetKernelArg", absl::StrCat("kernel ", step.kernel(), ", ", where_));
}

Status OpenClOp::RunKernel(const KernelStep& step, cl_kernel kernel, const Call& call) const {
  if (step.groups() == 0) return OkStatus();
  OC_RETURN_IF_ERROR(SetArgs(step, kernel, call));
  const auto width = static_cast<size_t>(step.width());
  const size_t items = static_cast<size_t>(step.groups()) * width;
  return ToStatus(clEnqueueNDRangeKernel(call.queue.get(), kernel, 1, nullptr, &items, &width, 0,
                                         nullptr, nullptr),
                  "clEnqueueNDRangeKernel", absl::StrCat("kernel ", step.kernel(), ", ", where_));
}

Status OpenClOp::RunProduct(const ProductStep& p, const Call& call) const {
  const Place a = PlaceOf(p.a, call), b = PlaceOf(p.b, call), c = PlaceOf(p.c, call);
  ClMemory scratch;
  if (scratch_bytes_ > 0) {
    const Place work = Locate(call.workspace, plan_.workspace_bytes());
    const int64_t align = slice_.scratch_align();
    const cl_buffer_region region = {static_cast<size_t>((work.offset + align - 1) / align * align),
                                     static_cast<size_t>(scratch_bytes_)};
    cl_int code = CL_SUCCESS;
    scratch = ClMemory(clCreateSubBuffer(work.memory, CL_MEM_READ_WRITE,
                                         CL_BUFFER_CREATE_TYPE_REGION, &region, &code));
    OC_RETURN_IF_ERROR(ToStatus(code, "clCreateSubBuffer", where_));
  }
  cl_command_queue queue = call.queue.get();
  constexpr int64_t kSize = sizeof(float);
  return ProductStatus(
      CLBlastSgemmWithTempBuffer(CLBlastLayoutRowMajor, TransposeOf(p.transpose_a),
                                 TransposeOf(p.transpose_b), p.m, p.n, p.k, 1.0f, a.memory,
                                 a.offset / kSize, p.lda, b.memory, b.offset / kSize, p.ldb, p.beta,
                                 c.memory, c.offset / kSize, p.ldc, &queue, nullptr, scratch.get()),
      where_);
}

Status OpenClOp::Run(const Call& call) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = 0; i < plan_.steps().size(); ++i) {
    const OpPlan::Step& step = plan_.steps()[i];
    if (const auto* kernel = std::get_if<KernelStep>(&step)) {
      OC_RETURN_IF_ERROR(RunKernel(*kernel, kernels_[i].get(), call));
    } else {
      OC_RETURN_IF_ERROR(RunProduct(std::get<ProductStep>(step), call));
    }
  }
  return OkStatus();
}

}  // namespace oc::opencl

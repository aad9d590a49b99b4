#include "openclaw/devices/cuda/slice.h"

#include <algorithm>
#include <cstring>

#include "openclaw/devices/cuda/op.h"

namespace oc::cuda {
namespace {

// What ops compute with. Elements of others are moved and cast.
constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kI32,
                             DType::kI64, DType::kU8,   DType::kBool};

class PinnedMemory : public HostMemory {
 public:
  PinnedMemory(void* data, size_t bytes) : data_(static_cast<std::byte*>(data)), bytes_(bytes) {}
  ~PinnedMemory() override { cudaFreeHost(data_); }
  std::span<std::byte> bytes() override { return {data_, bytes_}; }

 private:
  std::byte* data_;
  size_t bytes_;
};

}  // namespace

CudaSlice::CudaSlice(SliceParts parts)
    : parts_(std::move(parts)), events_(std::make_shared<EventPool>(parts_.traits.ordinal)) {}

StatusOr<std::unique_ptr<Slice>> CudaSlice::Create(SliceParts parts) {
  std::unique_ptr<CudaSlice> slice(new CudaSlice(std::move(parts)));
  OC_RETURN_IF_ERROR(slice->Use());
  OC_ASSIGN_OR_RETURN(slice->setup_, slice->CreateStream(slice->where()));
  return std::unique_ptr<Slice>(std::move(slice));
}

CudaSlice::~CudaSlice() {
  if (setup_ != nullptr && Use().ok()) cudaStreamDestroy(setup_);
}

std::vector<DType> CudaSlice::dtypes() const { return {std::begin(kDTypes), std::end(kDTypes)}; }

StatusOr<cudaStream_t> CudaSlice::CreateStream(const std::string& where) const {
  if (parts_.share != nullptr) return parts_.share->CreateStream(where);
  cudaStream_t stream = nullptr;
  OC_RETURN_IF_ERROR(ToStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                              "cudaStreamCreate", where));
  return stream;
}

StatusOr<std::unique_ptr<Buffer>> CudaSlice::Allocate(int64_t bytes) {
  const std::string what = absl::StrCat("allocate ", bytes, " bytes on ", where());
  if (bytes < 0) return InvalidArgument(what);
  OC_RETURN_IF_ERROR(Use());
  const int64_t before = used_->fetch_add(bytes);
  const auto refuse = [&](Status status) {
    used_->fetch_sub(bytes);
    return status;
  };
  if (parts_.memory_bytes > 0 && before + bytes > parts_.memory_bytes) {
    return refuse(ResourceExhausted(what, ": the budget is ", parts_.memory_bytes, ", of which ",
                                    before, " are taken"));
  }
  char* data = nullptr;
  if (bytes > 0) {
    const auto size = static_cast<size_t>(bytes);
    cudaError_t code = cudaMalloc(reinterpret_cast<void**>(&data), size);
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      return refuse(ResourceExhausted(
          what, ": the device has ", free, " of ", total, " bytes left, this slice holds ", before,
          "; take a smaller micro-batch, or see in nvidia-smi who else has memory there"));
    }
    if (code != cudaSuccess) return refuse(ToStatus(code, "cudaMalloc", what));
    std::lock_guard<std::mutex> lock(setup_mutex_);
    code = cudaMemsetAsync(data, 0, size, setup_);
    if (code == cudaSuccess) code = cudaStreamSynchronize(setup_);
    if (code != cudaSuccess) {
      cudaFree(data);
      return refuse(ToStatus(code, "cudaMemsetAsync", what));
    }
  }
  return std::unique_ptr<Buffer>(
      std::make_unique<CudaBuffer>(parts_.traits.ordinal, data, bytes, used_));
}

StatusOr<std::unique_ptr<Queue>> CudaSlice::CreateQueue(const std::string& name) {
  return CudaQueue::Create(*this, name);
}

StatusOr<std::unique_ptr<Event>> CudaSlice::CreateEvent() {
  return std::unique_ptr<Event>(std::make_unique<CudaEvent>());
}

StatusOr<std::unique_ptr<HostMemory>> CudaSlice::AllocateHost(int64_t bytes) {
  const std::string what =
      absl::StrCat("allocate ", bytes, " bytes of pinned memory for ", where());
  if (bytes < 0) return InvalidArgument(what);
  OC_RETURN_IF_ERROR(Use());
  void* data = nullptr;
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  OC_RETURN_IF_ERROR(
      ToStatus(cudaHostAlloc(&data, size, cudaHostAllocPortable), "cudaHostAlloc", what));
  std::memset(data, 0, size);
  return std::unique_ptr<HostMemory>(
      std::make_unique<PinnedMemory>(data, static_cast<size_t>(bytes)));
}

int64_t CudaSlice::HighWater(const Buffer& buffer) const {
  return static_cast<const CudaBuffer&>(buffer).high_water();
}

StatusOr<std::shared_ptr<Dnn>> CudaSlice::dnn() const {
  std::lock_guard<std::mutex> lock(dnn_mutex_);
  if (!dnn_) dnn_ = Dnn::Create(parts_.traits.ordinal, where());
  return *dnn_;
}

int32_t CudaSlice::NextCheckCode() const {
  static std::atomic<int32_t> next{1};
  return next.fetch_add(1);
}

StatusOr<OpPlan> CudaSlice::Plan(const OpRequest& request) const {
  const std::string what = absl::StrCat("op ", ToString(request), " on ", where());
  const auto entry = Plans().find(request.def->name);
  if (entry == Plans().end()) return Unimplemented(what, ": no kernel of that name");
  if ((request.accumulate & ~entry->second.accumulable) != 0) {
    return Unimplemented(what, ": the kernel does not add to its output");
  }
  if (WantsSumType(request) && !entry->second.sum_type) {
    return Unimplemented(what, ": the kernel's sums have the type of its operands");
  }
  OpPlan plan(request);
  OC_RETURN_IF_ERROR(Annotate(entry->second.plan(request, parts_.traits, plan), what));
  return plan;
}

StatusOr<std::unique_ptr<PreparedOp>> CudaSlice::Prepare(const OpRequest& request) {
  OC_ASSIGN_OR_RETURN(OpPlan plan, Plan(request));
  return CudaOp::Create(*this, request, std::move(plan));
}

StatusOr<OpSupport> CudaSlice::Support(const OpRequest& request) {
  const auto plan = Plan(request);
  if (plan.ok()) return OpSupport{.supported = true};
  if (!absl::IsUnimplemented(plan.status())) return plan.status();
  return OpSupport{.reason = std::string(plan.status().message())};
}

}  // namespace oc::cuda

#include "openclaw/devices/cuda/queue.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "openclaw/devices/cuda/kernels/condition.h"
#include "openclaw/devices/cuda/op.h"
#include "openclaw/devices/cuda/slice.h"

namespace oc::cuda {
namespace {

CudaBuffer* BufferOf(const BufferRange& range) { return static_cast<CudaBuffer*>(range.buffer); }

void Touch(const BufferRange& range) {
  if (range.buffer != nullptr) BufferOf(range)->Touch(range.offset + range.bytes);
}

}  // namespace

char* AddressOf(const BufferRange& range) {
  return range.buffer == nullptr ? nullptr : BufferOf(range)->data() + range.offset;
}

// Waits until the device has done what uses the memory.
CudaBuffer::~CudaBuffer() {
  if (data_ != nullptr) {
    cudaSetDevice(ordinal_);
    cudaFree(data_);
  }
  used_->fetch_sub(bytes_);
}

StatusOr<std::shared_ptr<DataFlags>> DataFlags::Create(
    int ordinal, const std::shared_ptr<Spares<DataFlags>>& spares, const std::string& where) {
  std::unique_ptr<DataFlags> flags = spares->Take();
  if (flags == nullptr) {
    OC_ASSIGN_OR_RETURN(flags, Make(ordinal, where));
  }
  // What has reported is not used again.
  return std::shared_ptr<DataFlags>(flags.release(), [spares](DataFlags* used) {
    std::unique_ptr<DataFlags> spare(used);
    if (!spare->status("").ok()) return;
    spare->checks_.clear();
    spares->Give(std::move(spare));
  });
}

StatusOr<std::unique_ptr<DataFlags>> DataFlags::Make(int ordinal, const std::string& where) {
  std::unique_ptr<DataFlags> made(new DataFlags(ordinal));
  OC_RETURN_IF_ERROR(ToStatus(cudaMalloc(reinterpret_cast<void**>(&made->claim_), sizeof(int32_t)),
                              "cudaMalloc", where));
  OC_RETURN_IF_ERROR(ToStatus(cudaMemset(made->claim_, 0, sizeof(int32_t)), "cudaMemset", where));
  OC_RETURN_IF_ERROR(
      ToStatus(cudaHostAlloc(reinterpret_cast<void**>(&made->report_), sizeof(kernels::Report),
                             cudaHostAllocMapped | cudaHostAllocPortable),
               "cudaHostAlloc", where));
  std::memset(static_cast<void*>(made->report_), 0, sizeof(kernels::Report));
  OC_RETURN_IF_ERROR(ToStatus(
      cudaHostGetDevicePointer(reinterpret_cast<void**>(&made->device_report_), made->report_, 0),
      "cudaHostGetDevicePointer", where));
  return made;
}

DataFlags::~DataFlags() {
  cudaSetDevice(ordinal_);
  if (claim_ != nullptr) cudaFree(claim_);
  if (report_ != nullptr) cudaFreeHost(report_);
}

void DataFlags::Know(const std::shared_ptr<const DataCheck>& check) {
  std::lock_guard<std::mutex> lock(mutex_);
  checks_.emplace(check->code, check);
}

Status DataFlags::status(const std::string& where) const {
  const int32_t code = *static_cast<volatile int32_t*>(&report_->code);
  if (code == 0) return OkStatus();
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = checks_.find(code);
  if (found == checks_.end()) return Internal(where, ": an unknown report of bad data");
  const DataCheck& c = *found->second;
  return OutOfRange(c.what, " ", report_->value, " at position ", report_->position, " is outside ",
                    c.range, " (op ", c.op, ", ", where, ")");
}

EventPool::~EventPool() {
  for (cudaEvent_t event : free_) cudaEventDestroy(event);
}

StatusOr<cudaEvent_t> EventPool::Take(const std::string& where) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) {
      cudaEvent_t event = free_.back();
      free_.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  OC_RETURN_IF_ERROR(ToStatus(cudaEventCreate(&event), "cudaEventCreate", where));
  return event;
}

void EventPool::Give(cudaEvent_t event) {
  std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(event);
}

Point::~Point() {
  if (parts_.event == nullptr) return;
  // An event that belongs to a captured graph is not asked again.
  if (parts_.capture != 0) {
    cudaEventDestroy(parts_.event);
  } else {
    parts_.pool->Give(parts_.event);
  }
}

Status Point::Outcome(cudaError_t code, const std::vector<std::shared_ptr<Point>>& before) const {
  OC_RETURN_IF_ERROR(parts_.earlier);
  for (const auto& point : before) {
    // Its work is done, for that of this point waited for it.
    if (point->Ready()) OC_RETURN_IF_ERROR(point->status());
  }
  if (code != cudaSuccess) {
    return ToStatus(code, "run what was enqueued",
                    absl::StrCat(parts_.where, ", the last of it ", parts_.last));
  }
  for (const auto& flags : parts_.flags) OC_RETURN_IF_ERROR(flags->status(parts_.where));
  return OkStatus();
}

void Point::Resolve(cudaError_t code) const {
  std::vector<std::shared_ptr<Point>> before;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (done_) return;
    before = before_;
  }
  Status outcome = Outcome(code, before);
  std::lock_guard<std::mutex> lock(mutex_);
  if (done_) return;
  done_ = true;
  status_ = std::move(outcome);
  before_.clear();  // or every point would keep all that came before it
}

void Point::Fail(Status status) {
  std::lock_guard<std::mutex> lock(mutex_);
  done_ = true;
  status_ = std::move(status);
  before_.clear();
}

bool Point::Ready() const {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (done_) return true;
  }
  if (parts_.capture != 0) return false;
  cudaSetDevice(ordinal());  // or a thread that has none would make a context on the first
  const cudaError_t code = cudaEventQuery(parts_.event);
  if (code == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  Resolve(code);
  return true;
}

Status Point::status() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

// cudaEventSynchronize has no timeout. At first without a pause, as most waits are short.
Status Point::Wait(double timeout_seconds) const {
  constexpr auto kEager = std::chrono::microseconds(200), kPause = std::chrono::microseconds(20);
  if (parts_.capture != 0) {
    return FailedPrecondition("wait for an event of ", parts_.where,
                              ": it was captured, which nobody can wait for");
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto end = begin + std::chrono::duration<double>(timeout_seconds);
  while (!Ready()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return LateEvent(timeout_seconds, parts_.where);
    if (now - begin > kEager) std::this_thread::sleep_for(kPause);
  }
  return status();
}

CudaGraph::~CudaGraph() {
  cudaSetDevice(ordinal_);
  cudaGraphExecDestroy(exec_);
}

CudaQueue::CudaQueue(const CudaSlice& slice, std::string name)
    : slice_(slice), where_(absl::StrCat("queue ", name, " of ", slice.where())) {}

StatusOr<std::unique_ptr<Queue>> CudaQueue::Create(const CudaSlice& slice, std::string name) {
  OC_RETURN_IF_ERROR(slice.Use());
  std::unique_ptr<CudaQueue> queue(new CudaQueue(slice, std::move(name)));
  OC_ASSIGN_OR_RETURN(queue->stream_, slice.CreateStream(queue->where_));
  OC_ASSIGN_OR_RETURN(queue->flags_,
                      DataFlags::Create(slice.traits().ordinal, slice.flags(), queue->where_));
  return std::unique_ptr<Queue>(std::move(queue));
}

// Nothing enqueued may use memory that goes away afterwards.
CudaQueue::~CudaQueue() {
  if (stream_ == nullptr) return;
  (void)slice_.Use();
  if (outside_ != nullptr) (void)EndIf();
  if (capturing_) {
    cudaGraph_t dropped = nullptr;
    cudaStreamEndCapture(stream_, &dropped);
    if (dropped != nullptr) cudaGraphDestroy(dropped);
  }
  cudaStreamSynchronize(stream_);
  if (staging_ != nullptr) slice_.staging().Give(std::move(staging_));
  cudaStreamDestroy(stream_);
  if (body_ != nullptr) cudaStreamDestroy(body_);
  cudaGetLastError();
}

Status CudaQueue::Keep(Status status) {
  if (first_error_.ok()) first_error_ = status;
  return status;
}

Status CudaQueue::Enqueue(PreparedOp& op, std::span<const BufferRange> inputs,
                          std::span<const BufferRange> outputs, BufferRange workspace) {
  OC_RETURN_IF_ERROR(Keep(slice_.Use()));
  const auto& prepared = static_cast<const CudaOp&>(op);
  addresses_.clear();
  for (const BufferRange& r : inputs) addresses_.push_back(AddressOf(r));
  for (const BufferRange& r : outputs) {
    addresses_.push_back(AddressOf(r));
    Touch(r);
  }
  if (prepared.workspace_bytes() > 0) {
    if (workspace.bytes < prepared.workspace_bytes()) {
      return Keep(InvalidArgument("enqueue ", prepared.where(), ": a workspace of ",
                                  workspace.bytes, " bytes, ", prepared.workspace_bytes(),
                                  " are wanted"));
    }
    Touch({workspace.buffer, workspace.offset, prepared.workspace_bytes()});
  }
  const std::span<char* const> all(addresses_);
  Call call{.inputs = all.first(inputs.size()),
            .outputs = all.subspan(inputs.size()),
            .workspace = AddressOf(workspace),
            .stream = stream_};
  if (const auto& check = prepared.check(); check != nullptr) {
    call.flags = flags_->For(*check);
    flags_->Know(check);
    if (std::find(listened_.begin(), listened_.end(), flags_) == listened_.end()) {
      listened_.push_back(flags_);
    }
  }
  last_ = prepared.where();
  const Status status = prepared.Run(call);
  // That an op cannot be captured is no error of the queue.
  return capturing_ && absl::IsUnimplemented(status) ? status : Keep(status);
}

StatusOr<bool> CudaQueue::IsPinned(const void* memory) const {
  cudaPointerAttributes attributes{};
  OC_RETURN_IF_ERROR(
      ToStatus(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes", where_));
  return attributes.type != cudaMemoryTypeUnregistered;
}

Status CudaQueue::WantPinned(const char* what) const {
  if (CaptureId() == 0) return OkStatus();
  return Unimplemented(what, " in a capture of ", where_,
                       ": the memory of the host is not pinned, so that a replay could not "
                       "copy it");
}

Status CudaQueue::WantStaging() {
  if (staging_ == nullptr) staging_ = slice_.staging().Take();
  if (staging_ == nullptr) {
    OC_ASSIGN_OR_RETURN(staging_, Staging::Create(where_));
  }
  return OkStatus();
}

uint64_t CudaQueue::CaptureId() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  if (cudaStreamGetCaptureInfo(stream_, &status, &id) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return status == cudaStreamCaptureStatusActive ? static_cast<uint64_t>(id) : 0;
}

Status CudaQueue::CopyFromHost(BufferRange to, std::span<const std::byte> from) {
  if (from.empty()) return OkStatus();
  OC_RETURN_IF_ERROR(Keep(slice_.Use()));
  BufferOf(to)->Touch(to.offset + static_cast<int64_t>(from.size()));
  last_ = "a copy from the host";
  const auto pinned = IsPinned(from.data());
  OC_RETURN_IF_ERROR(Keep(pinned.status()));
  if (*pinned) {
    return Keep(ToStatus(
        cudaMemcpyAsync(AddressOf(to), from.data(), from.size(), cudaMemcpyHostToDevice, stream_),
        "cudaMemcpyAsync", where_));
  }
  OC_RETURN_IF_ERROR(WantPinned("a copy from the host"));
  OC_RETURN_IF_ERROR(Keep(WantStaging()));
  return Keep(staging_->FromHost(stream_, AddressOf(to), from, where_));
}

Status CudaQueue::CopyToHost(std::span<std::byte> to, BufferRange from) {
  if (to.empty()) return OkStatus();
  OC_RETURN_IF_ERROR(Keep(slice_.Use()));
  last_ = "a copy to the host";
  const auto pinned = IsPinned(to.data());
  OC_RETURN_IF_ERROR(Keep(pinned.status()));
  if (*pinned) {
    return Keep(ToStatus(
        cudaMemcpyAsync(to.data(), AddressOf(from), to.size(), cudaMemcpyDeviceToHost, stream_),
        "cudaMemcpyAsync", where_));
  }
  OC_RETURN_IF_ERROR(WantPinned("a copy to the host"));
  OC_RETURN_IF_ERROR(Keep(WantStaging()));
  return Keep(staging_->ToHost(stream_, to, AddressOf(from), where_));
}

// Where the devices have no direct way the driver stages the copy: no error.
Status CudaQueue::ReachPeer(int other) {
  int can = 0;
  OC_RETURN_IF_ERROR(ToStatus(cudaDeviceCanAccessPeer(&can, slice_.traits().ordinal, other),
                              "cudaDeviceCanAccessPeer", where_));
  if (can == 0) return OkStatus();
  const cudaError_t code = cudaDeviceEnablePeerAccess(other, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return OkStatus();
  }
  return ToStatus(code, "cudaDeviceEnablePeerAccess", where_);
}

Status CudaQueue::Copy(BufferRange to, BufferRange from) {
  if (from.bytes == 0) return OkStatus();
  OC_RETURN_IF_ERROR(Keep(slice_.Use()));
  Touch({to.buffer, to.offset, from.bytes});
  last_ = "a copy";
  const int own = slice_.traits().ordinal;
  for (const BufferRange& r : {to, from}) {
    if (BufferOf(r)->ordinal() != own) OC_RETURN_IF_ERROR(Keep(ReachPeer(BufferOf(r)->ordinal())));
  }
  // Addresses are of one space over all devices.
  return Keep(ToStatus(cudaMemcpyAsync(AddressOf(to), AddressOf(from),
                                       static_cast<size_t>(from.bytes), cudaMemcpyDefault, stream_),
                       "cudaMemcpyAsync", where_));
}

Status CudaQueue::Record(Event& event) {
  Status status = Keep(slice_.Use());
  Point::Parts parts{.where = where_, .last = last_, .flags = listened_, .pool = slice_.events()};
  parts.capture = CaptureId();
  if (last_point_ != nullptr) waited_.push_back(last_point_);
  for (auto& point : waited_) {
    if (point->capture() != 0) continue;
    if (!point->Ready()) {
      parts.before.push_back(point);
    } else {
      (void)Keep(point->status());
    }
  }
  waited_.clear();
  parts.earlier = first_error_;
  if (status.ok()) {
    auto made = slice_.events()->Take(where_);
    status = Keep(made.status());
    if (status.ok()) {
      parts.event = *made;
      status = Keep(ToStatus(cudaEventRecord(parts.event, stream_), "cudaEventRecord", where_));
    }
  }
  const auto point = std::make_shared<Point>(std::move(parts));
  if (!status.ok()) point->Fail(status);
  last_point_ = point->capture() == 0 ? point : nullptr;
  static_cast<CudaEvent&>(event).Set(point);
  return status;
}

Status CudaQueue::WaitFor(Event& event) {
  OC_RETURN_IF_ERROR(Keep(slice_.Use()));
  const auto point = static_cast<CudaEvent&>(event).point();
  if (point == nullptr) {
    return Keep(FailedPrecondition(where_, " is to wait for an event that was not recorded"));
  }
  if (point->Ready()) return Keep(point->status());
  if (point->capture() == 0 && CaptureId() != 0) {
    return Keep(FailedPrecondition(
        where_,
        " is to wait, in a capture, for an event that was recorded outside: wait for it "
        "before the capture begins"));
  }
  OC_RETURN_IF_ERROR(Keep(
      ToStatus(cudaStreamWaitEvent(stream_, point->event(), 0), "cudaStreamWaitEvent", where_)));
  waited_.push_back(point);
  return OkStatus();
}

Status CudaQueue::BeginCapture() {
  OC_RETURN_IF_ERROR(first_error_);
  OC_RETURN_IF_ERROR(Keep(slice_.Use()));
  // Relaxed: other threads, and libraries, may allocate meanwhile.
  OC_RETURN_IF_ERROR(Keep(ToStatus(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed),
                                   "cudaStreamBeginCapture", where_)));
  capturing_ = true;
  return OkStatus();
}

// A capture that something was refused in may be invalid: no error of the queue.
StatusOr<std::unique_ptr<CapturedWork>> CudaQueue::EndCapture() {
  OC_RETURN_IF_ERROR(Keep(slice_.Use()));
  const bool within = outside_ != nullptr;
  if (within) (void)EndIf();
  capturing_ = false;
  cudaGraph_t graph = nullptr;
  OC_RETURN_IF_ERROR(
      ToStatus(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture", where_));
  cudaGraphExec_t exec = nullptr;
  const cudaError_t code = within ? cudaSuccess : cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphDestroy(graph);
  if (within) return FailedPrecondition(where_, ": a capture ends within a condition");
  OC_RETURN_IF_ERROR(ToStatus(code, "cudaGraphInstantiate", where_));
  return std::unique_ptr<CapturedWork>(
      std::make_unique<CudaGraph>(exec, flags_, where_, slice_.traits().ordinal));
}

Status CudaQueue::Launch(CapturedWork& work) {
  const auto& graph = static_cast<const CudaGraph&>(work);
  OC_RETURN_IF_ERROR(Keep(slice_.Use()));
  if (std::find(listened_.begin(), listened_.end(), graph.flags()) == listened_.end()) {
    listened_.push_back(graph.flags());
  }
  last_ = "a captured graph";
  return Keep(ToStatus(cudaGraphLaunch(graph.exec(), stream_), "cudaGraphLaunch", where_));
}

Status CudaQueue::AddCondition(const float* value) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaGraph_t graph = nullptr;
  const auto info = [&](const cudaGraphNode_t** before, size_t* count) {
    return ToStatus(
        cudaStreamGetCaptureInfo(stream_, &status, nullptr, &graph, before, nullptr, count),
        "cudaStreamGetCaptureInfo", where_);
  };
  OC_RETURN_IF_ERROR(info(nullptr, nullptr));
  cudaGraphConditionalHandle handle{};
  OC_RETURN_IF_ERROR(
      ToStatus(cudaGraphConditionalHandleCreate(&handle, graph, 0, cudaGraphCondAssignDefault),
               "cudaGraphConditionalHandleCreate", where_));
  OC_RETURN_IF_ERROR(
      ToStatus(kernels::SetIfFinite(handle, value, stream_), "set a condition", where_));
  const cudaGraphNode_t* before = nullptr;
  size_t count = 0;
  OC_RETURN_IF_ERROR(info(&before, &count));
  cudaGraphNodeParams node{};
  node.type = cudaGraphNodeTypeConditional;
  node.conditional.handle = handle;
  node.conditional.type = cudaGraphCondTypeIf;
  node.conditional.size = 1;
  cudaGraphNode_t added = nullptr;
  OC_RETURN_IF_ERROR(ToStatus(cudaGraphAddNode(&added, graph, before, nullptr, count, &node),
                              "cudaGraphAddNode", where_));
  OC_RETURN_IF_ERROR(ToStatus(cudaStreamUpdateCaptureDependencies(stream_, &added, nullptr, 1,
                                                                  cudaStreamSetCaptureDependencies),
                              "cudaStreamUpdateCaptureDependencies", where_));
  if (body_ == nullptr) {
    OC_ASSIGN_OR_RETURN(body_, slice_.CreateStream(where_));
  }
  return ToStatus(cudaStreamBeginCaptureToGraph(body_, node.conditional.phGraph_out[0], nullptr,
                                                nullptr, 0, cudaStreamCaptureModeRelaxed),
                  "cudaStreamBeginCaptureToGraph", where_);
}

Status CudaQueue::BeginIfFinite(BufferRange value) {
  if (!capturing_ || outside_ != nullptr) {
    return FailedPrecondition(where_, ": a condition wants a capture, and none around it");
  }
  OC_RETURN_IF_ERROR(Keep(slice_.Use()));
  if (!slice_.whole_device()) {
    return Unimplemented("conditions of captured work: CUDA has none on a part of a device");
  }
  const Status added = AddCondition(reinterpret_cast<const float*>(AddressOf(value)));
  if (!added.ok()) return Unimplemented("conditions of captured work: ", added.message());
  outside_ = std::exchange(stream_, body_);
  return OkStatus();
}

Status CudaQueue::EndIf() {
  if (outside_ == nullptr) return Queue::EndIf();
  cudaGraph_t body = nullptr;
  const cudaError_t code = cudaStreamEndCapture(stream_, &body);
  stream_ = std::exchange(outside_, nullptr);
  return ToStatus(code, "cudaStreamEndCapture", where_);
}

}  // namespace oc::cuda

#include "openclaw/devices/host/host_device.h"

#include <absl/strings/str_join.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>

namespace oc {
namespace {

class HostBuffer : public Buffer {
 public:
  static StatusOr<std::unique_ptr<Buffer>> Create(int64_t bytes, std::atomic<int64_t>* used) {
    // Fresh pages are zero and are only taken when touched, so an arena reserved larger than needed
    // costs nothing, and the highest byte touched can be read off.
    const size_t capacity = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    void* memory = mmap(nullptr, capacity, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return ResourceExhausted("allocate ", bytes, " bytes of host memory: the system refused");
    }
    return std::unique_ptr<Buffer>(new HostBuffer(static_cast<std::byte*>(memory), bytes, used));
  }
  ~HostBuffer() override {
    munmap(data_, static_cast<size_t>(std::max<int64_t>(bytes_, 1)));
    used_->fetch_sub(bytes_);
  }
  int64_t bytes() const override { return bytes_; }
  std::byte* data() const { return data_; }

  // Pages that nobody touched are not resident; in the last resident one the last byte that is not
  // zero counts.
  int64_t HighWater() const {
    constexpr int64_t kPage = 4096;
    const int64_t pages = (bytes_ + kPage - 1) / kPage;
    std::vector<unsigned char> resident(static_cast<size_t>(pages));
    if (pages == 0 || mincore(data_, static_cast<size_t>(bytes_), resident.data()) != 0) return -1;
    int64_t last = pages - 1;
    while (last >= 0 && (resident[last] & 1) == 0) --last;
    int64_t end = std::min((last + 1) * kPage, bytes_);
    while (end > 0 && data_[end - 1] == std::byte{0}) --end;
    return end;
  }

 private:
  HostBuffer(std::byte* data, int64_t bytes, std::atomic<int64_t>* used)
      : data_(data), bytes_(bytes), used_(used) {}
  std::byte* data_;
  int64_t bytes_;
  std::atomic<int64_t>* used_;
};

std::byte* Address(const BufferRange& range) {
  if (range.buffer == nullptr) return nullptr;
  OC_CHECK(range.offset >= 0 && range.offset + range.bytes <= range.buffer->bytes(), range.offset,
           "+", range.bytes, " of ", range.buffer->bytes());
  return static_cast<HostBuffer*>(range.buffer)->data() + range.offset;
}

class HostEvent : public Event {
 public:
  bool Ready() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    return ready_;
  }
  Status Wait(double timeout_seconds) override {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::duration<double>(timeout_seconds),
                           [&] { return ready_; })) {
      return absl::DeadlineExceededError(
          absl::StrCat("wait for an event: nothing after ", timeout_seconds, " s"));
    }
    return status_;
  }
  void Signal(const Status& status) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ready_ = true;
      status_ = status;
    }
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ready_ = false;
  Status status_;
};

class HostQueue : public Queue {
 public:
  // `operands`: how many inputs and outputs there is room for at once.
  HostQueue(WorkerPool& pool, size_t operands) : pool_(pool), in_(operands), out_(operands) {}

  Status Enqueue(PreparedOp& op, std::span<const BufferRange> inputs,
                 std::span<const BufferRange> outputs, BufferRange workspace) override {
    if (in_.size() < inputs.size()) in_.resize(inputs.size());
    if (out_.size() < outputs.size()) out_.resize(outputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) in_[i] = Address(inputs[i]);
    for (size_t i = 0; i < outputs.size(); ++i) out_[i] = Address(outputs[i]);
    pool_.BindCaller();
    return Keep(
        static_cast<HostKernel&>(op).Run({in_.data(), out_.data(), Address(workspace), pool_}));
  }
  Status CopyFromHost(BufferRange to, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(Address(to), from.data(), from.size());
    return OkStatus();
  }
  Status CopyToHost(std::span<std::byte> to, BufferRange from) override {
    if (!to.empty()) std::memcpy(to.data(), Address(from), to.size());
    return OkStatus();
  }
  Status Copy(BufferRange to, BufferRange from) override {
    if (from.bytes > 0) {
      std::memmove(Address(to), Address(from), static_cast<size_t>(from.bytes));
    }
    return OkStatus();
  }
  Status Record(Event& event) override {
    static_cast<HostEvent&>(event).Signal(first_error_);
    return OkStatus();
  }
  Status WaitFor(Event& event) override { return Keep(event.Wait(/*timeout_seconds=*/1e6)); }

 private:
  Status Keep(Status status) {
    if (first_error_.ok()) first_error_ = status;
    return status;
  }
  WorkerPool& pool_;
  std::vector<const std::byte*> in_;  // the operands of one call
  std::vector<std::byte*> out_;
  Status first_error_;
};

class HostSlice : public Slice {
 public:
  HostSlice(const HostDeviceOptions& device, const SliceOptions& options)
      : device_(device), options_(options), pool_(options.threads, options.cores) {}

  std::string kind() const override {
    return absl::StrCat(device_.info.leaf, "/", device_.info.model, "/", options_.threads, "t");
  }
  Enforcement enforcement() const override {
    return options_.cores.empty() ? Enforcement::kSoft : Enforcement::kHard;
  }
  std::vector<DType> dtypes() const override { return device_.dtypes; }

  StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override {
    if (bytes < 0) return InvalidArgument("allocate ", bytes, " bytes on ", device_.info.name);
    const int64_t before = used_.fetch_add(bytes);
    if (options_.memory_bytes > 0 && before + bytes > options_.memory_bytes) {
      used_.fetch_sub(bytes);
      return ResourceExhausted("allocate ", bytes, " bytes on ", device_.info.name,
                               ": the budget is ", options_.memory_bytes, ", of which ", before,
                               " are taken");
    }
    return HostBuffer::Create(bytes, &used_);
  }
  StatusOr<std::unique_ptr<Queue>> CreateQueue(const std::string&) override {
    return std::unique_ptr<Queue>(std::make_unique<HostQueue>(pool_, most_operands_.load()));
  }
  StatusOr<std::unique_ptr<Event>> CreateEvent() override {
    return std::unique_ptr<Event>(std::make_unique<HostEvent>());
  }

  StatusOr<std::unique_ptr<PreparedOp>> Prepare(const OpRequest& request) override {
    // Queues that are created later have room for the op: running it allocates nothing.
    const size_t operands = std::max(request.inputs.size(), request.outputs.size());
    size_t most = most_operands_.load();
    while (most < operands && !most_operands_.compare_exchange_weak(most, operands)) {
    }
    OC_ASSIGN_OR_RETURN(auto kernel,
                        CreateKernel(device_.kernels, request, options_.threads, kind()));
    return std::unique_ptr<PreparedOp>(std::move(kernel));
  }
  StatusOr<OpSupport> Support(const OpRequest& request) override {
    return KernelSupport(device_.kernels, request, options_.threads, kind());
  }
  std::span<std::byte> HostView(BufferRange range) override {
    return {Address(range), static_cast<size_t>(range.bytes)};
  }
  int64_t HighWater(const Buffer& buffer) const override {
    return static_cast<const HostBuffer&>(buffer).HighWater();
  }

 private:
  const HostDeviceOptions& device_;
  SliceOptions options_;
  WorkerPool pool_;
  std::atomic<int64_t> used_{0};
  std::atomic<size_t> most_operands_{16};  // of the ops prepared so far, or what most ops have
};

class HostDevice : public Device {
 public:
  explicit HostDevice(HostDeviceOptions options) : options_(std::move(options)) {}
  const DeviceInfo& info() const override { return options_.info; }
  StatusOr<std::unique_ptr<Slice>> CreateSlice(const SliceOptions& options) override {
    if (options.threads < 1) {
      return InvalidArgument("slice of ", options_.info.name, ": ", options.threads, " threads");
    }
    if (!options.options.empty()) {
      return InvalidArgument("slice of ", options_.info.name, ": a device of leaf ",
                             options_.info.leaf, " takes no options, '",
                             options.options.begin()->first, "' was given");
    }
    return std::unique_ptr<Slice>(std::make_unique<HostSlice>(options_, options));
  }

 private:
  HostDeviceOptions options_;
};

class FunctionKernel : public HostKernel {
 public:
  FunctionKernel(OpRequest request, KernelFunction function, const char* implementation)
      : request_(std::move(request)), function_(function), implementation_(implementation) {
    for (const TensorType& t : request_.outputs) nothing_ &= t.bytes() == 0;
  }
  const char* implementation() const override { return implementation_; }
  Status Run(const KernelArgs& args) override {
    return nothing_ ? OkStatus() : function_(request_, args);
  }

 private:
  OpRequest request_;
  KernelFunction function_;
  const char* implementation_;
  bool nothing_ = true;  // to compute: all outputs are empty, and may have no address
};

}  // namespace

StatusOr<std::unique_ptr<HostKernel>> CreateKernel(const KernelRegistries& registries,
                                                   const OpRequest& request, int threads,
                                                   const std::string& where) {
  Status last = Unimplemented("no kernel");
  for (const auto& registry : registries) {
    const KernelEntry* entry = registry->Find(request.def->name);
    if (entry == nullptr || (request.accumulate & ~entry->accumulable) != 0) continue;
    if (WantsSumType(request) && !entry->sum_types) {
      last = Unimplemented("the kernel's sums have the type of its operands");
      continue;
    }
    if (request.deterministic && !entry->deterministic) {
      last = Unimplemented("the kernel does not say that it repeats its results bit by bit");
      continue;
    }
    auto kernel = entry->create(request, threads);
    if (kernel.ok()) {
      (*kernel)->set_deterministic(entry->deterministic);
      return kernel;
    }
    if (!absl::IsUnimplemented(kernel.status())) {
      return Annotate(kernel.status(), absl::StrCat("prepare ", ToString(request), " on ", where));
    }
    last = kernel.status();
  }
  return Unimplemented("op ", ToString(request), " on ", where, ": ", last.message());
}

StatusOr<OpSupport> KernelSupport(const KernelRegistries& registries, const OpRequest& request,
                                  int threads, const std::string& where) {
  for (const auto& registry : registries) {
    const KernelEntry* entry = registry->Find(request.def->name);
    if (entry != nullptr && request.deterministic && !entry->deterministic) continue;
    // Only the kernel that would run anyway: a slower one that can accumulate is no gain.
    if (entry != nullptr && (request.accumulate & ~entry->accumulable) != 0) {
      return OpSupport{.reason = "the kernel does not add to its output"};
    }
    if (entry != nullptr) break;
  }
  const auto kernel = CreateKernel(registries, request, threads, where);
  if (kernel.ok()) return OpSupport{.supported = true};
  if (absl::IsUnimplemented(kernel.status())) {
    return OpSupport{.reason = std::string(kernel.status().message())};
  }
  return kernel.status();
}

std::unique_ptr<Device> MakeHostDevice(HostDeviceOptions options) {
  return std::make_unique<HostDevice>(std::move(options));
}

KernelFactory StatelessKernel(KernelFunction function, const char* implementation) {
  return [=](const OpRequest& request, int) -> StatusOr<std::unique_ptr<HostKernel>> {
    return std::unique_ptr<HostKernel>(
        std::make_unique<FunctionKernel>(request, function, implementation));
  };
}

}  // namespace oc

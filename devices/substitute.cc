#include "openclaw/devices/substitute.h"

#include <mutex>

#include "openclaw/devices/substitute_ops.h"
#include "openclaw/graph/fuse.h"

namespace oc {
namespace {

// What an op on the host ended with is known to the queue here, not to the device's.
class SubstituteEvent : public Event {
 public:
  explicit SubstituteEvent(std::unique_ptr<Event> event) : event_(std::move(event)) {}
  bool Ready() const override { return event_->Ready(); }
  Status Wait(double timeout_seconds) override {
    OC_RETURN_IF_ERROR(event_->Wait(timeout_seconds));
    return status();
  }
  Event& of_device() { return *event_; }
  void Set(const Status& status) {
    std::lock_guard<std::mutex> lock(mutex_);
    status_ = status;
  }
  Status status() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return status_;
  }

 private:
  const std::unique_ptr<Event> event_;
  mutable std::mutex mutex_;
  Status status_;
};

class SubstituteQueue : public Queue {
 public:
  explicit SubstituteQueue(std::unique_ptr<Queue> queue) : queue_(std::move(queue)) {}
  Status Enqueue(PreparedOp& op, std::span<const BufferRange> inputs,
                 std::span<const BufferRange> outputs, BufferRange workspace) override {
    if (capturing_ && RunsOnHost(op)) {
      return Unimplemented("the op runs ", op.substitute(), ", which no work of a device can hold");
    }
    const Status status = EnqueueAny(*queue_, op, inputs, outputs, workspace);
    // What is captured has not run: that it cannot be captured is no error of the queue.
    return capturing_ ? status : Keep(status);
  }
  Status CopyFromHost(BufferRange to, std::span<const std::byte> from) override {
    return queue_->CopyFromHost(to, from);
  }
  Status CopyToHost(std::span<std::byte> to, BufferRange from) override {
    return queue_->CopyToHost(to, from);
  }
  Status Copy(BufferRange to, BufferRange from) override { return queue_->Copy(to, from); }
  Status Record(Event& event) override {
    auto& own = static_cast<SubstituteEvent&>(event);
    own.Set(first_error_);
    return queue_->Record(own.of_device());
  }
  Status WaitFor(Event& event) override {
    auto& own = static_cast<SubstituteEvent&>(event);
    OC_RETURN_IF_ERROR(Keep(own.status()));
    return queue_->WaitFor(own.of_device());
  }
  Status BeginCapture() override {
    OC_RETURN_IF_ERROR(queue_->BeginCapture());
    capturing_ = true;
    return OkStatus();
  }
  StatusOr<std::unique_ptr<CapturedWork>> EndCapture() override {
    capturing_ = false;
    return queue_->EndCapture();
  }
  Status Launch(CapturedWork& work) override { return Keep(queue_->Launch(work)); }
  Status BeginIfFinite(BufferRange value) override { return queue_->BeginIfFinite(value); }
  Status EndIf() override { return queue_->EndIf(); }

 private:
  // The first error stays: events recorded later carry it.
  Status Keep(Status status) {
    if (first_error_.ok()) first_error_ = status;
    return status;
  }

  std::unique_ptr<Queue> queue_;
  bool capturing_ = false;
  Status first_error_;
};

class SubstituteSlice : public Slice {
 public:
  SubstituteSlice(std::unique_ptr<Slice> slice, SubstituteHost host,
                  const SubstituteOptions& options)
      : slice_(std::move(slice)), host_(std::move(host)), options_(options) {}

  std::string kind() const override { return slice_->kind(); }
  Enforcement enforcement() const override { return slice_->enforcement(); }
  std::vector<DType> dtypes() const override { return slice_->dtypes(); }
  StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override {
    return slice_->Allocate(bytes);
  }
  StatusOr<std::unique_ptr<Queue>> CreateQueue(const std::string& name) override {
    OC_ASSIGN_OR_RETURN(auto queue, slice_->CreateQueue(name));
    return std::make_unique<SubstituteQueue>(std::move(queue));
  }
  StatusOr<std::unique_ptr<Event>> CreateEvent() override {
    OC_ASSIGN_OR_RETURN(auto event, slice_->CreateEvent());
    return std::unique_ptr<Event>(std::make_unique<SubstituteEvent>(std::move(event)));
  }
  StatusOr<std::unique_ptr<HostMemory>> AllocateHost(int64_t bytes) override {
    return slice_->AllocateHost(bytes);
  }
  std::span<std::byte> HostView(BufferRange range) override { return slice_->HostView(range); }
  int64_t HighWater(const Buffer& buffer) const override { return slice_->HighWater(buffer); }

  StatusOr<OpSupport> Support(const OpRequest& asked) override {
    const OpRequest request = Wanted(asked);
    OC_ASSIGN_OR_RETURN(OpSupport support, slice_->Support(request));
    if (support.supported && request.deterministic) {
      // The answer does not say what a device that knows nothing of the wish would run.
      const auto own = PrepareOwn(request);
      if (own.ok()) return support;
      if (!absl::IsUnimplemented(own.status())) return own.status();
      support = {.supported = false, .reason = std::string(own.status().message())};
    }
    if (support.supported || request.accumulate != 0) return support;
    auto substitute = MakeSubstitute(request);
    if (!substitute.ok()) {
      if (!absl::IsUnimplemented(substitute.status())) return substitute.status();
      absl::StrAppend(&support.reason, "; ", substitute.status().message());
      return support;
    }
    return OpSupport{.supported = true};
  }

  StatusOr<std::unique_ptr<PreparedOp>> Prepare(const OpRequest& asked) override {
    const OpRequest request = Wanted(asked);
    auto own = PrepareOwn(request);
    if (own.ok() || !absl::IsUnimplemented(own.status())) return own;
    auto substitute = MakeSubstitute(request);
    if (!absl::IsUnimplemented(substitute.status())) return substitute;
    return Unimplemented(own.status().message(), "; ", substitute.status().message());
  }

 private:
  OpRequest Wanted(OpRequest request) const {
    request.deterministic |= options_.deterministic;
    return request;
  }
  // The device's own; what it does not say to be deterministic is none where that is wanted.
  StatusOr<std::unique_ptr<PreparedOp>> PrepareOwn(const OpRequest& request) {
    auto own = slice_->Prepare(request);
    if (!own.ok() || !request.deterministic || (*own)->deterministic()) return own;
    return Unimplemented("op ", ToString(request), " on ", slice_->kind(), ": ",
                         (*own)->implementation(),
                         " does not say that it repeats its results bit by bit, and "
                         "train.deterministic is set");
  }

  // The device's own, or decomposed; not on the host, where copies would cost more than one op's.
  StatusOr<std::unique_ptr<PreparedOp>> PrepareHere(const OpRequest& asked, int depth) {
    const OpRequest request = Wanted(asked);
    auto own = PrepareOwn(request);
    if (own.ok() || !absl::IsUnimplemented(own.status())) return own;
    constexpr int kDeepest = 8;
    if (depth == kDeepest) return own;
    auto decomposed =
        MakeDecomposedOp(request, [&](const OpRequest& r) { return PrepareHere(r, depth + 1); });
    if (!absl::IsUnimplemented(decomposed.status())) return decomposed;
    return Unimplemented(own.status().message(), "; ", decomposed.status().message());
  }

  StatusOr<std::unique_ptr<PreparedOp>> MakeSubstitute(const OpRequest& request) {
    if (IsFused(request.def->name)) {
      return Unimplemented("nothing stands in for a fused op: its simpler ops are taken instead");
    }
    auto decomposed =
        MakeDecomposedOp(request, [&](const OpRequest& r) { return PrepareHere(r, 1); });
    if (!absl::IsUnimplemented(decomposed.status()) || !host_) return decomposed;
    OC_ASSIGN_OR_RETURN(Slice * host, host_());
    auto moved = MakeHostOp(request, *slice_, *host, staging_, options_.timeout_seconds);
    if (moved.ok() && request.deterministic && !(*moved)->deterministic()) {
      return Unimplemented(decomposed.status().message(), "; on ", host->kind(),
                           ": nor does its kernel say so");
    }
    if (!absl::IsUnimplemented(moved.status())) return moved;
    return Unimplemented(decomposed.status().message(), "; on ", host->kind(), ": ",
                         moved.status().message());
  }

  std::unique_ptr<Slice> slice_;
  SubstituteHost host_;
  const SubstituteOptions options_;
  const std::shared_ptr<HostStaging> staging_ = std::make_shared<HostStaging>();
};

}  // namespace

std::unique_ptr<Slice> WithSubstitutes(std::unique_ptr<Slice> slice, SubstituteHost host,
                                       const SubstituteOptions& options) {
  return std::make_unique<SubstituteSlice>(std::move(slice), std::move(host), options);
}

}  // namespace oc

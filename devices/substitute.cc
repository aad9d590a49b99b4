#include "openclaw/devices/substitute.h"

#include "openclaw/devices/substitute_ops.h"

namespace oc {
namespace {

class SubstituteQueue : public Queue {
 public:
  explicit SubstituteQueue(std::unique_ptr<Queue> queue) : queue_(std::move(queue)) {}
  Status Enqueue(PreparedOp& op, std::span<const BufferRange> inputs,
                 std::span<const BufferRange> outputs, BufferRange workspace) override {
    return EnqueueAny(*queue_, op, inputs, outputs, workspace);
  }
  Status CopyFromHost(BufferRange to, std::span<const std::byte> from) override {
    return queue_->CopyFromHost(to, from);
  }
  Status CopyToHost(std::span<std::byte> to, BufferRange from) override {
    return queue_->CopyToHost(to, from);
  }
  Status Copy(BufferRange to, BufferRange from) override { return queue_->Copy(to, from); }
  Status Record(Event& event) override { return queue_->Record(event); }
  Status WaitFor(Event& event) override { return queue_->WaitFor(event); }

 private:
  std::unique_ptr<Queue> queue_;
};

class SubstituteSlice : public Slice {
 public:
  SubstituteSlice(std::unique_ptr<Slice> slice, SubstituteHost host, double timeout_seconds)
      : slice_(std::move(slice)), host_(std::move(host)), timeout_seconds_(timeout_seconds) {}

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
  StatusOr<std::unique_ptr<Event>> CreateEvent() override { return slice_->CreateEvent(); }
  std::span<std::byte> HostView(BufferRange range) override { return slice_->HostView(range); }
  int64_t HighWater(const Buffer& buffer) const override { return slice_->HighWater(buffer); }

  StatusOr<OpSupport> Support(const OpRequest& request) override {
    OC_ASSIGN_OR_RETURN(OpSupport support, slice_->Support(request));
    if (support.supported || request.accumulate != 0) return support;
    auto substitute = MakeSubstitute(request);
    if (!substitute.ok()) {
      if (!absl::IsUnimplemented(substitute.status())) return substitute.status();
      absl::StrAppend(&support.reason, "; ", substitute.status().message());
      return support;
    }
    return OpSupport{.supported = true};
  }

  StatusOr<std::unique_ptr<PreparedOp>> Prepare(const OpRequest& request) override {
    auto own = slice_->Prepare(request);
    if (own.ok() || !absl::IsUnimplemented(own.status())) return own;
    auto substitute = MakeSubstitute(request);
    if (!absl::IsUnimplemented(substitute.status())) return substitute;
    return Unimplemented(own.status().message(), "; ", substitute.status().message());
  }

 private:
  // The device's own, or decomposed; not on the host, where copies would cost more than one op's.
  StatusOr<std::unique_ptr<PreparedOp>> PrepareHere(const OpRequest& request, int depth) {
    auto own = slice_->Prepare(request);
    if (own.ok() || !absl::IsUnimplemented(own.status())) return own;
    constexpr int kDeepest = 8;
    if (depth == kDeepest) return own;
    auto decomposed =
        MakeDecomposedOp(request, [&](const OpRequest& r) { return PrepareHere(r, depth + 1); });
    if (!absl::IsUnimplemented(decomposed.status())) return decomposed;
    return Unimplemented(own.status().message(), "; ", decomposed.status().message());
  }

  StatusOr<std::unique_ptr<PreparedOp>> MakeSubstitute(const OpRequest& request) {
    auto decomposed =
        MakeDecomposedOp(request, [&](const OpRequest& r) { return PrepareHere(r, 1); });
    if (!absl::IsUnimplemented(decomposed.status()) || !host_) return decomposed;
    OC_ASSIGN_OR_RETURN(Slice * host, host_());
    auto moved = MakeHostOp(request, *slice_, *host, staging_, timeout_seconds_);
    if (!absl::IsUnimplemented(moved.status())) return moved;
    return Unimplemented(decomposed.status().message(), "; on ", host->kind(), ": ",
                         moved.status().message());
  }

  std::unique_ptr<Slice> slice_;
  SubstituteHost host_;
  double timeout_seconds_;
  const std::shared_ptr<HostStaging> staging_ = std::make_shared<HostStaging>();
};

}  // namespace

std::unique_ptr<Slice> WithSubstitutes(std::unique_ptr<Slice> slice, SubstituteHost host,
                                       double timeout_seconds) {
  return std::make_unique<SubstituteSlice>(std::move(slice), std::move(host), timeout_seconds);
}

}  // namespace oc

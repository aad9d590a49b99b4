#include "openclaw/comm/mpi/mpi_transport.h"

#include "openclaw/comm/deadline.h"
#include "openclaw/comm/tag.h"

namespace oc {
namespace {

class MpiTransport : public Transport {
 public:
  MpiTransport(std::shared_ptr<MpiEngine> engine, std::shared_ptr<MpiEngine::World> world, int rank)
      : engine_(std::move(engine)), world_(std::move(world)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_->process_of.size()); }
  const char* name() const override { return "mpi"; }

  Status Send(int to, int64_t tag, std::span<const std::byte> bytes,
              double timeout_seconds) override {
    OC_RETURN_IF_ERROR(Check(to, tag));
    const auto deadline = DeadlineAfter(timeout_seconds);
    Half half(*this);
    half.Send(to, tag, bytes);
    return half.Wait(deadline);
  }

  Status Recv(int from, int64_t tag, std::span<std::byte> bytes, double timeout_seconds) override {
    OC_RETURN_IF_ERROR(Check(from, tag));
    const auto deadline = DeadlineAfter(timeout_seconds);
    Half half(*this);
    half.Recv(from, tag, bytes);
    return half.Wait(deadline);
  }

  Status SendRecv(int to, std::span<const std::byte> send_bytes, int from,
                  std::span<std::byte> recv_bytes, int64_t tag, double timeout_seconds) override {
    OC_RETURN_IF_ERROR(Check(to, tag));
    OC_RETURN_IF_ERROR(Check(from, tag));
    const auto deadline = DeadlineAfter(timeout_seconds);
    Half recv(*this), send(*this);
    recv.Recv(from, tag, recv_bytes);
    send.Send(to, tag, send_bytes);
    // Memory copies go on without this thread, MPI only while it polls: so MPI is waited for first.
    Half& first = recv.local() && !send.local() ? send : recv;
    Half& second = &first == &recv ? send : recv;
    const Status done = first.Wait(deadline);
    if (!done.ok()) {
      second.Cancel();
      return done;
    }
    return second.Wait(deadline);
  }

  void Abort(const Status& reason) override {
    engine_->Fail(*world_, absl::AbortedError(reason.message()));
  }
  Status status() const override { return engine_->status(*world_); }

 private:
  // One half of a message, by memory or by MPI.
  class Half {
   public:
    explicit Half(MpiTransport& end) : end_(end) {}

    void Send(int to, int64_t tag, std::span<const std::byte> bytes) {
      local_ = end_.IsLocal(to);
      if (local_) {
        end_.world_->hub->PostSend(end_.rank_, to, tag, bytes, &inproc_);
      } else {
        end_.engine_->PostSend(*end_.world_, end_.KeyOf(end_.rank_, to, tag), bytes, &mpi_);
      }
    }
    void Recv(int from, int64_t tag, std::span<std::byte> bytes) {
      local_ = end_.IsLocal(from);
      if (local_) {
        end_.world_->hub->PostRecv(from, end_.rank_, tag, bytes, &inproc_);
      } else {
        end_.engine_->PostRecv(*end_.world_, end_.KeyOf(from, end_.rank_, tag), bytes, &mpi_);
      }
    }
    Status Wait(MpiEngine::Clock::time_point deadline) {
      return local_ ? end_.world_->hub->Wait(&inproc_, deadline)
                    : end_.engine_->Wait(&mpi_, deadline);
    }
    void Cancel() {
      if (local_) {
        end_.world_->hub->Cancel(&inproc_);
      } else {
        end_.engine_->Withdraw(&mpi_);
      }
    }
    bool local() const { return local_; }

   private:
    MpiTransport& end_;
    bool local_ = false;
    InprocHub::Message inproc_;
    MpiEngine::Message mpi_;
  };

  bool IsLocal(int rank) const { return world_->process_of[rank] == engine_->rank(); }
  MpiEngine::Key KeyOf(int from, int to, int64_t tag) const {
    return {world_->generation, from, to, tag};
  }
  Status Check(int peer, int64_t tag) const {
    if (peer >= 0 && peer < size()) return OkStatus();
    return InvalidArgument("message between rank ", rank_, " and rank ", peer, " (", TagName(tag),
                           "): there are ", size(), " ranks");
  }

  const std::shared_ptr<MpiEngine> engine_;
  const std::shared_ptr<MpiEngine::World> world_;
  const int rank_;
};

}  // namespace

std::unique_ptr<Transport> NewMpiTransport(std::shared_ptr<MpiEngine> engine,
                                           std::shared_ptr<MpiEngine::World> world, int rank) {
  return std::make_unique<MpiTransport>(std::move(engine), std::move(world), rank);
}

}  // namespace oc

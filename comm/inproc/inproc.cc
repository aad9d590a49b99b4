#include "openclaw/comm/inproc/inproc.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "openclaw/comm/deadline.h"
#include "openclaw/comm/tag.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace oc {
namespace {

using Message = InprocHub::Message;
using Clock = std::chrono::steady_clock;

// Most partners are a few microseconds away or far: spin shortly, then sleep. Ranks may outnumber
// the cores, so that a longer spin would take the partner's time.
constexpr auto kSpin = std::chrono::microseconds(4);
// How often a wait looks at the other half of a SendRecv, which may have failed.
constexpr auto kLookAtSibling = std::chrono::milliseconds(20);

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// First in, first out, linked through the messages.
struct Queue {
  Message* head = nullptr;
  Message* tail = nullptr;

  void Push(Message* m) {
    m->next = nullptr;
    (tail != nullptr ? tail->next : head) = m;
    tail = m;
  }
  // Takes the first for which `want` is true, or null.
  template <typename Want>
  Message* Take(const Want& want) {
    Message* before = nullptr;
    for (Message* m = head; m != nullptr; before = m, m = m->next) {
      if (!want(m)) continue;
      (before != nullptr ? before->next : head) = m->next;
      if (tail == m) tail = before;
      return m;
    }
    return nullptr;
  }
};

std::string Describe(const Message& m) {
  return m.is_send
             ? absl::StrCat("send from rank ", m.from, " to rank ", m.to, " (", TagName(m.tag), ")")
             : absl::StrCat("receive at rank ", m.to, " from rank ", m.from, " (", TagName(m.tag),
                            ")");
}

Status SizeMismatch(const Message& send, const Message& recv) {
  return InvalidArgument("message from rank ", send.from, " to rank ", send.to, " (",
                         TagName(send.tag), "): rank ", send.from, " sends ", send.bytes,
                         " bytes, rank ", send.to, " expects ", recv.bytes);
}

// Abseil counts the references to a status's text inside its library, where a thread sanitizer sees
// no order: what goes to another thread gets a text of its own.
Status OwnCopy(const Status& status) { return Status(status.code(), status.message()); }

}  // namespace

// Thread safety: a channel's queues and the state changes of its messages are under the channel's
// mutex; `failed_` is set before the channels are swept, and read under a channel's mutex before a
// message is queued, so that no message escapes the sweep.
class InprocHub::State {
 public:
  State(int count, const InprocOptions& options)
      : count_(count),
        first_(options.first_rank),
        world_size_(options.world_size > 0 ? options.world_size : count),
        channels_(static_cast<size_t>(count) * count) {}

  bool Holds(int rank) const { return rank >= first_ && rank < first_ + count_; }
  int world_size() const { return world_size_; }

  void Post(Message* m);
  // Where `sibling` (null: none) is done and failed, withdraws `m` and returns the sibling's error.
  Status Wait(Message* m, Deadline deadline, const Message* sibling);
  void Cancel(Message* m);
  void Fail(const Status& status);
  Status status() const {
    std::lock_guard lock(status_mutex_);
    return OwnCopy(status_);
  }

 private:
  struct alignas(64) Channel {
    std::mutex mutex;
    Queue sends, recvs;
  };

  Channel& ChannelOf(const Message& m) {
    return channels_[static_cast<size_t>(m.from - first_) * count_ + (m.to - first_)];
  }
  // Under the channel's mutex: the owner may destroy the message as soon as the mutex is free.
  static void Complete(Message* m) {
    m->state.store(Message::kDone, std::memory_order_release);
    m->done.notify_one();
  }
  void Withdraw(Channel& channel, Message* m, const Status& result) {
    (m->is_send ? channel.sends : channel.recvs).Take([m](Message* q) { return q == m; });
    m->result = result;
    m->state.store(Message::kDone, std::memory_order_relaxed);
  }

  const int count_, first_, world_size_;
  std::vector<Channel> channels_;
  mutable std::mutex status_mutex_;
  Status status_;
  std::atomic<bool> failed_{false};
};

void InprocHub::State::Post(Message* m) {
  if (!Holds(m->from) || !Holds(m->to)) {
    m->result =
        InvalidArgument(Describe(*m), ": the ranks here are ", first_, " to ", first_ + count_ - 1);
    m->state.store(Message::kDone, std::memory_order_relaxed);
    return;
  }
  Channel& channel = ChannelOf(*m);
  std::unique_lock lock(channel.mutex);
  if (failed_.load(std::memory_order_acquire)) {
    m->result = status();
    m->state.store(Message::kDone, std::memory_order_relaxed);
    return;
  }
  Message* other = (m->is_send ? channel.recvs : channel.sends).Take([m](Message* q) {
    return q->tag == m->tag;
  });
  if (other == nullptr) {
    m->state.store(Message::kWaiting, std::memory_order_relaxed);
    (m->is_send ? channel.sends : channel.recvs).Push(m);
    return;
  }
  const Message& send = m->is_send ? *m : *other;
  const Message& recv = m->is_send ? *other : *m;
  if (send.bytes != recv.bytes) {
    m->result = SizeMismatch(send, recv);
    other->result = OwnCopy(m->result);
  } else if (send.bytes > 0) {
    other->state.store(Message::kCopying, std::memory_order_relaxed);
    lock.unlock();
    std::memcpy(recv.target, send.source, send.bytes);
    lock.lock();
  }
  m->state.store(Message::kDone, std::memory_order_relaxed);
  Complete(other);
}

Status InprocHub::State::Wait(Message* m, Deadline deadline, const Message* sibling) {
  if (!Holds(m->from) || !Holds(m->to)) return m->result;
  if (m->state.load(std::memory_order_acquire) != Message::kDone) {
    const auto spin_until = Clock::now() + kSpin;
    while (m->state.load(std::memory_order_acquire) != Message::kDone &&
           Clock::now() < spin_until) {
      Pause();
    }
  }
  Channel& channel = ChannelOf(*m);
  std::unique_lock lock(channel.mutex);  // also where done: the partner may still be in Complete
  while (m->state.load(std::memory_order_relaxed) != Message::kDone) {
    if (m->state.load(std::memory_order_relaxed) == Message::kCopying) {
      m->done.wait(lock);
      continue;
    }
    if (sibling != nullptr && sibling->state.load(std::memory_order_acquire) == Message::kDone &&
        !sibling->result.ok()) {
      Withdraw(channel, m, sibling->result);
      break;
    }
    const auto now = Clock::now();
    if (now >= deadline) {
      Withdraw(channel, m,
               absl::DeadlineExceededError(absl::StrCat(Describe(*m), ": timed out, ", m->bytes,
                                                        " bytes; the other rank did not come")));
      break;
    }
    m->done.wait_until(lock,
                       sibling == nullptr ? deadline : std::min(deadline, now + kLookAtSibling));
  }
  return m->result;
}

void InprocHub::State::Cancel(Message* m) {
  if (!Holds(m->from) || !Holds(m->to)) return;
  Channel& channel = ChannelOf(*m);
  std::unique_lock lock(channel.mutex);
  if (m->state.load(std::memory_order_relaxed) == Message::kWaiting) {
    Withdraw(channel, m, absl::CancelledError("withdrawn"));
  }
  while (m->state.load(std::memory_order_relaxed) != Message::kDone) m->done.wait(lock);
}

void InprocHub::State::Fail(const Status& status) {
  {
    std::lock_guard lock(status_mutex_);
    if (!status_.ok()) return;
    status_ = OwnCopy(status);
  }
  failed_.store(true, std::memory_order_release);
  for (Channel& channel : channels_) {
    std::lock_guard lock(channel.mutex);
    for (Queue* queue : {&channel.sends, &channel.recvs}) {
      while (Message* m = queue->Take([](Message*) { return true; })) {
        m->result = OwnCopy(status);
        Complete(m);
      }
    }
  }
}

namespace {

class InprocTransport : public Transport {
 public:
  InprocTransport(std::shared_ptr<InprocHub::State> state, int rank)
      : state_(std::move(state)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return state_->world_size(); }
  const char* name() const override { return "inproc"; }

  Status Send(int to, int64_t tag, std::span<const std::byte> bytes,
              double timeout_seconds) override {
    Message m;
    FillSend(to, tag, bytes, &m);
    state_->Post(&m);
    return state_->Wait(&m, DeadlineAfter(timeout_seconds), nullptr);
  }

  Status Recv(int from, int64_t tag, std::span<std::byte> bytes, double timeout_seconds) override {
    Message m;
    FillRecv(from, tag, bytes, &m);
    state_->Post(&m);
    return state_->Wait(&m, DeadlineAfter(timeout_seconds), nullptr);
  }

  Status SendRecv(int to, std::span<const std::byte> send_bytes, int from,
                  std::span<std::byte> recv_bytes, int64_t tag, double timeout_seconds) override {
    const auto deadline = DeadlineAfter(timeout_seconds);
    Message recv, send;
    FillRecv(from, tag, recv_bytes, &recv);
    FillSend(to, tag, send_bytes, &send);
    state_->Post(&recv);
    state_->Post(&send);
    const Status received = state_->Wait(&recv, deadline, &send);
    if (!received.ok()) {
      state_->Cancel(&send);
      return received;
    }
    return state_->Wait(&send, deadline, nullptr);
  }

  void Abort(const Status& reason) override { state_->Fail(absl::AbortedError(reason.message())); }
  Status status() const override { return state_->status(); }

 private:
  void FillSend(int to, int64_t tag, std::span<const std::byte> bytes, Message* m) const {
    m->is_send = true;
    m->from = rank_;
    m->to = to;
    m->tag = tag;
    m->source = bytes.data();
    m->bytes = bytes.size();
  }
  void FillRecv(int from, int64_t tag, std::span<std::byte> bytes, Message* m) const {
    m->from = from;
    m->to = rank_;
    m->tag = tag;
    m->target = bytes.data();
    m->bytes = bytes.size();
  }

  std::shared_ptr<InprocHub::State> state_;
  const int rank_;
};

}  // namespace

InprocHub::InprocHub(int count, const InprocOptions& options)
    : state_(std::make_shared<State>(count, options)) {
  OC_CHECK(count > 0, "an inproc hub of ", count, " ranks");
}

std::unique_ptr<Transport> InprocHub::Endpoint(int rank) const {
  OC_CHECK(state_->Holds(rank), "rank ", rank, " is not of this hub");
  return std::make_unique<InprocTransport>(state_, rank);
}

bool InprocHub::Holds(int rank) const { return state_->Holds(rank); }

void InprocHub::PostSend(int from, int to, int64_t tag, std::span<const std::byte> bytes,
                         Message* message) {
  message->is_send = true;
  message->from = from;
  message->to = to;
  message->tag = tag;
  message->source = bytes.data();
  message->bytes = bytes.size();
  state_->Post(message);
}

void InprocHub::PostRecv(int from, int to, int64_t tag, std::span<std::byte> bytes,
                         Message* message) {
  message->from = from;
  message->to = to;
  message->tag = tag;
  message->target = bytes.data();
  message->bytes = bytes.size();
  state_->Post(message);
}

Status InprocHub::Wait(Message* message, Deadline deadline) {
  return state_->Wait(message, deadline, nullptr);
}
void InprocHub::Cancel(Message* message) { state_->Cancel(message); }
void InprocHub::Fail(const Status& status) { state_->Fail(status); }
Status InprocHub::status() const { return state_->status(); }

}  // namespace oc

// Several ranks, as threads, in one process. A message is one memcpy from the sender's memory into
// the receiver's: whoever comes second makes it.
//
//   InprocHub hub(2);
//   std::unique_ptr<Transport> a = hub.Endpoint(0), b = hub.Endpoint(1);
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>

#include "openclaw/comm/transport.h"

namespace oc {

struct InprocOptions {
  int first_rank = 0;  // the ranks are first_rank .. first_rank + count - 1
  int world_size = 0;  // what Transport::size tells; 0: the count
};

// Thread-safe. Endpoints share the hub's state and may outlive the hub.
class InprocHub {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // One half of a message, on the stack of the thread that waits for it: the hub allocates nothing.
  // Between Post and Wait it must neither move nor die.
  struct Message {
    enum State { kIdle, kWaiting, kCopying, kDone };
    std::atomic<int> state{kIdle};
    bool is_send = false;
    int from = 0;
    int to = 0;
    int64_t tag = 0;
    const std::byte* source = nullptr;
    std::byte* target = nullptr;
    size_t bytes = 0;
    Message* next = nullptr;
    Status result;
    std::condition_variable done;
  };

  explicit InprocHub(int count, const InprocOptions& options = {});

  // The end of `rank`. Precondition: one of the hub's ranks.
  std::unique_ptr<Transport> Endpoint(int rank) const;
  bool Holds(int rank) const;

  // The parts of Send and Recv, for a transport that mixes this one with another: offer a half,
  // then wait for it. Every posted message must be waited for.
  void PostSend(int from, int to, int64_t tag, std::span<const std::byte> bytes, Message* message);
  void PostRecv(int from, int to, int64_t tag, std::span<std::byte> bytes, Message* message);
  // kDeadlineExceeded withdraws the message.
  Status Wait(Message* message, Deadline deadline);
  // Withdraws a message that has no partner yet, else waits for the copy under way.
  void Cancel(Message* message);

  // Ends every pending and later message with `status`, as it is. Idempotent: the first stays.
  void Fail(const Status& status);
  Status status() const;

  class State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace oc

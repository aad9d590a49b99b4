// All of a process's MPI traffic. MPI is called under one mutex, by whoever posts a message and by
// one of the waiting threads, which polls for all of them; the others sleep. So a process with many
// waiting lanes costs one polling thread, and that one backs off.
//
// MPI's tags are narrow (MPI_TAG_UB), ours have 64 bits and two VCU ranks: the sender gives each
// (generation, from, to, tag) a number when it is first used, and tells the receiving process on a
// channel of its own before the data. In the steady state a message is one MPI message and nothing
// is allocated here.
#pragma once

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "openclaw/comm/inproc/inproc.h"
#include "openclaw/core/status.h"

namespace oc {

class MpiEngine {
 public:
  using Clock = std::chrono::steady_clock;

  struct Key {
    int32_t generation = 0;
    int32_t from = 0;  // VCU ranks
    int32_t to = 0;
    int64_t tag = 0;
    bool operator==(const Key&) const = default;
  };

  // One set of transports: fails as a whole. `hub` carries the messages inside the process, or null
  // where it holds no VCU.
  struct World {
    int generation = 0;
    std::vector<int> process_of;  // by VCU rank
    std::unique_ptr<InprocHub> hub;
    Status status;  // under the engine's mutex
  };

  // A message under way, on the stack of the thread that waits for it.
  struct Message {
    // A receive waits for its number, then for a message, whose size it looks at before it takes
    // it.
    enum State { kIdle, kAwaitsNumber, kAwaitsMessage, kActive, kDone };
    State state = kIdle;
    World* world = nullptr;
    bool is_send = false;
    Key key;
    int process = 0;  // the peer
    int number = 0;
    void* data = nullptr;
    size_t bytes = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    Status result;
    std::condition_variable changed;
    bool sleeping = false;  // its thread waits for `changed`
    Message* before = nullptr;
    Message* after = nullptr;
  };

  // MPI is initialised. Collective over all processes.
  static StatusOr<std::shared_ptr<MpiEngine>> Create();
  MpiEngine(const MpiEngine&) = delete;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // A message must be waited for, or withdrawn.
  void PostSend(World& world, const Key& key, std::span<const std::byte> bytes, Message* message);
  void PostRecv(World& world, const Key& key, std::span<std::byte> bytes, Message* message);
  // kDeadlineExceeded withdraws it. MPI cannot withdraw a send: then the world fails, for the
  // message may still arrive.
  Status Wait(Message* message, Clock::time_point deadline);
  void Withdraw(Message* message);

  // Pending and later messages of the world end with `status`. The first stays.
  void Fail(World& world, const Status& status);
  Status status(const World& world) const;

  // Worlds that notices from other processes can be about.
  void Register(std::shared_ptr<World> world);

  // Everybody's bytes (Job::Exchange).
  StatusOr<std::vector<std::string>> Exchange(const std::string& mine, double timeout_seconds);

  // MPI is not called any more; whatever is pending fails.
  void Shut(const Status& why);

 private:
  // What processes tell each other beside the data.
  struct Notice {
    enum Kind : int64_t { kNumber = 1, kSizeMismatch = 2 };
    int64_t kind = 0;
    Key key;
    int64_t number = 0;
    int64_t sent_bytes = 0;
    int64_t expected_bytes = 0;
  };
  struct OutgoingNotice {
    Notice notice;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  // What came in a size that nobody expected.
  struct Unwanted {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  struct ExchangeState;

  MpiEngine() = default;
  void PollAlone(Message* message, std::unique_lock<std::mutex>& lock);
  void PollForAll(Message* message, Clock::time_point deadline, std::unique_lock<std::mutex>& lock);

  // All below: under the mutex.
  void Post(World& world, const Key& key, Message* message);
  void StartSend(Message* message);
  StatusOr<int> NumberFor(const Key& key, int process);
  void Tell(int process, const Notice& notice);
  void Poll();
  void PollNotices();
  void Take(const Notice& notice);
  void Advance(Message* message);
  void Probe(Message* message);
  void Finish(Message* message, const Status& result);
  void Abandon(Message* message, const Status& result);
  void FailLocked(World& world, const Status& status);
  bool StepExchange(ExchangeState& state, std::string* missing);
  void Push(Message* message);
  void Unlink(Message* message);
  void WakeAnother();

  mutable std::mutex mutex_;
  MPI_Comm data_ = MPI_COMM_NULL, notices_ = MPI_COMM_NULL, exchange_ = MPI_COMM_NULL;
  int rank_ = 0, world_size_ = 1, tag_limit_ = 32767;
  bool shut_ = false;
  Status shut_status_;
  bool polling_ = false;      // one thread is in Wait's polling loop
  Message* first_ = nullptr;  // pending, in the order posted
  Message* last_ = nullptr;
  int awaiting_numbers_ = 0;
  uint64_t polls_ = 0;
  std::unordered_map<Key, int, KeyHash> out_, in_;
  std::vector<int> next_number_;  // by process
  std::deque<OutgoingNotice> outgoing_;
  std::deque<Unwanted> unwanted_;
  std::vector<std::weak_ptr<World>> worlds_;
  int64_t exchanges_ = 0;
  std::vector<std::unique_ptr<ExchangeState>> abandoned_;  // MPI may still read these
};

}  // namespace oc

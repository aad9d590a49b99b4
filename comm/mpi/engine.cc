#include "openclaw/comm/mpi/engine.h"

#include <algorithm>
#include <climits>

#include "openclaw/comm/deadline.h"
#include "openclaw/comm/mpi/backoff.h"
#include "openclaw/comm/mpi/mpi_status.h"
#include "openclaw/comm/tag.h"

namespace oc {
namespace {

constexpr int kNoticeTag = 1;
// Notices of a mismatch are looked for this seldom while no number is awaited.
constexpr uint64_t kPollsPerNotice = 64;
// For how long a thread polls beside the one that polls for all.
constexpr auto kAlone = std::chrono::microseconds(100);
// What a receive that has begun gets to end, when it is given up.
constexpr auto kWithdrawTime = std::chrono::milliseconds(100);
// Above this a message is described by a datatype, because MPI counts in int.
constexpr size_t kMaxCount = INT_MAX;

std::string Describe(const MpiEngine::Message& m) {
  return m.is_send ? absl::StrCat("send from rank ", m.key.from, " to rank ", m.key.to, " (",
                                  TagName(m.key.tag), ", process ", m.process, ")")
                   : absl::StrCat("receive at rank ", m.key.to, " from rank ", m.key.from, " (",
                                  TagName(m.key.tag), ", process ", m.process, ")");
}

Status SizeMismatch(const MpiEngine::Key& key, int64_t sent, int64_t expected) {
  return InvalidArgument("message from rank ", key.from, " to rank ", key.to, " (",
                         TagName(key.tag), "): rank ", key.from, " sends ", sent, " bytes, rank ",
                         key.to, " expects ", expected);
}

// The type and count that describe `bytes` bytes.
struct Extent {
  MPI_Datatype type = MPI_BYTE;
  int count = 0;

  explicit Extent(size_t bytes) {
    if (bytes <= kMaxCount) {
      count = static_cast<int>(bytes);
      return;
    }
    constexpr size_t kBlock = size_t{1} << 20;
    MPI_Datatype block;
    MPI_Type_contiguous(static_cast<int>(kBlock), MPI_BYTE, &block);
    const int lengths[2] = {static_cast<int>(bytes / kBlock), static_cast<int>(bytes % kBlock)};
    const MPI_Aint offsets[2] = {0, static_cast<MPI_Aint>(bytes / kBlock * kBlock)};
    const MPI_Datatype types[2] = {block, MPI_BYTE};
    MPI_Type_create_struct(2, lengths, offsets, types, &type);
    MPI_Type_commit(&type);
    MPI_Type_free(&block);
    count = 1;
  }
  ~Extent() {
    if (type != MPI_BYTE) MPI_Type_free(&type);  // MPI keeps it while messages use it
  }
};

}  // namespace

size_t MpiEngine::KeyHash::operator()(const Key& key) const {
  uint64_t hash = static_cast<uint64_t>(key.tag) * 0x9e3779b97f4a7c15u;
  hash ^= hash >> 32;
  hash += static_cast<uint64_t>(key.from) << 40 ^ static_cast<uint64_t>(key.to) << 20 ^
          static_cast<uint64_t>(key.generation);
  hash *= 0xbf58476d1ce4e5b9u;
  return hash ^ (hash >> 31);
}

StatusOr<std::shared_ptr<MpiEngine>> MpiEngine::Create() {
  std::shared_ptr<MpiEngine> engine(new MpiEngine);
  OC_RETURN_IF_ERROR(FromMpi(MPI_Comm_rank(MPI_COMM_WORLD, &engine->rank_), "MPI_Comm_rank"));
  OC_RETURN_IF_ERROR(FromMpi(MPI_Comm_size(MPI_COMM_WORLD, &engine->world_size_), "MPI_Comm_size"));
  for (MPI_Comm* comm : {&engine->data_, &engine->notices_, &engine->exchange_}) {
    OC_RETURN_IF_ERROR(FromMpi(MPI_Comm_dup(MPI_COMM_WORLD, comm), "MPI_Comm_dup"));
    OC_RETURN_IF_ERROR(
        FromMpi(MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  }
  int* limit = nullptr;
  int found = 0;
  MPI_Comm_get_attr(engine->data_, MPI_TAG_UB, &limit, &found);
  if (found != 0) engine->tag_limit_ = *limit;
  engine->next_number_.assign(engine->world_size_, 0);
  return engine;
}

void MpiEngine::Register(std::shared_ptr<World> world) {
  std::lock_guard lock(mutex_);
  std::erase_if(worlds_, [](const auto& w) { return w.expired(); });
  worlds_.push_back(world);
}

void MpiEngine::PostSend(World& world, const Key& key, std::span<const std::byte> bytes,
                         Message* message) {
  message->is_send = true;
  message->data = const_cast<std::byte*>(bytes.data());  // MPI only reads it
  message->bytes = bytes.size();
  std::lock_guard lock(mutex_);
  Post(world, key, message);
}

void MpiEngine::PostRecv(World& world, const Key& key, std::span<std::byte> bytes,
                         Message* message) {
  message->data = bytes.data();
  message->bytes = bytes.size();
  std::lock_guard lock(mutex_);
  Post(world, key, message);
}

void MpiEngine::Post(World& world, const Key& key, Message* m) {
  m->world = &world;
  m->key = key;
  m->process = world.process_of[m->is_send ? key.to : key.from];
  const Status& status = shut_ ? shut_status_ : world.status;
  if (!status.ok()) {
    m->state = Message::kDone;
    m->result = status;
    return;
  }
  Push(m);
  if (m->is_send) {
    const StatusOr<int> number = NumberFor(key, m->process);
    if (!number.ok()) return Finish(m, number.status());
    m->number = *number;
    return StartSend(m);
  }
  const auto known = in_.find(key);
  if (known != in_.end()) {
    m->number = known->second;
    m->state = Message::kAwaitsMessage;
  } else {
    m->state = Message::kAwaitsNumber;
    ++awaiting_numbers_;
  }
}

void MpiEngine::StartSend(Message* m) {
  const Extent extent(m->bytes);
  m->state = Message::kActive;
  const Status status = FromMpi(
      MPI_Isend(m->data, extent.count, extent.type, m->process, m->number, data_, &m->request),
      "MPI_Isend");
  if (!status.ok()) Finish(m, Annotate(status, Describe(*m)));
}

StatusOr<int> MpiEngine::NumberFor(const Key& key, int process) {
  const auto known = out_.find(key);
  if (known != out_.end()) return known->second;
  if (next_number_[process] == tag_limit_) {
    return ResourceExhausted("send from rank ", key.from, " to rank ", key.to, " (",
                             TagName(key.tag), "): more than ", tag_limit_,
                             " different tags between two processes; tags must be a fixed set");
  }
  const int number = ++next_number_[process];
  out_.emplace(key, number);
  Tell(process, {.kind = Notice::kNumber, .key = key, .number = number});
  return number;
}

void MpiEngine::Tell(int process, const Notice& notice) {
  outgoing_.push_back({notice});
  OutgoingNotice& out = outgoing_.back();
  MPI_Isend(&out.notice, sizeof(Notice), MPI_BYTE, process, kNoticeTag, notices_, &out.request);
}

void MpiEngine::PollNotices() {
  while (!outgoing_.empty()) {
    int done = 0;
    MPI_Test(&outgoing_.front().request, &done, MPI_STATUS_IGNORE);
    if (done == 0) break;
    outgoing_.pop_front();
  }
  while (!unwanted_.empty()) {
    int done = 0;
    MPI_Test(&unwanted_.front().request, &done, MPI_STATUS_IGNORE);
    if (done == 0) break;
    unwanted_.pop_front();
  }
  for (;;) {
    int found = 0;
    MPI_Message handle;
    if (MPI_Improbe(MPI_ANY_SOURCE, kNoticeTag, notices_, &found, &handle, MPI_STATUS_IGNORE) !=
            MPI_SUCCESS ||
        found == 0) {
      return;
    }
    Notice notice;
    if (MPI_Mrecv(&notice, sizeof(notice), MPI_BYTE, &handle, MPI_STATUS_IGNORE) == MPI_SUCCESS) {
      Take(notice);
    }
  }
}

void MpiEngine::Take(const Notice& notice) {
  if (notice.kind == Notice::kNumber) {
    in_.emplace(notice.key, static_cast<int>(notice.number));
    for (Message *m = first_, *next; m != nullptr; m = next) {
      next = m->after;
      if (m->state == Message::kAwaitsNumber && m->key == notice.key) {
        --awaiting_numbers_;
        m->number = static_cast<int>(notice.number);
        m->state = Message::kAwaitsMessage;
      }
    }
    return;
  }
  for (const auto& weak : worlds_) {
    const std::shared_ptr<World> world = weak.lock();
    if (world == nullptr || world->generation != notice.key.generation) continue;
    FailLocked(*world, SizeMismatch(notice.key, notice.sent_bytes, notice.expected_bytes));
  }
}

void MpiEngine::Poll() {
  ++polls_;
  if (awaiting_numbers_ > 0 || polls_ % kPollsPerNotice == 0) PollNotices();
  for (Message *m = first_, *next; m != nullptr; m = next) {
    next = m->after;
    Advance(m);
  }
}

// Takes the message where it has come. MPI cannot be given a buffer that is too small (Open MPI 4.1
// writes beyond its end), so the size is looked at first.
void MpiEngine::Probe(Message* m) {
  int found = 0;
  MPI_Message handle;
  MPI_Status status;
  Status result =
      FromMpi(MPI_Improbe(m->process, m->number, data_, &found, &handle, &status), "MPI_Improbe");
  if (!result.ok()) return Finish(m, Annotate(result, Describe(*m)));
  if (found == 0) return;
  MPI_Count sent = 0;
  MPI_Get_elements_x(&status, MPI_BYTE, &sent);
  if (sent == static_cast<MPI_Count>(m->bytes)) {
    const Extent extent(m->bytes);
    m->state = Message::kActive;
    result =
        FromMpi(MPI_Imrecv(m->data, extent.count, extent.type, &handle, &m->request), "MPI_Imrecv");
    if (!result.ok()) Finish(m, Annotate(result, Describe(*m)));
    return;
  }
  // The sender is told; and served, so that it does not wait for a receiver that does not come.
  Unwanted& unwanted = unwanted_.emplace_back();
  unwanted.bytes.resize(sent);
  const Extent extent(unwanted.bytes.size());
  MPI_Imrecv(unwanted.bytes.data(), extent.count, extent.type, &handle, &unwanted.request);
  Tell(m->process, {.kind = Notice::kSizeMismatch,
                    .key = m->key,
                    .sent_bytes = static_cast<int64_t>(sent),
                    .expected_bytes = static_cast<int64_t>(m->bytes)});
  Finish(m, SizeMismatch(m->key, sent, static_cast<int64_t>(m->bytes)));
}

void MpiEngine::Advance(Message* m) {
  if (m->state == Message::kAwaitsMessage) Probe(m);
  if (m->state != Message::kActive) return;
  int done = 0;
  const Status status = FromMpi(MPI_Test(&m->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  if (!status.ok()) return Finish(m, Annotate(status, Describe(*m)));
  if (done != 0) Finish(m, OkStatus());
}

void MpiEngine::Finish(Message* m, const Status& result) {
  Unlink(m);
  m->state = Message::kDone;
  m->result = result;
  m->changed.notify_one();
}

// Ends a message that may be under way in MPI, with `result` unless it turns out to be complete.
void MpiEngine::Abandon(Message* m, const Status& result) {
  if (m->state == Message::kAwaitsNumber) --awaiting_numbers_;
  if (m->state == Message::kActive && !shut_) {
    Advance(m);
    // A receive that has begun ends soon where its sender lives.
    const auto until = Clock::now() + kWithdrawTime;
    while (!m->is_send && m->state == Message::kActive && Clock::now() < until) Advance(m);
    if (m->state == Message::kDone) return;
    // MPI keeps the message: a send whose receiver may still fetch it, or a receive that broke off
    // in the middle. Nothing more can be trusted of this world.
    Finish(m, result);
    return FailLocked(*m->world, result);
  }
  Finish(m, result);
}

void MpiEngine::Withdraw(Message* m) {
  std::lock_guard lock(mutex_);
  if (m->state == Message::kIdle || m->state == Message::kDone) return;
  Abandon(m, absl::CancelledError("withdrawn"));
}

// A new message is often complete, or soon: its own thread looks for that, without a change of
// threads.
void MpiEngine::PollAlone(Message* m, std::unique_lock<std::mutex>& lock) {
  const auto until = Clock::now() + kAlone;
  Backoff backoff;
  for (;;) {
    if (m->state == Message::kAwaitsNumber) PollNotices();
    Advance(m);
    if (m->state == Message::kDone || !polling_ || Clock::now() >= until) return;
    lock.unlock();
    backoff.Pause();
    lock.lock();
  }
}

void MpiEngine::PollForAll(Message* m, Clock::time_point deadline,
                           std::unique_lock<std::mutex>& lock) {
  polling_ = true;
  Backoff backoff;
  for (;;) {
    Poll();
    if (m->state == Message::kDone || Clock::now() >= deadline) break;
    lock.unlock();
    backoff.Pause();
    lock.lock();
    if (m->state == Message::kDone) break;
  }
  polling_ = false;
}

Status MpiEngine::Wait(Message* m, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (polling_) PollAlone(m, lock);
  while (m->state != Message::kDone) {
    if (!polling_) {
      PollForAll(m, deadline, lock);
    } else {
      m->sleeping = true;
      m->changed.wait_until(lock, deadline);
      m->sleeping = false;
    }
    if (m->state != Message::kDone && Clock::now() >= deadline) {
      Abandon(m, absl::DeadlineExceededError(absl::StrCat(Describe(*m), ": timed out, ", m->bytes,
                                                          " bytes; the other rank did not come")));
    }
  }
  // Also where this thread never polled: it may have been woken to do so.
  if (!polling_) WakeAnother();
  return m->result;
}

void MpiEngine::WakeAnother() {
  for (Message* m = first_; m != nullptr; m = m->after) {
    if (m->sleeping) return m->changed.notify_one();
  }
}

void MpiEngine::Fail(World& world, const Status& status) {
  std::lock_guard lock(mutex_);
  FailLocked(world, status);
}

void MpiEngine::FailLocked(World& world, const Status& status) {
  if (!world.status.ok()) return;
  world.status = status;
  if (world.hub != nullptr) world.hub->Fail(status);
  for (Message *m = first_, *next; m != nullptr; m = next) {
    next = m->after;
    if (m->world == &world) Abandon(m, status);
  }
}

Status MpiEngine::status(const World& world) const {
  std::lock_guard lock(mutex_);
  return shut_ ? shut_status_ : world.status;
}

void MpiEngine::Shut(const Status& why) {
  std::lock_guard lock(mutex_);
  if (shut_) return;
  shut_ = true;
  shut_status_ = why;
  for (const auto& weak : worlds_) {
    if (const auto world = weak.lock()) FailLocked(*world, why);
  }
}

void MpiEngine::Push(Message* m) {
  m->before = last_;
  m->after = nullptr;
  (last_ != nullptr ? last_->after : first_) = m;
  last_ = m;
}

void MpiEngine::Unlink(Message* m) {
  (m->before != nullptr ? m->before->after : first_) = m->after;
  (m->after != nullptr ? m->after->before : last_) = m->before;
}

struct MpiEngine::ExchangeState {
  int tag = 0;
  std::string mine;
  std::vector<std::string> theirs;
  std::vector<MPI_Request> sends, receives;
  std::vector<bool> came;
};

// One look at every process; true where all came. An MPI error is taken as "not yet": the deadline
// reports it.
bool MpiEngine::StepExchange(ExchangeState& state, std::string* missing) {
  missing->clear();
  for (int i = 0; i < world_size_; ++i) {
    int found = 0, sent = 0, received = 0;
    MPI_Message handle;
    MPI_Status status;
    if (!state.came[i] &&
        MPI_Improbe(i, state.tag, exchange_, &found, &handle, &status) == MPI_SUCCESS &&
        found != 0) {
      int size = 0;
      MPI_Get_count(&status, MPI_BYTE, &size);
      state.theirs[i].resize(size);
      MPI_Imrecv(state.theirs[i].data(), size, MPI_BYTE, &handle, &state.receives[i]);
      state.came[i] = true;
    }
    MPI_Test(&state.sends[i], &sent, MPI_STATUS_IGNORE);
    MPI_Test(&state.receives[i], &received, MPI_STATUS_IGNORE);
    if (state.came[i] && sent != 0 && received != 0) continue;
    absl::StrAppend(missing, missing->empty() ? "" : ", ", i);
  }
  return missing->empty();
}

StatusOr<std::vector<std::string>> MpiEngine::Exchange(const std::string& mine,
                                                       double timeout_seconds) {
  if (mine.size() > kMaxCount) return InvalidArgument("exchange of ", mine.size(), " bytes");
  auto state = std::make_unique<ExchangeState>();
  state->mine = mine;
  state->theirs.resize(world_size_);
  state->theirs[rank_] = mine;
  state->sends.assign(world_size_, MPI_REQUEST_NULL);
  state->receives.assign(world_size_, MPI_REQUEST_NULL);
  state->came.assign(world_size_, false);
  state->came[rank_] = true;
  const auto deadline = DeadlineAfter(timeout_seconds);
  Backoff backoff;
  std::unique_lock lock(mutex_);
  // All count their exchanges, so that a late message of one never enters another.
  state->tag = static_cast<int>(exchanges_++ % 32000);
  Status status = shut_ ? shut_status_ : OkStatus();
  for (int i = 0; i < world_size_ && status.ok(); ++i) {
    if (i == rank_) continue;
    status = FromMpi(MPI_Isend(state->mine.data(), static_cast<int>(state->mine.size()), MPI_BYTE,
                               i, state->tag, exchange_, &state->sends[i]),
                     "MPI_Isend");
  }
  std::string missing;
  while (status.ok()) {
    if (StepExchange(*state, &missing)) return std::move(state->theirs);
    if (Clock::now() >= deadline) {
      status = absl::DeadlineExceededError(absl::StrCat("rank ", missing, " of ", world_size_,
                                                        " did not come within ", timeout_seconds,
                                                        " seconds (seen by rank ", rank_, ")"));
      break;
    }
    lock.unlock();
    backoff.Pause();
    lock.lock();
    if (shut_) status = shut_status_;
  }
  abandoned_.push_back(std::move(state));
  return status;
}

}  // namespace oc

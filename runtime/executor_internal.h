// What the files of the executor share.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "openclaw/comm/group.h"
#include "openclaw/runtime/executor.h"
#include "openclaw/runtime/runs.h"

namespace oc {

// Waits until the word is `wanted`: how lanes tell each other how far a step is.
void Await(const std::atomic<uint32_t>& word, uint32_t wanted);
void SetRound(std::atomic<uint32_t>& word, uint32_t round);

struct PreparedCall {
  PreparedOp* op = nullptr;
  std::vector<int> inputs, outputs;  // slots
  int workspace = kNone;
};

struct CommandState {
  std::atomic<uint32_t> done{0};  // the number of the step in which it last ended
  bool skipped = false;
  int64_t begin_nanos = 0, end_nanos = 0;
  std::vector<BoundCall> calls;
  std::vector<BufferRange> ranges;  // what the calls point into
  // Of a step in runs: the bytes of a feed or snapshot on the host, the metric of a condition.
  std::span<std::byte> staged;
  std::atomic<uint32_t> filled{0};  // as `done`, of the bytes of a feed
  int64_t plain_nanos = 0;          // how long it last took by itself
};

// How many steps run command by command before the first in runs: what libraries set up when they
// are first used is then done, and how long each command takes is known.
inline constexpr int kPlainSteps = 2;

// The step of a VCU whose device captures, as runs.
struct ReplayState {
  Runs runs;
  bool alone = false;                            // one run is all that the VCU does
  std::unique_ptr<HostMemory> memory;            // what commands have staged
  std::vector<std::unique_ptr<Replay>> replays;  // by run
};

// One VCU of this process.
struct VcuState {
  Vcu* vcu = nullptr;
  const VcuProgram* program = nullptr;
  std::vector<std::vector<int>> lane_commands;
  std::vector<CommandState> commands;
  std::vector<std::vector<PreparedCall>> segments;
  std::map<std::string, std::unique_ptr<PreparedOp>> prepared;  // by cost key
  std::vector<std::unique_ptr<HostMemory>> staging;  // per lane: where memory is not the host's
  std::vector<std::vector<std::byte>> scratch;  // the same, of collectives; messages as they travel
  std::optional<NonFinite> non_finite;          // what FindNonFinite met first
  std::optional<ReplayState> replay;            // where the device captures
  std::string no_capture;                       // else why not
  int plain_steps = 0;                          // so far
  bool replaying = false;                       // the step that runs
  // Per lane. Behind all that their work uses: it ends when they go, also after a timeout.
  std::vector<std::unique_ptr<Queue>> queues;
  std::vector<std::unique_ptr<Event>> events;
  std::vector<std::unique_ptr<Group>> groups;  // by group id; null where not a member
  std::vector<std::thread> threads;
};

class StepExecutor : public Executor {
 public:
  StepExecutor(const Program& program, const ExecutorOptions& options)
      : program_(program), options_(options) {}
  ~StepExecutor() override {
    stop_.store(true, std::memory_order_release);
    round_.fetch_add(1, std::memory_order_acq_rel);
    round_.notify_all();
    for (auto& v : vcus_) {
      for (std::thread& t : v->threads) t.join();
    }
  }

  Status Add(Vcu& vcu);
  void Start();
  Status Run(StepHost& host) override;
  StatusOr<std::vector<NonFinite>> FindNonFinite(StepHost& host) override;
  int64_t host_bytes() const override;
  bool skipped(int vcu, int command) const override;
  VcuTimes times(int vcu) const override;
  std::vector<TraceSpan> spans() const override;
  std::vector<ImplementationCount> implementations() const override;
  CaptureReport capture(int vcu) const override;

 private:
  Status PrepareSegments(VcuState& v);
  void BindCommand(VcuState& v, int index);
  // Makes the lanes' scratch as large as the command needs; `staging`: how large the lane's must
  // be.
  static void MakeRoom(VcuState& v, const Command& c, size_t& staging);
  // Finds the runs of a VCU whose device captures.
  Status PrepareReplay(VcuState& v);
  Status StageCommands(VcuState& v);
  void BuildReplay(VcuState& v, const CommandRun& run, Replay& replay);
  // The lane's part of a step in runs.
  void ReplayLane(VcuState& v, int lane, uint32_t round);
  // Its whole, where there is one VCU and one run: on the caller's thread.
  Status RunAlone(VcuState& v);
  Status RunOnce(VcuState& v, size_t run);
  // The host's parts of a feed and of a snapshot whose bytes are staged.
  Status FillFeed(VcuState& v, int index);
  Status TakeSnapshot(VcuState& v, int index);
  void LaneLoop(VcuState& v, int lane);
  // Runs the command, unless another has failed, and notes its times and its error.
  void RunNoted(VcuState& v, int lane, int index);
  Status RunCommand(VcuState& v, int lane, int index);
  Status RunCompute(VcuState& v, int lane, int index);
  // Whether the command's condition holds.
  StatusOr<bool> Holds(VcuState& v, int lane, const Command& c);
  Range PredicateOf(const VcuState& v, const Command& c) const;
  // Notes the first of the call's operands that is not finite.
  Status CheckCall(VcuState& v, int lane, int index, const Call& call, bool outputs);
  Status RunSend(VcuState& v, int lane, const Command& c);
  Status RunRecv(VcuState& v, int lane, const Command& c);
  Status RunCollective(VcuState& v, int lane, const Command& c);
  Status PlaceOwnPiece(VcuState& v, int lane, const Command& c, std::span<std::byte> data);
  Status RunCopy(VcuState& v, int lane, const Command& c);
  // Host memory for a range: in place, or the lane's staging after a copy.
  StatusOr<std::span<std::byte>> HostBytes(VcuState& v, int lane, const Range& range, bool read);
  Status WriteBack(VcuState& v, int lane, const Range& range, std::span<std::byte> bytes);
  Status Synchronize(VcuState& v, int lane, double more_seconds = 0);
  void Fail(const Status& status, CommandKind kind);
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  const Program& program_;
  ExecutorOptions options_;
  std::vector<std::unique_ptr<VcuState>> vcus_;
  StepHost* host_ = nullptr;
  std::atomic<uint32_t> round_{0};
  std::atomic<uint32_t> running_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  bool checking_ = false;  // during FindNonFinite
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  Status status_;
  bool computed_ = false;  // status_ is of a computation
};

}  // namespace oc

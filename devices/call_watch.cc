#include "openclaw/devices/call_watch.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

namespace oc {
namespace {

// Of the last tick: some milliseconds old, and cheap enough for every op.
int64_t CoarseNanos() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

// Instead of the time at which a call began.
constexpr int64_t kNoCall = 0;
constexpr int64_t kClaimed = -1;   // a watch reads the slot: its thread waits before it goes on
constexpr int64_t kReported = -2;  // and has told

// Signal frames hold all vector and tile registers.
constexpr size_t kSignalStack = size_t{64} << 10;

// A thread's note. `began` publishes the rest: a watch reads it only where it has set `began` to
// kClaimed, and then the thread, which is in the call, does not write.
struct Slot {
  std::atomic<int64_t> began{kNoCall};
  std::atomic<DeviceCall::Kind> kind{DeviceCall::Kind::kQuick};
  std::atomic<double> timeout_seconds{0};
  const char *device = nullptr, *call = nullptr, *of = nullptr;
  const char *vcu = nullptr, *command = nullptr, *name = nullptr;
  int micro_batch = -1;

  std::atomic<bool> taken{true};  // by a thread that lives
  Slot* next = nullptr;
  char signal_stack[kSignalStack];
};

// All slots that ever were; those of threads that ended are taken again.
std::atomic<Slot*> slots{nullptr};
std::atomic<bool> crash_reports{false};
// Read by the handler of a signal: no code may run to find it.
__attribute__((tls_model("initial-exec"))) thread_local constinit Slot* own_slot = nullptr;

Slot* TakeSlot() {
  for (Slot* s = slots.load(std::memory_order_acquire); s != nullptr; s = s->next) {
    bool free = false;
    if (s->taken.compare_exchange_strong(free, true, std::memory_order_acq_rel)) return s;
  }
  Slot* s = new Slot;
  s->next = slots.load(std::memory_order_relaxed);
  while (!slots.compare_exchange_weak(s->next, s, std::memory_order_acq_rel)) {
  }
  return s;
}

// Gives the thread's slot back when the thread ends.
struct SlotOwner {
  ~SlotOwner() {
    if (own_slot == nullptr) return;
    if (has_signal_stack) {
      stack_t none = {};
      none.ss_flags = SS_DISABLE;
      sigaltstack(&none, nullptr);
    }
    Slot* s = own_slot;
    own_slot = nullptr;
    s->taken.store(false, std::memory_order_release);
  }
  bool has_signal_stack = false;
};
thread_local SlotOwner slot_owner;

// A thread whose stack has overflown reports on another one.
void UseSignalStack(Slot& slot) {
  stack_t old = {};
  if (sigaltstack(nullptr, &old) != 0 || (old.ss_flags & SS_DISABLE) == 0) return;
  stack_t stack = {};
  stack.ss_sp = slot.signal_stack;
  stack.ss_size = kSignalStack;
  slot_owner.has_signal_stack = sigaltstack(&stack, nullptr) == 0;
}

Slot& OwnSlot() {
  if (own_slot == nullptr) {
    Slot* s = TakeSlot();
    own_slot = s;
    slot_owner.has_signal_stack = false;
    if (crash_reports.load(std::memory_order_relaxed)) UseSignalStack(*s);
  }
  return *own_slot;
}

std::string Describe(const Slot& s) {
  std::string text = absl::StrCat(s.device, ", ", s.call, s.of[0] == 0 ? "" : " ", s.of);
  if (s.vcu == nullptr) return text;
  absl::StrAppend(&text, " (VCU ", s.vcu, ", ", s.command, s.name[0] == 0 ? "" : " ", s.name);
  if (s.micro_batch >= 0) absl::StrAppend(&text, " of micro-batch ", s.micro_batch);
  return text + ")";
}

}  // namespace

DeviceCall::DeviceCall(const char* device, const char* call, const char* of, Kind kind,
                       double timeout_seconds)
    : began_nanos_(CoarseNanos()) {
  Slot& s = OwnSlot();
  s.device = device;
  s.call = call;
  s.of = of;
  s.kind.store(kind, std::memory_order_relaxed);
  s.timeout_seconds.store(timeout_seconds, std::memory_order_relaxed);
  s.began.store(began_nanos_, std::memory_order_release);
}

DeviceCall::~DeviceCall() {
  Slot& s = OwnSlot();
  int64_t began = began_nanos_;
  if (s.began.compare_exchange_strong(began, kNoCall, std::memory_order_acq_rel)) return;
  while (s.began.load(std::memory_order_acquire) == kClaimed) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  s.began.store(kNoCall, std::memory_order_release);
}

CallPurpose::CallPurpose(const char* vcu, const char* command, const char* name, int micro_batch) {
  Slot& s = OwnSlot();
  s.vcu = vcu;
  s.command = command;
  s.name = name;
  s.micro_batch = micro_batch;
}

CallPurpose::~CallPurpose() { OwnSlot().vcu = nullptr; }

// ---- Calls that never return ----

namespace {

class CallWatchThread : public CallWatch {
 public:
  CallWatchThread(const CallWatchOptions& options, OnStuck on_stuck)
      : options_(options), on_stuck_(std::move(on_stuck)), thread_([this] { Loop(); }) {}
  ~CallWatchThread() override {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  double Limit(const Slot& s) const {
    double limit = options_.timeout_seconds;
    const DeviceCall::Kind kind = s.kind.load(std::memory_order_relaxed);
    if (kind == DeviceCall::Kind::kSlow) limit = options_.slow_seconds;
    if (kind == DeviceCall::Kind::kTimed) limit = s.timeout_seconds.load(std::memory_order_relaxed);
    return limit + std::max(options_.grace_seconds, limit / 8);
  }

  void Loop() {
    const auto period = std::chrono::duration<double>(
        std::clamp((options_.timeout_seconds + options_.grace_seconds) / 20, 0.01, 0.25));
    std::unique_lock<std::mutex> lock(mutex_);
    int64_t before = CoarseNanos();
    while (!changed_.wait_for(lock, period, [this] { return stopping_; })) {
      // Where this thread stood still, so did the whole process (stopped, or in a debugger): calls
      // count from then on.
      const int64_t now = CoarseNanos();
      if (static_cast<double>(now - before) * 1e-9 > 1 + 4 * period.count()) resumed_ = now;
      before = now;
      for (Slot* s = slots.load(std::memory_order_acquire); s != nullptr; s = s->next) Look(*s);
    }
  }

  void Look(Slot& s) {
    int64_t began = s.began.load(std::memory_order_acquire);
    if (began <= kNoCall) return;
    const double seconds = static_cast<double>(CoarseNanos() - std::max(began, resumed_)) * 1e-9;
    if (seconds <= Limit(s)) return;
    if (!s.began.compare_exchange_strong(began, kClaimed, std::memory_order_acq_rel)) return;
    const std::string what = Describe(s);
    // The call's thread, should it come back, waits no longer than this takes.
    s.began.store(kReported, std::memory_order_release);
    on_stuck_(absl::DeadlineExceededError(
        absl::StrCat(what, " has not returned for ", static_cast<int64_t>(seconds * 10) / 10.0,
                     " s: the device, its driver or plugin hangs, or is so slow that the timeout "
                     "must be longer")));
  }

  CallWatchOptions options_;
  OnStuck on_stuck_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;  // guarded by mutex_
  int64_t resumed_ = 0;    // when the process was last seen to go on after a stop
  std::thread thread_;     // last: it uses all others
};

}  // namespace

std::unique_ptr<CallWatch> CallWatch::Start(const CallWatchOptions& options, OnStuck on_stuck) {
  return std::make_unique<CallWatchThread>(options, std::move(on_stuck));
}

// ---- Crashes ----

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr const char* kSignalNames[] = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT"};
struct sigaction old_actions[std::size(kSignals)];

// What may be called by a signal's handler: one line in a buffer, then one write.
class SignalLine {
 public:
  void Add(const char* text) {
    while (text != nullptr && *text != 0 && size_ + 1 < sizeof(text_)) text_[size_++] = *text++;
  }
  void Add(int number) {
    char digits[12];
    int n = 0;
    do {
      digits[n++] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    while (n > 0 && size_ + 1 < sizeof(text_)) text_[size_++] = digits[--n];
  }
  void Write() {
    text_[size_++] = '\n';
    (void)!write(STDERR_FILENO, text_, size_);
  }

 private:
  char text_[1024];
  size_t size_ = 0;
};

void OnCrash(int signal, siginfo_t* info, void*) {
  size_t i = 0;
  while (i + 1 < std::size(kSignals) && kSignals[i] != signal) ++i;
  SignalLine line;
  line.Add("crashed with ");
  line.Add(kSignalNames[i]);
  const Slot* s = own_slot;
  if (s != nullptr && s->began.load(std::memory_order_relaxed) != kNoCall) {
    line.Add(" in ");
    line.Add(s->device);
    line.Add(", ");
    line.Add(s->call);
    line.Add(s->of[0] == 0 ? "" : " ");
    line.Add(s->of);
  } else {
    line.Add(" outside of the calls to devices (it may be a device's own thread)");
  }
  if (s != nullptr && s->vcu != nullptr) {
    line.Add(" (VCU ");
    line.Add(s->vcu);
    line.Add(", ");
    line.Add(s->command);
    line.Add(s->name[0] == 0 ? "" : " ");
    line.Add(s->name);
    if (s->micro_batch >= 0) {
      line.Add(" of micro-batch ");
      line.Add(s->micro_batch);
    }
    line.Add(")");
  }
  line.Write();
  // It comes again once this returns, to whom it would have come before: a fault by itself.
  sigaction(signal, &old_actions[i], nullptr);
  if (info->si_code <= 0) raise(signal);
}

}  // namespace

void InstallCrashReports() {
  if (crash_reports.exchange(true)) return;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction action = {};
    action.sa_sigaction = OnCrash;
    action.sa_flags = SA_ONSTACK | SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(kSignals[i], &action, &old_actions[i]);
  }
}

}  // namespace oc

#include "openclaw/devices/host/worker_pool.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "openclaw/core/status.h"

namespace oc {

WorkRange SplitWork(int64_t n, int64_t grain, int parts, int part) {
  const int64_t units = (n + grain - 1) / grain;
  const int64_t per_part = units / parts, extra = units % parts;
  const int64_t first = per_part * part + std::min<int64_t>(part, extra);
  const int64_t count = per_part + (part < extra ? 1 : 0);
  return {std::min(first * grain, n), std::min((first + count) * grain, n)};
}

namespace {

void BindThread(const std::vector<int>& cores, int worker) {
  omp_set_num_threads(1);
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cores[worker % cores.size()], &set);
  // A core that is offline or not ours leaves the thread where the system puts it.
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

}  // namespace

namespace {
std::atomic<uint64_t> pools{0};  // made so far
}

struct WorkerPool::State {
  // An address may be that of a pool which is gone: a thread remembers this.
  const uint64_t id = pools.fetch_add(1) + 1;
  // Raised to start a round. Workers sleep on it (a futex); short rounds are caught by spinning.
  std::atomic<uint32_t> round{0};
  std::atomic<uint32_t> pending{0};
  std::atomic<bool> stop{false};
  Function function = nullptr;
  const void* context = nullptr;
  std::vector<std::thread> workers;
};

namespace {
constexpr int kSpins = 2000;  // some microseconds

// Waits until *word differs from `old`.
uint32_t AwaitChange(std::atomic<uint32_t>& word, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    const uint32_t now = word.load(std::memory_order_acquire);
    if (now != old) return now;
    __builtin_ia32_pause();
  }
  word.wait(old, std::memory_order_acquire);
  return word.load(std::memory_order_acquire);
}
}  // namespace

WorkerPool::WorkerPool(int threads, std::vector<int> cores)
    : threads_(threads), cores_(std::move(cores)), state_(std::make_unique<State>()) {
  OC_CHECK(threads >= 1, threads);
  for (int worker = 1; worker < threads_; ++worker) {
    state_->workers.emplace_back([this, worker] {
      BindThread(cores_, worker);
      uint32_t seen = 0;
      for (;;) {
        seen = AwaitChange(state_->round, seen);
        if (state_->stop.load(std::memory_order_acquire)) return;
        state_->function(state_->context, worker);
        if (state_->pending.fetch_sub(1, std::memory_order_acq_rel) == 1) {
          state_->pending.notify_one();
        }
      }
    });
  }
}

WorkerPool::~WorkerPool() {
  state_->stop.store(true, std::memory_order_release);
  state_->round.fetch_add(1, std::memory_order_acq_rel);
  state_->round.notify_all();
  for (std::thread& t : state_->workers) t.join();
}

void WorkerPool::BindCaller() const {
  thread_local uint64_t bound = 0;
  if (bound == state_->id) return;
  bound = state_->id;
  BindThread(cores_, 0);
}

void WorkerPool::RunErased(Function function, const void* context) {
  if (threads_ == 1) {
    function(context, 0);
    return;
  }
  state_->function = function;
  state_->context = context;
  state_->pending.store(static_cast<uint32_t>(threads_ - 1), std::memory_order_release);
  state_->round.fetch_add(1, std::memory_order_acq_rel);
  state_->round.notify_all();
  function(context, 0);
  for (uint32_t left = state_->pending.load(std::memory_order_acquire); left != 0;) {
    left = AwaitChange(state_->pending, left);
  }
}

}  // namespace oc

// The threads of one host VCU: a fork-join pool. The calling thread is worker 0. OpenMP libraries
// called inside run single-threaded on every worker (a team beside a pool costs ten times the
// call's own time: idle OpenMP threads spin), so the framework alone splits the work.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace oc {

// Splits 0..n-1 into `parts` ranges as even as possible, each but the last a multiple of `grain`.
struct WorkRange {
  int64_t begin = 0;
  int64_t end = 0;
};
WorkRange SplitWork(int64_t n, int64_t grain, int parts, int part);

class WorkerPool {
 public:
  // `cores`: logical processors, worker i is pinned to cores[i % size]; empty: not pinned. The
  // calling thread is pinned by BindCaller.
  WorkerPool(int threads, std::vector<int> cores);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;

  int threads() const { return threads_; }
  // Pins the calling thread as worker 0 and tells OpenMP there to use one thread. Idempotent a
  // thread.
  void BindCaller() const;

  // Runs f(worker) on every worker and returns when all are done. f must not throw and must not
  // call Run. One caller at a time. Allocates nothing.
  template <typename F>
  void Run(const F& f) {
    RunErased([](const void* context, int worker) { (*static_cast<const F*>(context))(worker); },
              &f);
  }
  // f(begin, end) over parts of 0..n-1; parts smaller than `grain` are not made.
  template <typename F>
  void ParallelFor(int64_t n, int64_t grain, const F& f) {
    if (threads_ == 1 || n <= grain) {
      if (n > 0) f(int64_t{0}, n);
      return;
    }
    Run([&](int worker) {
      const WorkRange r = SplitWork(n, grain, threads_, worker);
      if (r.begin < r.end) f(r.begin, r.end);
    });
  }

 private:
  using Function = void (*)(const void*, int);
  void RunErased(Function function, const void* context);
  struct State;

  int threads_;
  std::vector<int> cores_;
  std::unique_ptr<State> state_;
};

}  // namespace oc

// Prefetches the micro-batches that this process wants, on threads of its own.
//
//   OC_ASSIGN_OR_RETURN(auto loader, Loader::Create(*data.train, {.order = {.micro_batch = 32,
//       .micro_batches = 4, .seed = 1}, .mine = {0, 2}, .first_step = resumed_step}));
//   OC_ASSIGN_OR_RETURN(std::span<const MicroBatch> batches, loader->NextStep());  // 0 and 2
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "openclaw/core/status.h"
#include "openclaw/runtime/data/dataset.h"
#include "openclaw/runtime/data/micro_batch.h"
#include "openclaw/runtime/data/order.h"

namespace oc {

struct LoaderOptions {
  SampleOrderOptions order;   // its size is taken from the data set
  std::vector<int64_t> mine;  // logical micro-batches of each step, in the order wanted; empty: all
  int64_t first_step = 0;     // where a resumed run goes on
  std::optional<int64_t> steps;  // how many; none: endless if shuffled, else to the end of the pass
  int workers = 1;               // threads
  int64_t prefetch_steps =
      1;  // that are loaded ahead of the step in use; raised to busy all workers
  double timeout_seconds = 60;  // of Next and NextStep
};

// A ring of micro-batches, allocated by Create: afterwards nothing is allocated. What comes is a
// function of the options and the data set alone; the number of workers changes only the time.
//
// Thread safety: Next and NextStep are called by one thread at a time; the micro-batches that they
// gave may be read by any. The accessors are for the same thread.
class Loader {
 public:
  // Reads `dataset` until all `steps` are loaded, or the loader ends: nothing beyond the last of
  // them. kInvalidArgument: sizes not positive, a micro-batch number
  // out of range or twice.
  static StatusOr<std::unique_ptr<Loader>> Create(const Dataset& dataset, LoaderOptions options);
  // Waits for the reads in progress, drops the rest.
  ~Loader();

  // The next micro-batch of `mine`, step after step; valid until the next call of either. Blocks;
  // kDeadlineExceeded after the timeout, kOutOfRange after the last one. The error of a read comes
  // when its micro-batch is due, and stays.
  StatusOr<const MicroBatch*> Next();
  // All micro-batches of `mine` for the next step, in that order; otherwise as Next.
  // kFailedPrecondition in the middle of a step.
  StatusOr<std::span<const MicroBatch>> NextStep();

  const SampleOrder& order() const { return order_; }
  // The step of what comes next: first_step of a loader that goes on from here.
  int64_t position() const;
  // Whether nothing comes any more.
  bool at_end() const { return next_ == end_; }
  // Seconds that Next and NextStep have blocked, in total.
  double wait_seconds() const { return wait_seconds_; }
  // Memory of the ring.
  int64_t buffer_bytes() const;

 private:
  Loader(const Dataset& dataset, LoaderOptions options);
  void Work(int worker);
  Status Await(int64_t count);

  LoaderOptions options_;
  SampleOrder order_;
  int64_t end_;  // tickets in all; ticket t is micro-batch mine[t % mine.size()]

  // Ticket t lies in slot t % slots_.size(). A worker owns the slot of the ticket that it took
  // until done_ holds t; the consumer owns tickets [released_, next_).
  std::vector<MicroBatch> slots_;
  std::vector<std::vector<int64_t>> scratch_;  // indices, one a worker
  std::vector<int64_t> done_;                  // the ticket that the slot holds, -1 for none
  std::vector<Status> statuses_;

  std::mutex mutex_;
  std::condition_variable space_, ready_;
  int64_t taken_ = 0, released_ = 0, next_ = 0;
  bool stop_ = false;
  double wait_seconds_ = 0;
  std::vector<std::thread> workers_;
};

}  // namespace oc

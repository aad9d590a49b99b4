#include "openclaw/runtime/data/loader.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <numeric>
#include <utility>

#include "openclaw/core/clock.h"

namespace oc {

StatusOr<std::unique_ptr<Loader>> Loader::Create(const Dataset& dataset, LoaderOptions options) {
  options.order.size = dataset.size();
  OC_RETURN_IF_ERROR(SampleOrder::Validate(options.order));
  if (options.mine.empty()) {
    options.mine.resize(options.order.micro_batches);
    std::iota(options.mine.begin(), options.mine.end(), 0);
  }
  std::vector<int64_t> sorted = options.mine;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.front() < 0 || sorted.back() >= options.order.micro_batches ||
      std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return InvalidArgument("load data: the wanted micro-batches must be distinct and in 0..",
                           options.order.micro_batches - 1);
  }
  if (options.first_step < 0 || options.steps.value_or(0) < 0) {
    return InvalidArgument("load data: first step ", options.first_step, " and ",
                           options.steps.value_or(0), " steps must not be negative");
  }
  options.workers = std::max(options.workers, 1);
  const auto mine = static_cast<int64_t>(options.mine.size());
  options.prefetch_steps =
      std::max({options.prefetch_steps, int64_t{1}, (options.workers + mine - 1) / mine});
  return std::unique_ptr<Loader>(new Loader(dataset, std::move(options)));
}

Loader::Loader(const Dataset& dataset, LoaderOptions options)
    : options_(std::move(options)), order_(options_.order) {
  const auto mine = static_cast<int64_t>(options_.mine.size());
  int64_t steps = std::numeric_limits<int64_t>::max() / mine;
  if (!options_.order.shuffle) {
    steps = std::max<int64_t>(0, order_.steps_per_pass() - options_.first_step);
  }
  end_ = std::min(steps, options_.steps.value_or(steps)) * mine;

  // A multiple of a step's tickets, so that a step is contiguous.
  const int64_t slots = (1 + options_.prefetch_steps) * mine;
  slots_.reserve(slots);
  for (int64_t i = 0; i < slots; ++i) slots_.emplace_back(dataset, options_.order.micro_batch);
  done_.assign(slots, -1);
  statuses_.resize(slots);
  scratch_.assign(options_.workers, std::vector<int64_t>(options_.order.micro_batch));
  for (int i = 0; i < options_.workers; ++i) workers_.emplace_back([this, i] { Work(i); });
}

Loader::~Loader() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  space_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Loader::Work(int worker) {
  const auto mine = static_cast<int64_t>(options_.mine.size());
  const auto slots = static_cast<int64_t>(slots_.size());
  std::vector<int64_t>& indices = scratch_[worker];
  std::unique_lock lock(mutex_);
  while (true) {
    space_.wait(lock, [&] { return stop_ || taken_ == end_ || taken_ < released_ + slots; });
    if (stop_ || taken_ == end_) return;
    const int64_t ticket = taken_++;
    lock.unlock();

    MicroBatch& slot = slots_[ticket % slots];
    slot.step = options_.first_step + ticket / mine;
    slot.number = options_.mine[ticket % mine];
    const int64_t count = order_.Indices(slot.step, slot.number, indices);
    Status status = slot.Fill(std::span(indices).first(count));
    if (!status.ok()) {
      status = Annotate(status,
                        absl::StrCat("load data: step ", slot.step, ", micro-batch ", slot.number));
    }

    lock.lock();
    const bool failed = !status.ok();
    statuses_[ticket % slots] = std::move(status);
    done_[ticket % slots] = ticket;
    ready_.notify_all();
    if (failed) return;  // the consumer never gets past this ticket
  }
}

// Gives back what was given before and waits until tickets [next_, next_ + count) are loaded.
Status Loader::Await(int64_t count) {
  const auto slots = static_cast<int64_t>(slots_.size());
  const double begin = NowSeconds();
  std::unique_lock lock(mutex_);
  if (next_ + count > end_) return absl::OutOfRangeError("load data: no more micro-batches");
  released_ = next_;
  space_.notify_all();
  for (int64_t ticket = next_; ticket < next_ + count; ++ticket) {
    const bool in_time =
        ready_.wait_for(lock, std::chrono::duration<double>(options_.timeout_seconds),
                        [&] { return done_[ticket % slots] == ticket; });
    if (!in_time) {
      const auto mine = static_cast<int64_t>(options_.mine.size());
      return absl::DeadlineExceededError(
          absl::StrCat("load data: step ", options_.first_step + ticket / mine, ", micro-batch ",
                       options_.mine[ticket % mine], " is not there after ",
                       options_.timeout_seconds, " seconds: a read of the data set is stuck"));
    }
    OC_RETURN_IF_ERROR(statuses_[ticket % slots]);
  }
  next_ += count;
  wait_seconds_ += NowSeconds() - begin;
  return OkStatus();
}

StatusOr<const MicroBatch*> Loader::Next() {
  OC_RETURN_IF_ERROR(Await(1));
  return &slots_[(next_ - 1) % static_cast<int64_t>(slots_.size())];
}

StatusOr<std::span<const MicroBatch>> Loader::NextStep() {
  const auto mine = static_cast<int64_t>(options_.mine.size());
  if (next_ % mine != 0) {
    return FailedPrecondition("load data: ", next_ % mine, " of the ", mine,
                              " micro-batches of step ", position(), " were taken one by one");
  }
  OC_RETURN_IF_ERROR(Await(mine));
  return std::span<const MicroBatch>(slots_).subspan(
      (next_ - mine) % static_cast<int64_t>(slots_.size()), mine);
}

int64_t Loader::position() const {
  return options_.first_step + next_ / static_cast<int64_t>(options_.mine.size());
}

int64_t Loader::buffer_bytes() const {
  int64_t total = 0;
  for (const MicroBatch& slot : slots_) total += slot.buffer_bytes();
  return total;
}

}  // namespace oc

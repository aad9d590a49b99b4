// Events of devices whose queues mark points: what an event is before and after it was recorded.
#pragma once

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "openclaw/devices/device.h"

namespace oc {

// The error of an event that did not come in time; `where`: the queue.
inline Status LateEvent(double timeout_seconds, const std::string& where) {
  return absl::DeadlineExceededError(
      absl::StrCat("wait for an event of ", where, ": nothing after ", timeout_seconds, " s"));
}

// Stands for a Point, which has `bool Ready() const` and `Status Wait(double timeout_seconds)`; not
// ready until one was set.
template <typename Point>
class PointEvent : public Event {
 public:
  bool Ready() const override {
    const auto p = point();
    return p != nullptr && p->Ready();
  }

  Status Wait(double timeout_seconds) override {
    const auto begin = std::chrono::steady_clock::now();
    std::shared_ptr<Point> p;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!recorded_.wait_for(lock, std::chrono::duration<double>(timeout_seconds),
                              [&] { return point_ != nullptr; })) {
        return LateEvent(timeout_seconds, "no queue, for it was not recorded");
      }
      p = point_;
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    return p->Wait(std::max(0.0, timeout_seconds - spent.count()));
  }

  void Set(std::shared_ptr<Point> point) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      point_ = std::move(point);
    }
    recorded_.notify_all();
  }

  std::shared_ptr<Point> point() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return point_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable recorded_;
  std::shared_ptr<Point> point_;  // null until recorded
};

}  // namespace oc

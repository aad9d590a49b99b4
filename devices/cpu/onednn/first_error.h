// The first error that any worker of a pool reports.
#pragma once

#include <mutex>

#include "openclaw/core/status.h"

namespace oc::onednn {

class FirstError {
 public:
  void Keep(const Status& status) {
    if (status.ok()) return;
    std::lock_guard<std::mutex> lock(mutex_);
    if (first_.ok()) first_ = status;
  }
  // After the workers are done.
  Status Take() const { return first_; }

 private:
  std::mutex mutex_;
  Status first_;
};

}  // namespace oc::onednn

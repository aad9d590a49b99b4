// The first error that any worker of a pool reports.
#pragma once

#include <cstddef>
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

// Runs f(part) for each of `parts`, one a worker of `pool`; the first error.
template <typename Pool, typename Parts, typename F>
Status RunParts(Pool& pool, Parts& parts, const F& f) {
  FirstError error;
  pool.Run([&](int worker) {
    const size_t i = static_cast<size_t>(worker);
    if (i < parts.size()) error.Keep(f(parts[i]));
  });
  return error.Take();
}

}  // namespace oc::onednn

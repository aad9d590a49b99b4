// Objects that are dear to make, kept for the next who wants one.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace oc::cuda {

// Thread-safe.
template <typename T>
class Spares {
 public:
  // Null where there is none.
  std::unique_ptr<T> Take() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) return nullptr;
    auto spare = std::move(free_.back());
    free_.pop_back();
    return spare;
  }
  void Give(std::unique_ptr<T> spare) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(spare));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
};

}  // namespace oc::cuda

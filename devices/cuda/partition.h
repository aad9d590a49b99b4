// The multiprocessors of a device, divided among slices: green contexts.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "openclaw/devices/cuda/api.h"

namespace oc::cuda {

// A set of multiprocessors that streams are made on. Kernels of such a stream run on no others.
class Share {
 public:
  ~Share();
  Share(const Share&) = delete;
  int units() const { return units_; }
  // Whether no other slice of the process has one of them.
  bool exclusive() const { return exclusive_; }
  StatusOr<cudaStream_t> CreateStream(const std::string& where) const;

 private:
  friend class Partition;
  Share() = default;
  const Driver* driver_ = nullptr;
  CUgreenCtx context_ = nullptr;
  int units_ = 0;
  bool exclusive_ = true;
  std::shared_ptr<void> lease_;  // gives the multiprocessors back
};

// Of one device. Thread-safe.
class Partition : public std::enable_shared_from_this<Partition> {
 public:
  explicit Partition(int ordinal) : ordinal_(ordinal) {}
  // About `units` multiprocessors: the device gives them in groups (of eight from compute
  // capability 9.0 on), so fewer, but one group at least, or a rest that would make no group of its
  // own. Where not that many are free, of all, shared with other slices. kFailedPrecondition where
  // the driver cannot divide the device.
  StatusOr<std::unique_ptr<Share>> Take(int units, const std::string& where);

 private:
  Status FindAll(const Driver& driver, const std::string& where);  // with mutex_ held
  // `units` of `from`, which becomes what is left.
  StatusOr<CUdevResource> Split(const Driver& driver, CUdevResource& from, int units,
                                const std::string& where) const;
  void GiveBack(const CUdevResource& part);

  const int ordinal_;
  std::mutex mutex_;
  bool known_ = false;
  CUdevResource all_{};
  std::vector<CUdevResource> free_;
  int taken_ = 0;  // parts that are in use
};

}  // namespace oc::cuda

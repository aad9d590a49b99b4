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
//
// The device is split once into the smallest groups that it has (eight multiprocessors from compute
// capability 9.0 on), and what is left over; a share is some of them. Parts of a split cannot be
// split again, so shares of all sizes can only be made up like this.
class Partition : public std::enable_shared_from_this<Partition> {
 public:
  explicit Partition(int ordinal) : ordinal_(ordinal) {}
  // About `units` multiprocessors: whole groups, fewer rather than more, but one at least. What is
  // left over of the device goes to who takes its last groups. Where not that many are free, the
  // groups that fewest have. kFailedPrecondition where the driver cannot divide the device.
  StatusOr<std::unique_ptr<Share>> Take(int units, const std::string& where);

 private:
  Status FindGroups(const Driver& driver, const std::string& where);  // with mutex_ held
  void GiveBack(size_t first, size_t count);

  const int ordinal_;
  std::mutex mutex_;
  int group_units_ = 0;
  std::vector<CUdevResource> groups_;
  CUdevResource rest_{};    // of units that make no group; none: of type invalid
  std::vector<int> users_;  // of each group
};

}  // namespace oc::cuda

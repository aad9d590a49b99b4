#include "openclaw/devices/cuda/partition.h"

#include <algorithm>

namespace oc::cuda {

Share::~Share() {
  if (context_ != nullptr) driver_->destroy(context_);
}

StatusOr<cudaStream_t> Share::CreateStream(const std::string& where) const {
  CUstream stream = nullptr;
  OC_RETURN_IF_ERROR(ToStatus(driver_->create_stream(&stream, context_, CU_STREAM_NON_BLOCKING, 0),
                              "cuGreenCtxStreamCreate", where));
  return stream;
}

Status Partition::FindAll(const Driver& driver, const std::string& where) {
  if (known_) return OkStatus();
  OC_RETURN_IF_ERROR(ToStatus(driver.get_resource(ordinal_, &all_, CU_DEV_RESOURCE_TYPE_SM),
                              "cuDeviceGetDevResource", where));
  free_ = {all_};
  known_ = true;
  return OkStatus();
}

StatusOr<CUdevResource> Partition::Split(const Driver& driver, CUdevResource& from, int units,
                                         const std::string& where) const {
  CUdevResource part{}, rest{};
  unsigned groups = 1;
  OC_RETURN_IF_ERROR(
      ToStatus(driver.split_by_count(&part, &groups, &from, &rest, 0, static_cast<unsigned>(units)),
               "cuDevSmResourceSplitByCount", where));
  if (groups != 1) return Internal("cuDevSmResourceSplitByCount: no part was made (", where, ")");
  from = rest;
  return part;
}

StatusOr<std::unique_ptr<Share>> Partition::Take(int units, const std::string& where) {
  OC_ASSIGN_OR_RETURN(const Driver* driver, GreenContexts());
  OC_RETURN_IF_ERROR(UseDevice(ordinal_, where));
  // The primary context: it is shared with all green ones, and costs much to make.
  OC_RETURN_IF_ERROR(ToStatus(cudaFree(nullptr), "cudaFree", where));
  std::unique_lock<std::mutex> lock(mutex_);
  OC_RETURN_IF_ERROR(FindAll(*driver, where));
  const int group = std::max(1, static_cast<int>(all_.sm.minSmPartitionSize));
  const int wanted = std::max(group, units / group * group);
  std::unique_ptr<Share> share(new Share);
  share->driver_ = driver;
  // The smallest that is large enough, so that large ones stay.
  const auto count = [](const CUdevResource& r) { return static_cast<int>(r.sm.smCount); };
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (count(*it) >= wanted && (best == free_.end() || count(*it) < count(*best))) best = it;
  }
  CUdevResource part{};
  if (best == free_.end()) {
    share->exclusive_ = false;
    CUdevResource all = all_;
    OC_ASSIGN_OR_RETURN(part, Split(*driver, all, wanted, where));
  } else if (count(*best) - wanted < group) {
    part = *best;
    free_.erase(best);
  } else {
    OC_ASSIGN_OR_RETURN(part, Split(*driver, *best, wanted, where));
  }
  if (share->exclusive_) {
    ++taken_;
    share->lease_ = std::shared_ptr<void>(
        nullptr, [self = shared_from_this(), part](void*) { self->GiveBack(part); });
  }
  lock.unlock();
  share->units_ = static_cast<int>(part.sm.smCount);
  CUdevResourceDesc description = nullptr;
  OC_RETURN_IF_ERROR(
      ToStatus(driver->generate_desc(&description, &part, 1), "cuDevResourceGenerateDesc", where));
  OC_RETURN_IF_ERROR(
      ToStatus(driver->create(&share->context_, description, ordinal_, CU_GREEN_CTX_DEFAULT_STREAM),
               "cuGreenCtxCreate", where));
  return share;
}

// Parts cannot be joined; once none is in use the device is whole again.
void Partition::GiveBack(const CUdevResource& part) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (--taken_ == 0) {
    free_ = {all_};
  } else {
    free_.push_back(part);
  }
}

}  // namespace oc::cuda

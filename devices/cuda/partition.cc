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

Status Partition::FindGroups(const Driver& driver, const std::string& where) {
  if (!groups_.empty()) return OkStatus();
  CUdevResource all{};
  OC_RETURN_IF_ERROR(ToStatus(driver.get_resource(ordinal_, &all, CU_DEV_RESOURCE_TYPE_SM),
                              "cuDeviceGetDevResource", where));
  const unsigned smallest = std::max(1u, all.sm.minSmPartitionSize);
  unsigned count = 0;
  OC_RETURN_IF_ERROR(ToStatus(driver.split_by_count(nullptr, &count, &all, nullptr, 0, smallest),
                              "cuDevSmResourceSplitByCount", where));
  std::vector<CUdevResource> groups(count);
  OC_RETURN_IF_ERROR(
      ToStatus(driver.split_by_count(groups.data(), &count, &all, &rest_, 0, smallest),
               "cuDevSmResourceSplitByCount", where));
  if (count == 0) return FailedPrecondition("the device has no parts (", where, ")");
  groups.resize(count);
  groups_ = std::move(groups);
  users_.assign(groups_.size(), 0);
  group_units_ = static_cast<int>(groups_[0].sm.smCount);
  return OkStatus();
}

StatusOr<std::unique_ptr<Share>> Partition::Take(int units, const std::string& where) {
  OC_ASSIGN_OR_RETURN(const Driver* driver, GreenContexts());
  OC_RETURN_IF_ERROR(UseDevice(ordinal_, where));
  // The primary context: it is shared with all green ones, and costs much to make.
  OC_RETURN_IF_ERROR(ToStatus(cudaFree(nullptr), "cudaFree", where));
  std::lock_guard<std::mutex> lock(mutex_);
  OC_RETURN_IF_ERROR(FindGroups(*driver, where));
  const size_t count =
      std::clamp<size_t>(static_cast<size_t>(units / group_units_), 1, groups_.size());
  // The first groups in a row that are used least.
  size_t first = 0;
  int fewest = -1;
  for (size_t at = 0; at + count <= groups_.size(); ++at) {
    int users = 0;
    for (size_t i = at; i < at + count; ++i) users += users_[i];
    if (fewest < 0 || users < fewest) {
      first = at;
      fewest = users;
    }
  }
  std::vector<CUdevResource> parts(groups_.begin() + static_cast<int64_t>(first),
                                   groups_.begin() + static_cast<int64_t>(first + count));
  const bool last = first + count == groups_.size();
  if (last && rest_.type == CU_DEV_RESOURCE_TYPE_SM && rest_.sm.smCount > 0) parts.push_back(rest_);
  std::unique_ptr<Share> share(new Share);
  share->driver_ = driver;
  share->exclusive_ = fewest == 0;
  for (const CUdevResource& part : parts) share->units_ += static_cast<int>(part.sm.smCount);
  CUdevResourceDesc description = nullptr;
  OC_RETURN_IF_ERROR(ToStatus(
      driver->generate_desc(&description, parts.data(), static_cast<unsigned>(parts.size())),
      "cuDevResourceGenerateDesc", where));
  OC_RETURN_IF_ERROR(
      ToStatus(driver->create(&share->context_, description, ordinal_, CU_GREEN_CTX_DEFAULT_STREAM),
               "cuGreenCtxCreate", where));
  for (size_t i = first; i < first + count; ++i) ++users_[i];
  share->lease_ = std::shared_ptr<void>(
      nullptr, [self = shared_from_this(), first, count](void*) { self->GiveBack(first, count); });
  return share;
}

void Partition::GiveBack(size_t first, size_t count) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = first; i < first + count; ++i) --users_[i];
}

}  // namespace oc::cuda

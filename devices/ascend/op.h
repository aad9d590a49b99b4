// A prepared op: its plan's calls made ready, and its constants on the device.
#pragma once

#include "openclaw/devices/ascend/call.h"
#include "openclaw/devices/ascend/queue.h"

namespace oc::ascend {

class AscendOp : public PreparedOp {
 public:
  // One run: the memory of the operands, and a stream of the slice's device, which is the calling
  // thread's.
  struct Call {
    std::span<char*const> inputs, outputs;
    char* workspace = nullptr;
    Stream stream = nullptr;
  };

  // kUnimplemented where an operator refuses its arguments, or the toolkit lacks it.
  static StatusOr<std::unique_ptr<PreparedOp>> Create(const AscendSlice& slice,
                                                      const OpRequest& request, const Plan& plan);
  // Whether Create would: takes no memory of the device.
  static Status Check(const AscendSlice& slice, const OpRequest& request, const Plan& plan);

  int64_t workspace_bytes() const override { return workspace_bytes_; }
  const char* implementation() const override { return "aclnn"; }
  // The device is told to when it is opened (device.cc).
  bool deterministic() const override { return true; }
  // By where in the workspace the numbers lie.
  const std::vector<std::pair<int64_t, std::shared_ptr<const DataCheck>>>& checks() const {
    return checks_;
  }

  // Enqueues all calls. Any thread; of several runs at once each is whole.
  Status Run(const Call& call);

 private:
  AscendOp() = default;
  Status MakeCalls(const AscendSlice& slice, const OpRequest& request, const Plan& plan);
  char* AddressOf(const Place& place, const Call& call) const;

  std::string where_;
  std::unique_ptr<DeviceMemory> constants_;  // may be null
  std::vector<std::unique_ptr<ReadyCall>> calls_;
  std::vector<std::pair<int64_t, std::shared_ptr<const DataCheck>>> checks_;
  int64_t workspace_bytes_ = 0;
  int64_t scratch_ = 0;           // where the operators' own workspace begins
  std::mutex mutex_;              // an executor's addresses are set, then it is launched
  std::vector<char*> addresses_;  // of the call that is launched; guarded by mutex_
};

}  // namespace oc::ascend

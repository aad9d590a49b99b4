// The two kinds of stand-in. Internal to devices/substitute.cc.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "openclaw/devices/device.h"

namespace oc {

class SubstituteOp : public PreparedOp {
 public:
  virtual Status Enqueue(Queue& queue, std::span<const BufferRange> inputs,
                         std::span<const BufferRange> outputs, BufferRange workspace) = 0;
};

// Runs `op` on `queue`, whether it is the device's own or a stand-in.
Status EnqueueAny(Queue& queue, PreparedOp& op, std::span<const BufferRange> inputs,
                  std::span<const BufferRange> outputs, BufferRange workspace);

// Whether it is an op of MakeHostOp.
bool RunsOnHost(const PreparedOp& op);

using PrepareFunction = std::function<StatusOr<std::unique_ptr<PreparedOp>>(const OpRequest&)>;

// The op as simpler ops, each from `prepare`; values between them lie in the workspace.
// kUnimplemented: there is no decomposition, or one of its ops cannot be prepared (says which).
StatusOr<std::unique_ptr<SubstituteOp>> MakeDecomposedOp(const OpRequest& request,
                                                         const PrepareFunction& prepare);

// Memory of the host for the operands of one op at a time: as large as the largest needs.
struct HostStaging {
  std::mutex mutex;  // held while an op runs
  std::unique_ptr<Buffer> buffer;
};

// The op on `host`, with copies through `staging`. `device` makes the events that tell when copies
// are done. kUnimplemented: `host` lacks it too, or it has outputs in a form of its own.
StatusOr<std::unique_ptr<SubstituteOp>> MakeHostOp(const OpRequest& request, Slice& device,
                                                   Slice& host,
                                                   std::shared_ptr<HostStaging> staging,
                                                   double timeout_seconds);

}  // namespace oc

// What the kernels of host devices (reference, cpu, sim) implement. A leaf is a list of kernel
// factories by op name; HostDevice (host_device.h) does the rest.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "openclaw/devices/device.h"
#include "openclaw/devices/host/worker_pool.h"

namespace oc {

// Raw memory of one call, in the order of the op's inputs and outputs.
struct KernelArgs {
  const std::byte* const* inputs = nullptr;
  std::byte* const* outputs = nullptr;
  std::byte* workspace = nullptr;
  WorkerPool& pool;

  template <typename T>
  const T* in(int i) const {
    return reinterpret_cast<const T*>(inputs[i]);
  }
  template <typename T>
  T* out(int i) const {
    return reinterpret_cast<T*>(outputs[i]);
  }
};

class HostKernel : public PreparedOp {
 public:
  // Runs to the end; allocates nothing. Errors are those of data: a label beyond the classes.
  virtual Status Run(const KernelArgs& args) = 0;
  // What the registry that made it declares of it.
  bool deterministic() const final { return deterministic_; }
  void set_deterministic(bool deterministic) { deterministic_ = deterministic; }

 private:
  bool deterministic_ = false;
};

// The request's dtypes and shapes were inferred; a factory that lacks a dtype or variant answers
// kUnimplemented, and the next registry of the device is asked. `threads`: workers of the pool.
using KernelFactory =
    std::function<StatusOr<std::unique_ptr<HostKernel>>(const OpRequest& request, int threads)>;

struct KernelEntry {
  KernelFactory create;
  uint32_t accumulable = 0;    // outputs that the kernel can add to (bit i), where the op allows
  bool sum_types = false;      // the kernel knows of sums in another type (WantsSumType)
  bool deterministic = false;  // its results repeat bit by bit (KernelRegistry::Deterministic)
};

class KernelRegistry {
 public:
  void Add(const std::string& op, KernelFactory create, uint32_t accumulable = 0,
           bool sum_types = false) {
    entries_[op] = {std::move(create), accumulable, sum_types, /*deterministic=*/false};
  }
  // Declares of all kernels that were added: with the same threads they repeat their results bit by
  // bit. They split work by its size alone and sum in a fixed order.
  void Deterministic() {
    for (auto& [op, entry] : entries_) entry.deterministic = true;
  }
  const KernelEntry* Find(const std::string& op) const {
    auto it = entries_.find(op);
    return it == entries_.end() ? nullptr : &it->second;
  }
  const std::map<std::string, KernelEntry>& entries() const { return entries_; }

 private:
  std::map<std::string, KernelEntry> entries_;
};

// Asked in order: an op that the first lacks, or has only code of that may not repeat its results
// where that is wanted, falls to the next.
using KernelRegistries = std::vector<std::shared_ptr<const KernelRegistry>>;
// Errors of the factories; kUnimplemented names the op and `where`, the slice's kind.
StatusOr<std::unique_ptr<HostKernel>> CreateKernel(const KernelRegistries& registries,
                                                   const OpRequest& request, int threads,
                                                   const std::string& where);
// Slice::Support of a device with these kernels.
StatusOr<OpSupport> KernelSupport(const KernelRegistries& registries, const OpRequest& request,
                                  int threads, const std::string& where);

// A kernel from a function of (request, args), for ops that need no state and no workspace.
using KernelFunction = Status (*)(const OpRequest& request, const KernelArgs& args);
KernelFactory StatelessKernel(KernelFunction function, const char* implementation);

}  // namespace oc

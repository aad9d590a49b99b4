// A simulated unit that lacks most ops: what stands in for them is under test.
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include "leaves.h"
#include "openclaw/devices/reference/reference.h"
#include "openclaw/devices/sim/sim.h"
#include "openclaw/devices/substitute.h"

namespace oc::parity {
namespace {

// All ops that have a decomposition, and those that run on the host for want of one.
std::string Lacks() {
  std::vector<std::string> lacks;
  for (const std::string& name : BuiltinOps()->names()) {
    bool composed = BuiltinOps()->Find(name)->decompose != nullptr;
    for (const char* part : {"norm", "attention", "conv2d", "pool2d", "embedding", "entropy",
                             "dropout", "rope", "concat"}) {
      composed |= name.find(part) != std::string::npos;
    }
    if (composed) lacks.push_back(name);
  }
  return absl::StrJoin(lacks, ",");
}

class LackingDevice : public Device {
 public:
  LackingDevice(std::unique_ptr<Device> sim, std::unique_ptr<Device> host)
      : sim_(std::move(sim)), host_(std::move(host)) {}
  const DeviceInfo& info() const override { return sim_->info(); }
  StatusOr<std::unique_ptr<Slice>> CreateSlice(const SliceOptions& options) override {
    if (host_slice_ == nullptr) {
      OC_ASSIGN_OR_RETURN(host_slice_, host_->CreateSlice({.threads = 1}));
    }
    SliceOptions lacking = options;
    lacking.options["lacks"] = Lacks();
    OC_ASSIGN_OR_RETURN(auto slice, sim_->CreateSlice(lacking));
    return WithSubstitutes(std::move(slice), [this] { return host_slice_.get(); });
  }

 private:
  std::unique_ptr<Device> sim_, host_;
  std::unique_ptr<Slice> host_slice_;
};

StatusOr<std::vector<std::unique_ptr<Device>>> Discover() {
  OC_ASSIGN_OR_RETURN(auto sims, DiscoverSim({ReferenceKernels()}));
  OC_ASSIGN_OR_RETURN(auto hosts, DiscoverReference());
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(std::make_unique<LackingDevice>(std::move(sims[0]), std::move(hosts[0])));
  return devices;
}

}  // namespace

std::vector<LeafUnderTest> LeavesUnderTest() { return {{{"substitute", &Discover}, {1}}}; }

}  // namespace oc::parity

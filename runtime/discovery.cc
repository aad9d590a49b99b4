#include "openclaw/runtime/discovery.h"

#include <absl/strings/str_join.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "openclaw/core/child.h"

namespace oc {
namespace {

using nlohmann::json;

// ---- Finding ----

std::string Dump(const json& line) {
  return line.dump(-1, ' ', false, json::error_handler_t::replace);
}

// In the child: all that it learns, as one JSON text.
void TellDevices(const DeviceLeaf& leaf, const Tell& tell) {
  const auto devices = leaf.discover();
  if (!devices.ok()) {
    tell(Dump({{"code", static_cast<int>(devices.status().code())},
               {"message", std::string(devices.status().message())}}));
    return;
  }
  json list = json::array();
  for (const auto& device : *devices) {
    const DeviceInfo& info = device->info();
    list.push_back({{"name", info.name},
                    {"model", info.model},
                    {"threads", info.threads},
                    {"cores", info.cores},
                    {"memory_bytes", info.memory_bytes}});
  }
  tell(Dump({{"devices", list}}));
}

StatusOr<std::vector<DeviceInfo>> ReadDevices(const std::string& leaf, const std::string& told) {
  std::vector<DeviceInfo> infos;
  try {
    const json answer = json::parse(told);
    if (answer.contains("code")) {
      return absl::Status(static_cast<absl::StatusCode>(answer.at("code").get<int>()),
                          answer.at("message").get<std::string>());
    }
    for (const json& d : answer.at("devices")) {
      infos.push_back({.name = d.at("name"),
                       .leaf = leaf,
                       .model = d.at("model"),
                       .threads = d.at("threads"),
                       .cores = d.at("cores").get<std::vector<int>>(),
                       .memory_bytes = d.at("memory_bytes")});
    }
  } catch (const json::exception& e) {
    return Internal("its devices were told as no list: ", e.what());
  }
  if (infos.empty()) return FailedPrecondition("it finds no device");
  return infos;
}

// ---- Dividing ----

// The processors whose cores the device computes with; null: it has units of its own.
const DeviceInfo* SameCores(const DeviceInfo& device, const std::vector<DeviceInfo>& processors) {
  for (const DeviceInfo& p : processors) {
    for (const int core : device.cores) {
      if (std::count(p.cores.begin(), p.cores.end(), core) != 0) return &p;
    }
  }
  return nullptr;
}

std::string Cores(int n) { return absl::StrCat(n, n == 1 ? " core" : " cores"); }

class Division {
 public:
  Division(const std::vector<DeviceInfo>& processors, const FoundDevices& found)
      : processors_(processors), on_(processors.size(), 0), cores_(processors.size(), 0) {
    for (const FoundDevice& device : found.devices) {
      const DeviceInfo* same = SameCores(device.info, processors);
      if (same == nullptr) {
        others_.push_back(&device);
      } else {
        LeaveOut(device.info, absl::StrCat("the same cores as ", same->name));
      }
    }
    shares_.assign(others_.size(), 1);
    for (size_t n = 0; n < processors.size(); ++n) cores_[n] = processors[n].threads;
  }

  HostDivision Alone(int vcus) {
    const int others = static_cast<int>(others_.size());
    if (others == 0) {
      AddProcessors(vcus > 0 ? vcus : static_cast<int>(processors_.size()));
      return Finish();
    }
    int threads = 0;
    for (const DeviceInfo& p : processors_) threads += p.threads;
    const int wanted = vcus > 0 ? std::max(1, vcus - others) : static_cast<int>(processors_.size());
    const int split = std::min(wanted, std::max(1, threads - others));
    AddProcessors(split);
    for (int more = vcus - others - split, i = 0; more > 0; --more, ++i) ++shares_[i % others];
    for (size_t i = 0; i < others_.size(); ++i) {
      for (int share = 0; share < shares_[i]; ++share) AddOther(i, 0);
    }
    KeepCoresFree();
    return Finish();
  }

  HostDivision OverProcesses(int count) {
    const int others = static_cast<int>(others_.size());
    for (int i = 0; i < others; ++i) AddOther(static_cast<size_t>(i), i % count);
    const int without = std::max(0, count - others);
    const size_t first = result_.vcus.size();
    AddProcessors(without);
    for (size_t i = first; i < result_.vcus.size(); ++i) {
      result_.vcus[i].local_rank = others + static_cast<int>(i - first);
    }
    if (others > 0) KeepCoresFree();
    if (without == 0) {
      for (const DeviceInfo& p : processors_) {
        LeaveOut(p, "each process of the host has a device of its own");
      }
    }
    return Finish();
  }

  void Absent(const std::vector<AbsentLeaf>& leaves) {
    std::vector<std::string> none;
    for (const AbsentLeaf& a : leaves) {
      if (absl::IsFailedPrecondition(a.why)) {
        none.push_back(a.leaf);  // no driver or no device, as on most machines
      } else {
        left_out_.push_back(absl::StrCat(a.leaf, " (", a.why.message(), ")"));
      }
    }
    if (!none.empty()) none_ = absl::StrJoin(none, ", ");
  }

 private:
  void LeaveOut(const DeviceInfo& info, const std::string& why) {
    left_out_.push_back(absl::StrCat(info.name, " (", info.model, ", ", why, ")"));
  }
  // `count` VCUs, each node of the processors in turn.
  void AddProcessors(int count) {
    for (int i = 0; i < count; ++i) {
      const size_t node = static_cast<size_t>(i) % processors_.size();
      ++on_[node];
      result_.vcus.push_back({.device = processors_[node].leaf, .index = static_cast<int>(node)});
    }
  }
  void AddOther(size_t i, int local_rank) {
    result_.vcus.push_back(
        {.device = others_[i]->info.leaf, .index = others_[i]->index, .local_rank = local_rank});
  }
  // One a device, from processors without VCUs first, then from those that have most to spare.
  void KeepCoresFree() {
    const auto spare = [&](size_t n) {
      return std::pair(on_[n] == 0 && cores_[n] > 0, cores_[n] - on_[n]);
    };
    for (size_t i = 0; i < others_.size(); ++i) {
      size_t richest = 0;
      for (size_t n = 1; n < cores_.size(); ++n) {
        if (spare(n) > spare(richest)) richest = n;
      }
      if (cores_[richest] > on_[richest]) --cores_[richest];
    }
    for (WantedVcu& v : result_.vcus) {
      if (v.device != processors_[0].leaf) continue;
      const size_t node = static_cast<size_t>(v.index);
      v.cores = std::max(1, cores_[node] / on_[node]);
    }
  }

  HostDivision Finish() {
    std::vector<std::string> taken;
    for (size_t n = 0; n < processors_.size(); ++n) {
      if (on_[n] == 0) continue;
      const DeviceInfo& p = processors_[n];
      std::string text = absl::StrCat(p.name, " (", p.model, ", ");
      if (cores_[n] < p.threads) absl::StrAppend(&text, cores_[n], " of ");
      absl::StrAppend(&text, Cores(p.threads));
      if (on_[n] > 1) absl::StrAppend(&text, " in ", on_[n], " parts");
      taken.push_back(text + ")");
    }
    for (size_t i = 0; i < others_.size(); ++i) {
      const DeviceInfo& d = others_[i]->info;
      taken.push_back(absl::StrCat(d.name, " (", d.model,
                                   shares_[i] > 1 ? absl::StrCat(" in ", shares_[i], " parts") : "",
                                   ")"));
    }
    result_.summary = absl::StrJoin(taken, ", ");
    if (!left_out_.empty()) {
      absl::StrAppend(&result_.summary, "; left out: ", absl::StrJoin(left_out_, ", "));
    }
    if (!none_.empty()) {
      absl::StrAppend(&result_.summary, "; none: ", none_, " (ocl doctor says why)");
    }
    return std::move(result_);
  }

  const std::vector<DeviceInfo>& processors_;
  std::vector<const FoundDevice*> others_;  // with compute units of their own
  std::vector<int> shares_;                 // VCUs on each of them
  std::vector<int> on_, cores_;             // of each of the processors: VCUs, and cores for them
  std::vector<std::string> left_out_;
  std::string none_;
  HostDivision result_;
};

}  // namespace

FoundDevices FindDevices(const DeviceRegistry& registry, double timeout_seconds) {
  FoundDevices found;
  for (size_t i = 1; i < registry.leaves().size(); ++i) {
    const DeviceLeaf& leaf = registry.leaves()[i];
    if (leaf.by_name_only) continue;
    std::string told;
    const Status ended = RunInChild(
        timeout_seconds, [&](const Tell& tell) { TellDevices(leaf, tell); }, &told);
    const auto infos = ended.ok() ? ReadDevices(leaf.name, told)
                                  : StatusOr<std::vector<DeviceInfo>>(Internal(
                                        "while its devices were looked for: ", ended.message()));
    if (!infos.ok()) {
      found.absent.push_back({leaf.name, infos.status()});
      continue;
    }
    for (size_t d = 0; d < infos->size(); ++d) {
      found.devices.push_back({(*infos)[d], static_cast<int>(d)});
    }
  }
  return found;
}

HostDivision DivideHost(const std::vector<DeviceInfo>& processors, const FoundDevices& found,
                        const HostProcesses& processes) {
  Division division(processors, found);
  division.Absent(found.absent);
  return processes.alone ? division.Alone(processes.vcus) : division.OverProcesses(processes.count);
}

}  // namespace oc

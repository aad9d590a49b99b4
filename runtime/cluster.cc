#include "openclaw/runtime/cluster.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "openclaw/comm/link_measure.h"
#include "openclaw/core/logging.h"
#include "openclaw/devices/modules.h"
#include "openclaw/devices/plugin.h"
#include "openclaw/devices/substitute.h"
#include "openclaw/runtime/discovery.h"
#include "openclaw/runtime/executor.h"

namespace oc {

using nlohmann::json;

// What the heartbeat's thread and the others share.
struct Cluster::Health {
  std::mutex mutex;
  Status failure;
  std::vector<Transport*> transports;
  Heartbeat* heartbeat = nullptr;  // outlives the watch
};

namespace {

// Arenas reserve a margin that they do not use (vcu.cc).
constexpr int64_t kReserve = int64_t{64} << 20;

StatusOr<int64_t> MemoryFor(const WantedVcu& w, const DeviceInfo& info, int sharers) {
  // A tenth is left to the process: code, libraries, loaders.
  const int64_t share = info.memory_bytes / 10 * 9 / std::max(1, sharers);
  if (w.memory_bytes == 0) return share;
  if (w.memory_bytes > info.memory_bytes) {
    return ResourceExhausted("cluster: ", w.memory_bytes, " bytes asked of ", info.name,
                             ", it has ", info.memory_bytes);
  }
  return w.memory_bytes;
}

json ToJson(const VcuSpec& v) {
  std::vector<std::string> dtypes;
  for (DType d : v.dtypes) dtypes.push_back(Name(d));
  return {{"name", v.name},          {"device", v.device},
          {"kind", v.kind},          {"process", v.process},
          {"host", v.host},          {"threads", v.threads},
          {"cores", v.cores},        {"memory_bytes", v.memory_bytes},
          {"dtypes", dtypes},        {"enforcement", static_cast<int>(v.enforcement)},
          {"host_kind", v.host_kind}};
}

StatusOr<std::vector<VcuSpec>> FromJson(const std::string& text) {
  std::vector<VcuSpec> specs;
  try {
    for (const json& v : json::parse(text)) {
      VcuSpec spec;
      spec.name = v.at("name");
      spec.device = v.at("device");
      spec.kind = v.at("kind");
      spec.process = v.at("process");
      spec.host = v.at("host");
      spec.threads = v.at("threads");
      spec.cores = v.at("cores").get<std::vector<int>>();
      spec.memory_bytes = v.at("memory_bytes");
      spec.enforcement = static_cast<Enforcement>(v.at("enforcement").get<int>());
      spec.host_kind = v.at("host_kind");
      for (const json& d : v.at("dtypes")) {
        OC_ASSIGN_OR_RETURN(const DType dtype, ParseDType(d.get<std::string>()));
        spec.dtypes.push_back(dtype);
      }
      specs.push_back(std::move(spec));
    }
  } catch (const json::exception& e) {
    return DataLoss("cluster: a process's list of VCUs: ", e.what());
  }
  return specs;
}

// Cores [first, first + count) of the device's, wrapping where there are too few.
std::vector<int> TakeCores(const DeviceInfo& info, int first, int count) {
  std::vector<int> cores;
  for (int i = 0; i < count && !info.cores.empty(); ++i) {
    cores.push_back(info.cores[(first + i) % info.cores.size()]);
  }
  return cores;
}

// The VCUs of a list of entries: all of them alone; under a launcher one a process, entry i for
// local rank i modulo the local size.
std::vector<WantedVcu> WantedByEntries(const std::vector<ClusterEntry>& entries, const Job& job) {
  const bool alone = job.world_size() == 1;
  const size_t count = alone ? entries.size() : static_cast<size_t>(job.local_size());
  std::vector<WantedVcu> wanted;
  for (size_t i = 0; i < count; ++i) {
    const ClusterEntry& e = entries[i % entries.size()];
    wanted.push_back({.device = e.device,
                      .cores = e.cores,
                      .memory_bytes = e.memory_bytes,
                      .options = e.options,
                      .local_rank = alone ? 0 : static_cast<int>(i)});
  }
  return wanted;
}

constexpr int64_t kProbeBytes = 64;

constexpr double kSlowCalls = 4;  // times the timeout, for calls that set up and compile

}  // namespace

// One slice of the host's processors for all VCUs of this process, made when an op first needs it.
class Cluster::HostSubstitutes {
 public:
  explicit HostSubstitutes(Device* device) : device_(device) {}
  StatusOr<Slice*> Get() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (slice_ == nullptr) {
      OC_ASSIGN_OR_RETURN(slice_, MakeSlice());
    }
    return slice_.get();
  }
  StatusOr<std::unique_ptr<Slice>> MakeSlice() { return device_->CreateSlice({.threads = 1}); }

 private:
  Device* device_;
  std::mutex mutex_;
  std::unique_ptr<Slice> slice_;
};

void Cluster::EndProcess(Health& health, const Status& why) {
  // A stuck thread may hold a stream's lock, or the log's: then this ends the process, the hard
  // way.
  std::signal(SIGALRM, SIG_DFL);
  alarm(4);
  OC_LOG_ERROR(why.message());
  Heartbeat* heartbeat = nullptr;
  {
    std::lock_guard<std::mutex> lock(health.mutex);
    heartbeat = health.heartbeat;
  }
  if (heartbeat != nullptr) heartbeat->Leave(why);
  std::fflush(nullptr);
  std::_Exit(1);
}

Cluster::~Cluster() {
  if (heartbeat_ != nullptr) heartbeat_->Stop();
  // Watched: a device may hang in these as well.
  vcus_.clear();
  substitutes_ = nullptr;
  devices_.clear();
  watch_ = nullptr;
}

std::vector<Vcu*> Cluster::local() const {
  std::vector<Vcu*> result;
  for (const auto& v : vcus_) result.push_back(v.get());
  return result;
}

StatusOr<DeviceRegistry> LeavesWithPlugins(const std::vector<std::string>& plugins,
                                           std::shared_ptr<const KernelRegistry> own) {
  DeviceRegistry registry = BuiltinLeaves(std::move(own));
  for (const std::string& path : plugins) {
    OC_ASSIGN_OR_RETURN(DeviceLeaf leaf, LoadPlugin(path));
    if (registry.Find(leaf.name).ok()) {
      return InvalidArgument("plugin ", path, ": there is a device leaf '", leaf.name, "' already");
    }
    registry.Add(std::move(leaf));
  }
  for (DeviceLeaf& leaf : FindDeviceModules()) {
    if (!registry.Find(leaf.name).ok()) registry.Add(std::move(leaf));
  }
  return registry;
}

// The steps of Discover, in order.
class Cluster::Setup {
 public:
  Setup(Cluster& cluster, const DiscoverOptions& options, const DeviceRegistry& registry)
      : cluster_(cluster),
        job_(*cluster.job_),
        options_(options),
        registry_(registry),
        is_auto_(options.config.entries.empty()) {}

  Status Run(const FoundDevices& others) {
    OC_ASSIGN_OR_RETURN(const std::vector<WantedVcu> wanted, Wanted(others));
    OC_RETURN_IF_ERROR(MakeVcus(wanted));
    OC_RETURN_IF_ERROR(Join());
    OC_RETURN_IF_ERROR(Listen());
    return cluster_.spec_.Validate();
  }

 private:
  StatusOr<const std::vector<Device*>*> Devices(const std::string& leaf) {
    std::vector<Device*>& list = devices_[leaf];
    if (list.empty()) {
      OC_ASSIGN_OR_RETURN(const DeviceLeaf* entry, registry_.Find(leaf));
      OC_ASSIGN_OR_RETURN(auto devices, entry->discover());
      if (devices.empty()) return FailedPrecondition("cluster: no device of leaf ", leaf, " here");
      for (auto& d : devices) {
        list.push_back(d.get());
        cluster_.devices_.push_back(std::move(d));
      }
    }
    return &list;
  }

  // The VCUs of this host, over all its processes.
  StatusOr<std::vector<WantedVcu>> Wanted(const FoundDevices& others) {
    if (!is_auto_) return WantedByEntries(options_.config.entries, job_);
    OC_ASSIGN_OR_RETURN(const auto* processors,
                        Devices(registry_.leaves().empty() ? "cpu" : registry_.leaves()[0].name));
    std::vector<DeviceInfo> infos;
    for (const Device* d : *processors) infos.push_back(d->info());
    HostDivision division = DivideHost(
        infos, others,
        {.alone = job_.world_size() == 1, .count = job_.local_size(), .vcus = options_.vcus});
    cluster_.found_ = absl::StrCat("cluster: auto: ", division.summary);
    if (job_.local_rank() == 0) OC_LOG_INFO(cluster_.found_);
    return std::move(division.vcus);
  }

  // Everybody on the host computes the same division of it, and makes its own part.
  Status MakeVcus(const std::vector<WantedVcu>& wanted) {
    std::map<Device*, int> sharers, cores_taken;
    std::vector<Device*> device_of;
    std::map<std::string, size_t> next;
    for (const WantedVcu& w : wanted) {
      OC_ASSIGN_OR_RETURN(const auto* list, Devices(w.device));
      const size_t index = w.index >= 0 ? static_cast<size_t>(w.index) : next[w.device]++;
      device_of.push_back((*list)[index % list->size()]);
      ++sharers[device_of.back()];
    }
    // Where ops go that a device lacks and that have no decomposition.
    if (registry_.Find("cpu").ok()) {
      OC_ASSIGN_OR_RETURN(const auto* hosts, Devices("cpu"));
      cluster_.substitutes_ = std::make_shared<HostSubstitutes>((*hosts)[0]);
    }
    bool shared = false;
    for (size_t i = 0; i < wanted.size(); ++i) {
      Device& device = *device_of[i];
      const DeviceInfo& info = device.info();
      const int cores =
          wanted[i].cores > 0 ? wanted[i].cores : std::max(1, info.threads / sharers[&device]);
      if (cores > info.threads) {
        return ResourceExhausted("cluster: ", cores, " cores asked of ", info.name, ", it has ",
                                 info.threads);
      }
      const int first = cores_taken[&device];
      cores_taken[&device] += cores;
      shared |= cores_taken[&device] > info.threads;
      if (wanted[i].local_rank != job_.local_rank()) continue;
      OC_RETURN_IF_ERROR(Annotate(
          MakeVcu(wanted[i], device, cores, TakeCores(info, first, cores), sharers[&device]),
          is_auto_ ? absl::StrCat("cluster: auto: ", info.name,
                                  " (entries under cluster: that do not name it leave it out)")
                   : absl::StrCat("cluster.", i % options_.config.entries.size())));
    }
    if (shared && job_.local_rank() == 0) {
      OC_LOG_WARNING("more VCUs than cores on ", job_.host(),
                     ": they share them, and no speed is claimed");
    }
    return OkStatus();
  }

  Status MakeVcu(const WantedVcu& wanted, Device& device, int cores, const std::vector<int>& pinned,
                 int sharers) {
    OC_ASSIGN_OR_RETURN(const int64_t memory, MemoryFor(wanted, device.info(), sharers));
    OC_ASSIGN_OR_RETURN(auto made, device.CreateSlice({.threads = cores,
                                                       .cores = pinned,
                                                       .memory_bytes = memory + kReserve,
                                                       .options = wanted.options}));
    SubstituteHost host;  // what the host's own slices lack has nowhere else to go
    if (cluster_.substitutes_ != nullptr && device.info().leaf != "cpu") {
      host = [s = cluster_.substitutes_] { return s->Get(); };
    }
    OC_ASSIGN_OR_RETURN(auto beside, HostBeside(*made));
    std::unique_ptr<Slice> slice =
        WithSubstitutes(std::move(made), std::move(host),
                        {.timeout_seconds = kDeviceShare * options_.timeout_seconds,
                         .deterministic = options_.deterministic});
    mine_.push_back({.name = absl::StrCat(wanted.device, ":", job_.rank(), ".", mine_.size()),
                     .device = wanted.device,
                     .kind = slice->kind(),
                     .process = job_.rank(),
                     .host = job_.host(),
                     .threads = cores,
                     .cores = pinned,
                     .memory_bytes = memory,
                     .dtypes = slice->dtypes(),
                     .enforcement = slice->enforcement(),
                     .host_kind = beside == nullptr ? "" : beside->kind()});
    slices_.push_back(std::move(slice));
    hosts_.push_back(std::move(beside));
    return OkStatus();
  }

  // A slice of the host for what is offloaded from a device whose memory it cannot touch; else
  // null.
  StatusOr<std::unique_ptr<Slice>> HostBeside(Slice& slice) {
    if (cluster_.substitutes_ == nullptr) return std::unique_ptr<Slice>();
    OC_ASSIGN_OR_RETURN(const auto probe, slice.Allocate(kProbeBytes));
    if (!slice.HostView({probe.get(), 0, kProbeBytes}).empty()) return std::unique_ptr<Slice>();
    OC_ASSIGN_OR_RETURN(auto host, cluster_.substitutes_->MakeSlice());
    return WithSubstitutes(std::move(host), nullptr, {.deterministic = options_.deterministic});
  }

  // Tells the other processes, and learns of their VCUs.
  Status Join() {
    ClusterSpec& spec = cluster_.spec_;
    json list = json::array();
    for (const VcuSpec& v : mine_) list.push_back(ToJson(v));
    OC_ASSIGN_OR_RETURN(
        auto lists, job_.AllGather(list.dump(), "virtual compute units", options_.timeout_seconds));
    std::vector<int> per_process;
    for (const std::string& text : lists) {
      OC_ASSIGN_OR_RETURN(std::vector<VcuSpec> specs, FromJson(text));
      per_process.push_back(static_cast<int>(specs.size()));
      for (VcuSpec& v : specs) spec.vcus.push_back(std::move(v));
    }
    spec.links.assign(spec.vcus.size() * spec.vcus.size(), LinkCurve::Of(20e-6, 5e9));
    int index = 0;
    for (int r = 0; r < job_.rank(); ++r) index += per_process[static_cast<size_t>(r)];
    OC_ASSIGN_OR_RETURN(auto transports,
                        job_.MakeTransports(per_process, options_.timeout_seconds));
    for (size_t i = 0; i < slices_.size(); ++i) {
      cluster_.health_->transports.push_back(transports[i].get());
      cluster_.vcus_.push_back(
          std::make_unique<Vcu>(index + static_cast<int>(i), std::move(slices_[i]),
                                std::move(transports[i]), std::move(hosts_[i])));
    }
    return OkStatus();
  }

  Status Listen() {
    if (job_.world_size() == 1) return OkStatus();
    auto on_failure = [health = cluster_.health_, job = &job_](int, const Status& why) {
      std::lock_guard<std::mutex> lock(health->mutex);
      if (health->failure.ok()) health->failure = why;
      for (Transport* t : health->transports) t->Abort(why);
      job->Interrupt(why);
    };
    OC_ASSIGN_OR_RETURN(cluster_.heartbeat_,
                        Heartbeat::Start(job_, options_.heartbeat, std::move(on_failure)));
    std::lock_guard<std::mutex> lock(cluster_.health_->mutex);
    cluster_.health_->heartbeat = cluster_.heartbeat_.get();
    return OkStatus();
  }

  Cluster& cluster_;
  Job& job_;
  const DiscoverOptions& options_;
  const DeviceRegistry& registry_;
  const bool is_auto_;
  std::map<std::string, std::vector<Device*>> devices_;  // by leaf; the cluster's
  std::vector<VcuSpec> mine_;
  std::vector<std::unique_ptr<Slice>> slices_, hosts_;
};

StatusOr<Cluster> Cluster::Discover(const DiscoverOptions& options) {
  if (!options.config.file.empty()) {
    return InvalidArgument("cluster: ", options.config.file,
                           " is a file for the command ocl; here, list entries or say auto");
  }
  OC_ASSIGN_OR_RETURN(const DeviceRegistry found_here, LeavesWithPlugins(options.config.plugins));
  const DeviceRegistry& registry = options.registry != nullptr ? *options.registry : found_here;
  // Looked for in child processes, before anything here has threads.
  FoundDevices others;
  if (options.config.entries.empty()) others = FindDevices(registry, options.timeout_seconds);
  Cluster cluster;
  cluster.deterministic_ = options.deterministic;
  cluster.health_ = std::make_shared<Health>();
  CallWatch::OnStuck on_stuck = options.on_stuck_call;
  if (on_stuck == nullptr) {
    on_stuck = [health = cluster.health_](const Status& why) { EndProcess(*health, why); };
  }
  cluster.watch_ = CallWatch::Start({.timeout_seconds = kDeviceShare * options.timeout_seconds,
                                     .slow_seconds = kSlowCalls * options.timeout_seconds},
                                    std::move(on_stuck));
  OC_ASSIGN_OR_RETURN(cluster.job_, OpenJob({}));
  if (cluster.job_->world_size() > 1) {
    SetLogPrefix(absl::StrCat("rank ", cluster.job_->rank()));
  }
  OC_RETURN_IF_ERROR(Setup(cluster, options, registry).Run(others));
  return cluster;
}

Status Cluster::MeasureLinks(double timeout_seconds) {
  if (spec_.size() < 2) return OkStatus();
  std::vector<std::vector<LinkCurve>> curves(vcus_.size());
  std::vector<Status> statuses(vcus_.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < vcus_.size(); ++i) {
    threads.emplace_back([&, i] {
      auto links = oc::MeasureLinks(*vcus_[i]->transport(), {.timeout_seconds = timeout_seconds});
      if (links.ok()) {
        curves[i] = std::move(links).value();
      } else {
        statuses[i] = links.status();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const Status& s : statuses) OC_RETURN_IF_ERROR(Annotate(s, "measure links"));
  spec_.links = std::move(curves[0]);
  return OkStatus();
}

Status Cluster::failure() const {
  std::lock_guard<std::mutex> lock(health_->mutex);
  return health_->failure;
}

Status Cluster::Leave(double timeout_seconds) {
  const Status failed = failure();
  if (!failed.ok()) {
    if (heartbeat_ != nullptr) heartbeat_->Stop();
    job_->Abandon();
    return failed;
  }
  const Status status = job_->Finalize(timeout_seconds);
  if (heartbeat_ != nullptr) heartbeat_->Stop();
  return status;
}

void Cluster::GiveUp(const Status& reason) {
  if (heartbeat_ != nullptr) heartbeat_->Leave(reason);
  job_->Abandon();
}

}  // namespace oc

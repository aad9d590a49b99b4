#include "openclaw/runtime/doctor.h"

#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "openclaw/comm/mpi_loader.h"
#include "openclaw/core/child.h"
#include "openclaw/core/clock.h"
#include "openclaw/devices/plugin.h"
#include "openclaw/runtime/cluster.h"
#include "openclaw/runtime/parity/compare.h"

namespace oc {
namespace {

using nlohmann::json;
using Level = Finding::Level;

constexpr int64_t kLittleMemory = int64_t{512} << 20;
constexpr int64_t kSteps = 2;  // of training on each device

std::string Gibibytes(int64_t bytes) {
  return absl::StrFormat("%.1f GiB", static_cast<double>(bytes) / (1 << 30));
}

const char* Name(Level level) {
  return level == Level::kOk ? "ok" : level == Level::kNote ? "note" : "fault";
}

json ToJson(const Finding& f) {
  return {{"level", Name(f.level)}, {"subject", f.subject}, {"what", f.what}, {"remedy", f.remedy}};
}

// ---- The machine ----

Finding ExamineMemory() {
  std::ifstream in("/proc/meminfo");
  int64_t total = 0, available = 0;
  for (std::string line; std::getline(in, line);) {
    long long kibibytes = 0;
    if (std::sscanf(line.c_str(), "MemTotal: %lld kB", &kibibytes) == 1) total = kibibytes << 10;
    if (std::sscanf(line.c_str(), "MemAvailable: %lld kB", &kibibytes) == 1) {
      available = kibibytes << 10;
    }
  }
  if (total == 0) {
    return {Level::kFault, "memory", "/proc/meminfo cannot be read", "mount /proc"};
  }
  const std::string what = Gibibytes(available) + " of " + Gibibytes(total) + " available";
  if (available < kLittleMemory) {
    return {Level::kFault, "memory", what, "end other programs, or train on another machine"};
  }
  return {Level::kOk, "memory", what, ""};
}

Finding ExamineProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return {Level::kNote, "processors", "how many this process may use is not known", ""};
  }
  return {Level::kOk, "processors", absl::StrCat(CPU_COUNT(&set), " for this process"), ""};
}

Finding ExamineMpi(bool wanted) {
  const auto path = CheckMpiModule({});
  if (path.ok()) return {Level::kOk, "MPI", absl::StrCat("its module opens: ", *path), ""};
  return {wanted ? Level::kFault : Level::kNote, "MPI", std::string(path.status().message()),
          "for jobs under mpirun install Open MPI (Debian: openmpi-bin libopenmpi-dev) and build "
          "again"};
}

// What the drivers of OpenCL are registered by; whether they work shows in the leaf's devices.
Finding ExamineOpenCl(bool wanted) {
  const char* own = std::getenv("OCL_ICD_VENDORS");
  const std::string folder = own != nullptr ? own : "/etc/OpenCL/vendors";
  std::vector<std::string> drivers;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".icd") drivers.push_back(it->path().filename().string());
  }
  std::sort(drivers.begin(), drivers.end());
  if (drivers.empty()) {
    return {wanted ? Level::kFault : Level::kNote, "OpenCL",
            absl::StrCat("no driver is registered in ", folder),
            "install the driver of the device (for processors, Debian: pocl-opencl-icd)"};
  }
  std::string what = "drivers:";
  for (const std::string& driver : drivers) absl::StrAppend(&what, " ", driver);
  return {Level::kOk, "OpenCL", what, ""};
}

// ---- Devices ----

std::string RemedyFor(const Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return "free the device's memory, or give it a smaller `memory:` in the cluster's list";
    case absl::StatusCode::kUnavailable:
      return "reset or reconnect the device; its driver's log says why it was lost";
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kInternal:
      return "update the driver or plugin; to train without it, leave it out of the cluster's list";
    default:
      return "see the message; to train without it, leave it out of the cluster's list";
  }
}

// The training of the models on one device, as a finding.
Finding Describe(const DeviceInfo& info, const std::vector<parity::Trained>& trained,
                 double seconds) {
  Finding f{.subject = info.name,
            .what = absl::StrCat(info.model, ", ", info.threads, " units, ",
                                 Gibibytes(info.memory_bytes))};
  for (const parity::Trained& t : trained) {
    if (!t.status.ok()) {
      const bool lacks = absl::IsUnimplemented(t.status);
      absl::StrAppend(&f.what, "; does not train ", t.model, ": ", t.status.message());
      f.level = std::max(f.level, lacks ? Level::kNote : Level::kFault);
      if (f.remedy.empty() || !lacks) {
        f.remedy =
            lacks ? "give it only stages whose ops it has (docs/ops.md)" : RemedyFor(t.status);
      }
      continue;
    }
    const bool finite = std::all_of(t.losses.begin(), t.losses.end(),
                                    [](double loss) { return std::isfinite(loss); });
    absl::StrAppendFormat(&f.what, "; trains %s: loss %.4f", t.model, t.losses.back());
    if (!t.substituted.empty()) {
      f.level = std::max(f.level, Level::kNote);
      absl::StrAppend(&f.what, " without kernels of ", absl::StrJoin(t.substituted, ", "),
                      ", which are decomposed or run on the host");
      if (f.remedy.empty())
        f.remedy = "stages whose ops it has run faster there (ocl plan lists them)";
    }
    if (!finite) {
      f.level = Level::kFault;
      f.remedy = "ocl doctor --parity tells which op is wrong";
    }
  }
  absl::StrAppendFormat(&f.what, " (%.1f s)", seconds);
  // A device that can train nothing is of no use.
  if (std::all_of(trained.begin(), trained.end(), [](const auto& t) { return !t.status.ok(); })) {
    f.level = Level::kFault;
  }
  return f;
}

// In a child process: tells a finding a line.
void ExamineLeaf(const std::string& name, const DeviceRegistry& registry, double timeout_seconds,
                 const Tell& tell) {
  const auto say = [&](const json& line) {
    tell(line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
  };
  say({{"stage", "its devices were looked for"}});
  const auto leaf = registry.Find(name);
  StatusOr<std::vector<std::unique_ptr<Device>>> devices =
      leaf.ok() ? (*leaf)->discover() : leaf.status();
  if (devices.ok() && devices->empty()) devices = FailedPrecondition("it finds no device");
  if (!devices.ok()) {
    say({{"absent", devices.status().message()}});
    return;
  }
  for (size_t i = 0; i < devices->size(); ++i) {
    const DeviceInfo& info = (*devices)[i]->info();
    say({{"stage", absl::StrCat("a model was trained on ", info.name)}});
    const double begin = NowSeconds();
    parity::Options options{.training_steps = kSteps, .timeout_seconds = timeout_seconds};
    options.on_stuck_call = [&](const Status& why) {
      say({{"stuck", why.message()}, {"subject", info.name}});
      _exit(1);
    };
    const auto trained = parity::TrainModels(name, i, registry, options);
    say(ToJson(Describe(info, trained, NowSeconds() - begin)));
  }
}

// What a child told of a leaf, and how it ended.
std::vector<Finding> Findings(const std::string& subject, const std::string& told,
                              const Status& ended, bool wanted, const std::string& remedy) {
  std::vector<Finding> findings;
  std::string stage = "it was opened";
  bool told_why = false;
  for (size_t at = 0; at < told.size();) {
    const size_t end = std::min(told.find('\n', at), told.size());
    const json line = json::parse(told.substr(at, end - at), nullptr, /*allow_exceptions=*/false);
    at = end + 1;
    if (!line.is_object()) continue;
    if (line.contains("stage")) {
      stage = line["stage"];
    } else if (line.contains("stuck")) {
      findings.push_back({Level::kFault, line["subject"], line["stuck"],
                          RemedyFor(absl::DeadlineExceededError(""))});
      told_why = true;
    } else if (line.contains("absent")) {
      findings.push_back({wanted ? Level::kFault : Level::kNote, subject, line["absent"], remedy});
    } else {
      Finding f{.subject = line["subject"], .what = line["what"], .remedy = line["remedy"]};
      for (Level level : {Level::kOk, Level::kNote, Level::kFault}) {
        if (line["level"] == Name(level)) f.level = level;
      }
      findings.push_back(std::move(f));
    }
  }
  if (!ended.ok() && !told_why) {
    findings.push_back({Level::kFault, subject,
                        absl::StrCat("while ", stage, ": ", ended.message()), RemedyFor(ended)});
  }
  return findings;
}

class Doctor {
 public:
  explicit Doctor(const DoctorOptions& options) : options_(options) {}

  Diagnosis Run() {
    Add(ExamineMemory());
    Add(ExamineProcessors());
    for (const std::string& library : BuiltinLibraries()) {
      Add({Level::kOk, "library", library, ""});
    }
    Add(ExamineMpi(options_.mpi));
    Add(ExamineOpenCl(Asked("opencl")));
    for (const std::string& path : options_.plugins) LoadOne(path);
    auto registry = LeavesWithPlugins(loaded_);
    if (!registry.ok()) {
      Add({Level::kFault, "plugins", std::string(registry.status().message()),
           "leave one of the two out"});
      return std::move(diagnosis_);
    }
    for (const DeviceLeaf& leaf : registry->leaves()) {
      const bool asked = IsPlugin(leaf.name) || Asked(leaf.name);
      const bool examined = options_.devices.empty() ? leaf.name != "sim" : asked;
      if (!examined) continue;
      Examine(leaf.name, asked || leaf.name == "cpu" || leaf.name == "reference", *registry);
    }
    for (const std::string& name : options_.devices) {
      if (const auto leaf = registry->Find(name); !leaf.ok()) {
        Add({Level::kFault, name, std::string(leaf.status().message()),
             "name the plugin that has it (--plugins FILE), or build its leaf"});
      }
    }
    return std::move(diagnosis_);
  }

 private:
  void Add(Finding f) { diagnosis_.findings.push_back(std::move(f)); }
  bool Asked(const std::string& leaf) const {
    return std::count(options_.devices.begin(), options_.devices.end(), leaf) != 0;
  }

  bool IsPlugin(const std::string& leaf) const {
    return std::count(plugin_leaves_.begin(), plugin_leaves_.end(), leaf) != 0;
  }

  // One that does not load is a finding, and does not keep the others from being examined.
  void LoadOne(const std::string& path) {
    const auto leaf = LoadPlugin(path, options_.timeout_seconds);
    if (leaf.ok()) {
      loaded_.push_back(path);
      plugin_leaves_.push_back(leaf->name);
      Add({Level::kOk, path, absl::StrCat("a plugin for devices of leaf ", leaf->name), ""});
    } else {
      Add({Level::kFault, path, std::string(leaf.status().message()),
           "check the path, and build the plugin against this version's openclaw_device.h"});
    }
  }

  void Examine(const std::string& name, bool wanted, const DeviceRegistry& registry) {
    std::string told;
    const Status ended = RunInChild(
        options_.timeout_seconds,
        // What hangs in a call is told by the child, before its own time is over.
        [&](const Tell& tell) { ExamineLeaf(name, registry, options_.timeout_seconds / 2, tell); },
        &told);
    const std::string remedy =
        name == "opencl" ? "install a driver with OpenCL 1.2 and a compiler; clinfo -l lists them"
                         : "check that the device is plugged in and its driver loaded";
    for (Finding& f : Findings(name, told, ended, wanted, remedy)) Add(std::move(f));
  }

  const DoctorOptions& options_;
  std::vector<std::string> loaded_, plugin_leaves_;
  Diagnosis diagnosis_;
};

}  // namespace

bool Diagnosis::ok() const {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& f) { return f.level == Level::kFault; });
}

Diagnosis Diagnose(const DoctorOptions& options) { return Doctor(options).Run(); }

std::string ToText(const Diagnosis& diagnosis) {
  std::string text;
  size_t faults = 0;
  for (const Finding& f : diagnosis.findings) {
    absl::StrAppendFormat(&text, "%-5s  %-12s %s\n", Name(f.level), f.subject, f.what);
    if (!f.remedy.empty()) absl::StrAppendFormat(&text, "%-5s  %-12s   -> %s\n", "", "", f.remedy);
    faults += f.level == Level::kFault ? 1 : 0;
  }
  absl::StrAppend(&text, faults == 0 ? "all well\n" : absl::StrCat("faults: ", faults, "\n"));
  return text;
}

std::string ToJson(const Diagnosis& diagnosis) {
  json j = {{"ok", diagnosis.ok()}, {"findings", json::array()}};
  for (const Finding& f : diagnosis.findings) j["findings"].push_back(ToJson(f));
  return j.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace oc

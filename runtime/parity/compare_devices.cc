#include <algorithm>

#include "openclaw/runtime/parity/compare.h"

namespace oc::parity {
namespace {

// One device of a kind.
struct Found {
  OpDevice op;
  size_t index = 0;  // in its leaf
  std::string kind;
  std::unique_ptr<Device> device;
  std::unique_ptr<Slice> slice;
};

constexpr int kMostThreads = 2;  // the cases are small

// Adds a device of each kind in the leaf that is new.
Status FindIn(const DeviceLeaf& leaf, std::vector<Found>& found) {
  OC_ASSIGN_OR_RETURN(auto devices, leaf.discover());
  if (devices.empty()) return FailedPrecondition("no device of leaf ", leaf.name, " here");
  for (size_t i = 0; i < devices.size(); ++i) {
    Found f{.index = i, .device = std::move(devices[i])};
    const DeviceInfo& info = f.device->info();
    OC_ASSIGN_OR_RETURN(f.slice,
                        f.device->CreateSlice({.threads = std::min(kMostThreads, info.threads)}));
    f.kind = f.slice->kind();
    f.op = {info.name, leaf.name, f.slice.get()};
    const bool is_new = std::none_of(found.begin(), found.end(),
                                     [&](const Found& other) { return other.kind == f.kind; });
    if (is_new) found.push_back(std::move(f));
  }
  return OkStatus();
}

Status FindAll(const DeviceRegistry& registry, const Options& options, std::vector<Found>& found,
               Report& report) {
  std::vector<std::string> leaves = options.leaves;
  if (leaves.empty()) {
    for (const DeviceLeaf& leaf : registry.leaves()) {
      if (leaf.name != "sim") leaves.push_back(leaf.name);
    }
  }
  for (const std::string& name : leaves) {
    OC_ASSIGN_OR_RETURN(const DeviceLeaf* leaf, registry.Find(name));
    const Status status = FindIn(*leaf, found);
    if (status.ok()) continue;
    report.absent.push_back({name, "devices", std::string(status.message())});
    report.asked_are_absent |= !options.leaves.empty();
  }
  if (found.size() < 2) {
    std::string message = "parity: there is one kind of device, nothing to compare it with";
    for (const Lack& l : report.absent) absl::StrAppend(&message, "; ", l.device, ": ", l.reason);
    return FailedPrecondition(message);
  }
  return OkStatus();
}

Tensor Scalar(double value) {
  Tensor t({DType::kF64, {}});
  t.set(0, value);
  return t;
}

// Step by step, so that the worst is named.
void CompareTraining(const Trained& a, const Trained& b, Pair& pair) {
  bool both = true;
  for (const auto& [trained, device] : {std::pair(&a, pair.a), std::pair(&b, pair.b)}) {
    if (trained->status.ok()) continue;
    both = false;
    if (absl::IsUnimplemented(trained->status)) {
      pair.lacks.push_back({device, absl::StrCat("training of ", trained->model),
                            std::string(trained->status.message())});
      continue;
    }
    Deviations failed;
    failed.AddError(absl::StrCat(device, ": ", trained->status.message()), "training");
    pair.training.push_back({trained->model, failed.result(), {}});
  }
  if (!both) return;
  Deviations losses, parameters;
  for (size_t i = 0; i < a.losses.size(); ++i) {
    losses.Add(Scalar(a.losses[i]), Scalar(b.losses[i]), kTrainingTolerance, kTrainingTolerance,
               absl::StrCat("step ", i + 1));
  }
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    parameters.Add(a.parameters[i], b.parameters[i], kTrainingTolerance,
                   kLargestOverMean * kTrainingTolerance, a.names[i]);
  }
  pair.training.push_back({a.model, losses.result(), parameters.result()});
}

bool Fits(const Deviation& d) { return d.of_allowed <= 1; }

}  // namespace

bool Pair::ok() const {
  return std::all_of(ops.begin(), ops.end(), [](const OpRow& r) { return Fits(r.deviation); }) &&
         std::all_of(training.begin(), training.end(),
                     [](const TrainingRow& r) { return Fits(r.losses) && Fits(r.parameters); });
}

bool Report::ok() const {
  return !asked_are_absent &&
         std::all_of(pairs.begin(), pairs.end(), [](const Pair& p) { return p.ok(); });
}

StatusOr<Report> CompareDevices(const DeviceRegistry& registry, const Options& options) {
  Report report;
  std::vector<Found> found;
  OC_RETURN_IF_ERROR(FindAll(registry, options, found, report));
  std::vector<OpDevice> devices;
  for (const Found& f : found) {
    report.devices.push_back({f.op.name, f.kind});
    devices.push_back(f.op);
  }
  for (size_t a = 0; a < found.size(); ++a) {
    for (size_t b = a + 1; b < found.size(); ++b) {
      report.pairs.push_back({.a = found[a].op.name, .b = found[b].op.name});
    }
  }
  // Inputs that are saved by a forward op come from the reference device, whoever is compared.
  OC_ASSIGN_OR_RETURN(const DeviceLeaf* leaf, registry.Find("reference"));
  OC_ASSIGN_OR_RETURN(const auto references, leaf->discover());
  if (references.empty()) return FailedPrecondition("parity: there is no reference device");
  OC_ASSIGN_OR_RETURN(const auto reference, references[0]->CreateSlice({}));
  OC_RETURN_IF_ERROR(CompareOps(devices, *reference, options, report.pairs));
  if (options.training_steps <= 0) return report;
  std::vector<std::vector<Trained>> trained;
  for (const Found& f : found) {
    trained.push_back(TrainModels(f.op.leaf, f.index, registry, options));
  }
  size_t p = 0;
  for (size_t a = 0; a < found.size(); ++a) {
    for (size_t b = a + 1; b < found.size(); ++b, ++p) {
      for (size_t m = 0; m < trained[a].size(); ++m) {
        CompareTraining(trained[a][m], trained[b][m], report.pairs[p]);
      }
    }
  }
  return report;
}

}  // namespace oc::parity

// The ops: each case on each device, then each pair of results.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "openclaw/graph/autodiff.h"
#include "openclaw/graph/builder.h"
#include "openclaw/runtime/parity/cases.h"
#include "openclaw/runtime/parity/compare.h"

namespace oc::parity {
namespace {

// The op and its gradient rule, as a graph: "input<i>" and the outputs' gradients "dy<o>" are fed.
struct BackwardGraph {
  Graph graph;
  std::vector<int> wanted;  // the inputs' gradients
  std::map<std::string, Tensor> feeds;
};

Tensor RandomTensor(const TensorType& type, uint64_t stream) {
  Tensor t(type);
  const Philox rng(17);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    t.set(i, oc::Normal(rng, stream, static_cast<uint64_t>(i)));
  }
  return t;
}

// Nothing is wanted where no gradient flows.
StatusOr<BackwardGraph> BuildBackward(const OpCase& c, const std::vector<Tensor>& inputs,
                                      const std::shared_ptr<const OpRegistry>& ops) {
  BackwardGraph result;
  GraphBuilder b("backward", ops);
  std::vector<Val> values;
  std::vector<bool> needs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = absl::StrCat("input", i);
    values.push_back(b.Data(name, inputs[i].type()));
    needs.push_back(WantsGradient(c, inputs[i].dtype(), static_cast<int>(i)));
    result.feeds[name] = inputs[i];
  }
  const std::vector<Val> outputs = b.OpN(c.op, values, c.attrs);
  OC_RETURN_IF_ERROR(b.status());
  const Node node = b.graph().nodes.back();
  std::vector<Val> gradients(outputs.size());
  for (int o : c.gradient_outputs) {
    if (!IsFloat(b.type(outputs[o]).dtype)) continue;
    const std::string name = absl::StrCat("dy", o);
    result.feeds[name] = RandomTensor(b.type(outputs[o]), static_cast<uint64_t>(o));
    gradients[o] = b.Data(name, b.type(outputs[o]));
  }
  GradContext context(b, node, gradients, needs);
  OC_RETURN_IF_ERROR(node.def->gradient(context));
  for (const Val v : context.results()) {
    if (v) result.wanted.push_back(v.id);
  }
  OC_ASSIGN_OR_RETURN(result.graph, b.Finish());
  return result;
}

struct Outcome {
  StatusOr<std::vector<Tensor>> outputs = absl::UnknownError("not run");
  bool on_reference_code = false;
};

struct RowKey {
  std::string op;
  DType dtype;
  bool backward;
  auto operator<=>(const RowKey&) const = default;
};

std::string WhatOf(const RowKey& key) {
  return absl::StrCat(key.op, " ", Name(key.dtype), key.backward ? " backward" : "");
}

// "op NAME TYPES on KIND: reason" says most of it for the second time.
std::string ReasonIn(const Status& status, const OpDevice& device) {
  const std::string message(status.message());
  for (const std::string& where : {device.slice->kind(), device.leaf}) {
    const std::string before = absl::StrCat(" on ", where, ": ");
    const size_t at = message.find(before);
    if (at != std::string::npos) return message.substr(at + before.size());
  }
  return message;
}

struct RowState {
  OpRow row;
  Deviations deviations;
  std::set<std::string> on_reference_code;
};

class OpComparison {
 public:
  OpComparison(const std::vector<OpDevice>& devices, OpRunner& reference, std::vector<Pair>& pairs)
      : devices_(devices), reference_(reference), pairs_(pairs), rows_(pairs.size()) {
    for (const OpDevice& d : devices) {
      runners_.push_back(std::make_unique<OpRunner>(*d.slice, reference.shared_ops()));
    }
  }

  Status Run(const OpCase& c, DType dtype) {
    OC_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, MakeInputs(c, dtype, reference_));
    std::vector<Outcome> outcomes(devices_.size());
    for (size_t d = 0; d < devices_.size(); ++d) {
      std::string implementation;
      outcomes[d].outputs = runners_[d]->Run(c.op, c.attrs, inputs, {}, &implementation);
      outcomes[d].on_reference_code = implementation == "reference";
    }
    Compare(c, {c.op, dtype, false}, outcomes);

    if (!c.gradient || reference_.ops().Find(c.op)->gradient == nullptr || !IsFloat(dtype)) {
      return OkStatus();
    }
    OC_ASSIGN_OR_RETURN(const BackwardGraph backward,
                        BuildBackward(c, inputs, reference_.shared_ops()));
    if (backward.wanted.empty()) return OkStatus();
    std::vector<Outcome> gradients(devices_.size());
    for (size_t d = 0; d < devices_.size(); ++d) {
      // What the op itself lacks is listed once.
      if (absl::IsUnimplemented(outcomes[d].outputs.status())) {
        gradients[d].outputs = absl::CancelledError("");
        continue;
      }
      std::map<std::string, std::string> implementations;
      gradients[d].outputs =
          Evaluate(backward.graph, backward.feeds, backward.wanted, *runners_[d], &implementations);
      for (const auto& [op, implementation] : implementations) {
        gradients[d].on_reference_code |= implementation == "reference";
      }
    }
    Compare(c, {c.op, dtype, true}, gradients);
    return OkStatus();
  }

  void Finish() {
    for (size_t p = 0; p < pairs_.size(); ++p) {
      for (auto& [key, state] : rows_[p]) {
        OpRow row{.op = key.op, .dtype = key.dtype, .backward = key.backward};
        row.cases = state.row.cases;
        row.deviation = state.deviations.result();
        row.on_reference_code.assign(state.on_reference_code.begin(),
                                     state.on_reference_code.end());
        pairs_[p].ops.push_back(std::move(row));
      }
      std::stable_sort(pairs_[p].ops.begin(), pairs_[p].ops.end(),
                       [](const OpRow& a, const OpRow& b) {
                         return a.deviation.of_allowed > b.deviation.of_allowed;
                       });
    }
  }

 private:
  void Compare(const OpCase& c, const RowKey& key, const std::vector<Outcome>& outcomes) {
    size_t p = 0;
    for (size_t a = 0; a < devices_.size(); ++a) {
      for (size_t b = a + 1; b < devices_.size(); ++b, ++p) {
        if (!BothRan(c, key, a, b, outcomes, p)) continue;
        RowState& state = rows_[p][key];
        ++state.row.cases;
        for (size_t d : {a, b}) {
          const std::string& leaf = devices_[d].leaf;
          if (outcomes[d].on_reference_code && leaf != "reference") {
            state.on_reference_code.insert(leaf);
          }
        }
        CompareOutputs(c, key, *outcomes[a].outputs, *outcomes[b].outputs, state.deviations);
      }
    }
  }

  // What a device lacks is listed, and what fails on one side is a difference.
  bool BothRan(const OpCase& c, const RowKey& key, size_t a, size_t b,
               const std::vector<Outcome>& outcomes, size_t p) {
    bool both = true;
    for (size_t d : {a, b}) {
      const Status& status = outcomes[d].outputs.status();
      if (status.ok()) continue;
      both = false;
      if (absl::IsCancelled(status)) continue;
      const std::string& device = devices_[d].name;
      if (!absl::IsUnimplemented(status)) {
        RowState& state = rows_[p][key];
        ++state.row.cases;
        state.deviations.AddError(absl::StrCat(device, ": ", status.message()), c.name);
      } else if (listed_.insert({p, d, key}).second) {
        pairs_[p].lacks.push_back({device, WhatOf(key), ReasonIn(status, devices_[d])});
      }
    }
    return both;
  }

  static void CompareOutputs(const OpCase& c, const RowKey& key, const std::vector<Tensor>& a,
                             const std::vector<Tensor>& b, Deviations& deviations) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (!key.backward && !Compares(c, static_cast<int>(i))) continue;
      const double factor = key.backward ? c.backward_tolerance : 1;
      const double allowed = factor * c.tolerance * Tolerance(a[i].dtype(), key.dtype);
      deviations.Add(a[i], b[i], allowed, kLargestOverMean * allowed,
                     a.size() == 1 ? c.name : absl::StrCat(c.name, ", output ", i));
    }
  }

  const std::vector<OpDevice>& devices_;
  OpRunner& reference_;
  std::vector<Pair>& pairs_;
  std::vector<std::unique_ptr<OpRunner>> runners_;
  std::vector<std::map<RowKey, RowState>> rows_;  // by pair
  std::set<std::tuple<size_t, size_t, RowKey>> listed_;
};

}  // namespace

Status CompareOps(const std::vector<OpDevice>& devices, Slice& reference, const Options& options,
                  std::vector<Pair>& pairs) {
  OpRunner oracle(reference, BuiltinOps());
  for (const std::string& op : options.ops) {
    if (oracle.ops().Find(op) == nullptr) return oracle.ops().Unknown(op);
  }
  OpComparison comparison(devices, oracle, pairs);
  for (const OpCase& c : AllCases()) {
    const bool wanted =
        options.ops.empty() || std::count(options.ops.begin(), options.ops.end(), c.op) != 0;
    if (!wanted || c.error || NumElements(c) > options.largest_case) continue;
    for (DType dtype : c.dtypes) {
      OC_RETURN_IF_ERROR(Annotate(comparison.Run(c, dtype), CaseName(c, dtype)));
    }
  }
  comparison.Finish();
  return OkStatus();
}

}  // namespace oc::parity

#include "openclaw/graph/op.h"

#include <algorithm>

#include "openclaw/core/nearest_name.h"

namespace oc {

TensorList ListOf(const OpDef& def, const Attributes& attrs, size_t num_inputs) {
  TensorList list;
  const int n = static_cast<int>(num_inputs);
  if (def.lists == OpDef::Lists::kNone) {
    list.operands = n;
    return list;
  }
  list.shared = def.shared;
  list.operands = def.operands(attrs);
  list.tensors = (n - list.shared) / list.operands;
  list.whole = list.tensors >= 1 && list.tensors * list.operands + list.shared == n;
  return list;
}

int UpdatedInput(const OpDef& def, const Attributes& attrs, size_t num_inputs, size_t num_outputs,
                 size_t output) {
  if (def.lists != OpDef::Lists::kEach) {
    return output < def.updates.size() ? def.updates[output] : -1;
  }
  const TensorList list = ListOf(def, attrs, num_inputs);
  const size_t outputs = num_outputs / static_cast<size_t>(list.tensors);
  const int within = def.updates.empty() ? -1 : def.updates[output % outputs];
  return within < 0 ? -1 : static_cast<int>(output / outputs) * list.operands + within;
}

Status OpRegistry::Add(OpDef def) {
  const std::string name = def.name;
  OC_CHECK(!name.empty() && def.infer != nullptr, "an op has a name and a shape rule: ", name);
  auto [it, inserted] = defs_.emplace(name, nullptr);
  if (!inserted) return InvalidArgument("add op ", name, ": the name is taken");
  it->second = std::make_unique<const OpDef>(std::move(def));
  return OkStatus();
}

const OpDef* OpRegistry::Find(const std::string& name) const {
  auto it = defs_.find(name);
  return it == defs_.end() ? nullptr : it->second.get();
}

std::vector<std::string> OpRegistry::names() const {
  std::vector<std::string> result;
  for (const auto& [name, def] : defs_) result.push_back(name);
  return result;
}

Status OpRegistry::Unknown(const std::string& name) const {
  const std::string nearest = NearestName(name, names());
  return InvalidArgument("unknown op '", name, "'",
                         nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?"));
}

bool TakesSumType(const OpDef& def) {
  // An op whose output's type is its attribute alone, as cast's, must have it.
  return std::any_of(def.attrs.begin(), def.attrs.end(),
                     [](const AttrSpec& spec) { return spec.name == "dtype" && !spec.required; });
}

OpCost DefaultCost(const OpDef& def, const InferArgs& args,
                   const std::vector<TensorType>& outputs) {
  if (def.is_view) return {};
  if (def.cost) return def.cost(args, outputs);
  OpCost cost;
  for (const TensorType& t : args.inputs) cost.bytes += static_cast<double>(t.bytes());
  for (const TensorType& t : outputs) {
    cost.bytes += static_cast<double>(t.bytes());
    cost.flops += static_cast<double>(t.shape.num_elements());
  }
  return cost;
}

}  // namespace oc

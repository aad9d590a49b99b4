#include "openclaw/graph/op.h"

#include <algorithm>

#include "openclaw/core/nearest_name.h"

namespace oc {

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

#include "openclaw/graph/op.h"

#include <algorithm>

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

std::string NearestName(const std::string& name, const std::vector<std::string>& known) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 2) + 1;
  for (const std::string& candidate : known) {
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        const size_t substitute = diagonal + (name[i - 1] != candidate[j - 1] ? 1 : 0);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace oc

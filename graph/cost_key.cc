#include "openclaw/graph/cost_key.h"

#include <absl/strings/str_join.h>

namespace oc {
namespace {

// Tensors of a list that follow each other and are alike are counted: "12*{f32[768], f32[768]}".
std::string ListText(const std::vector<std::string>& types, const TensorList& list) {
  std::vector<std::string> parts;
  std::string last;
  int count = 0;
  const auto end_run = [&] {
    if (count > 0) parts.push_back(absl::StrCat(count, "*{", last, "}"));
    count = 0;
  };
  for (int t = 0; t < list.tensors; ++t) {
    const auto begin = types.begin() + t * list.operands;
    std::string one = absl::StrJoin(begin, begin + list.operands, ", ");
    if (one != last) end_run();
    last = std::move(one);
    ++count;
  }
  end_run();
  parts.insert(parts.end(), types.end() - list.shared, types.end());
  return absl::StrJoin(parts, ", ");
}

}  // namespace

std::string CostKey(const OpDef& def, const Attributes& attrs,
                    const std::vector<TensorType>& inputs, uint32_t accumulate,
                    const std::string& vcu_kind) {
  std::vector<std::string> types;
  for (const TensorType& type : inputs) {
    OC_CHECK(type.shape.bound(), "cost key of ", type.ToString());
    types.push_back(type.ToString());
  }
  const TensorList list = ListOf(def, attrs, inputs.size());
  Attributes kept;
  for (const auto& [name, value] : attrs.values()) {
    if (def.random && name == "stream") continue;
    kept.Set(name, value);
  }
  return absl::StrCat(
      def.name, "@", def.version, "(",
      list.tensors > 1 ? ListText(types, list) : absl::StrJoin(types, ", "), "; ", kept.ToString(),
      "; ", accumulate == 0 ? "" : absl::StrCat("accumulate=", accumulate), ") on ", vcu_kind);
}

}  // namespace oc

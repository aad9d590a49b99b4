#include "openclaw/graph/cost_key.h"

#include <absl/strings/str_join.h>

namespace oc {

std::string CostKey(const OpDef& def, const Attributes& attrs,
                    const std::vector<TensorType>& inputs, uint32_t accumulate,
                    const std::string& vcu_kind) {
  const auto append_type = [](std::string* out, const TensorType& type) {
    OC_CHECK(type.shape.bound(), "cost key of ", type.ToString());
    out->append(type.ToString());
  };
  Attributes kept;
  for (const auto& [name, value] : attrs.values()) {
    if (def.random && name == "stream") continue;
    kept.Set(name, value);
  }
  return absl::StrCat(def.name, "@", def.version, "(", absl::StrJoin(inputs, ", ", append_type),
                      "; ", kept.ToString(), "; ",
                      accumulate == 0 ? "" : absl::StrCat("accumulate=", accumulate), ") on ",
                      vcu_kind);
}

}  // namespace oc

#include "openclaw/launcher/config/device_options.h"

#include <absl/strings/str_join.h>

#include <vector>

namespace oc::config {

void ReadDeviceOptions(const YamlValue& value, const std::string& device, Section* section,
                       std::map<std::string, std::string>* options) {
  const auto bad = [&] {
    section->FailValue(device, value,
                       "a map of the device's own options, each a value or a list of values");
  };
  if (value.kind != YamlValue::Kind::kMap) return bad();
  for (const YamlEntry& option : value.entries) {
    const bool list = option.value.kind == YamlValue::Kind::kList;
    std::vector<std::string> parts;
    for (const YamlValue& part : list ? option.value.items : std::vector{option.value}) {
      if (part.kind != YamlValue::Kind::kScalar) return bad();
      parts.push_back(part.scalar);
    }
    (*options)[option.key] = absl::StrJoin(parts, ",");
  }
}

}  // namespace oc::config

// A device's own options, in cluster entries and cluster files.
#pragma once

#include <map>
#include <string>

#include "openclaw/launcher/config/section.h"
#include "openclaw/launcher/config/yaml_value.h"

namespace oc::config {

// `sim: {speed: 2, dtypes: [f32, i32]}`: texts for the device to check; a list joined by commas.
// An error goes to `section`, whose key `device` holds `value`.
void ReadDeviceOptions(const YamlValue& value, const std::string& device, Section* section,
                       std::map<std::string, std::string>* options);

}  // namespace oc::config

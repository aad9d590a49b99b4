// Leaves that are modules: openclaw_<leaf>.so beside the library, or in ../lib of the program.
// A module is opened (LoadPlugin) when its devices are first wanted, so that a program links no
// vendor's library.
//
//   for (DeviceLeaf& leaf : FindDeviceModules()) registry.Add(std::move(leaf));
#pragma once

#include <vector>

#include "openclaw/devices/device.h"

namespace oc {

// One leaf a module file, by name; nothing is opened yet. `discover` answers with the errors of
// LoadPlugin, or kFailedPrecondition where the module is another leaf's.
std::vector<DeviceLeaf> FindDeviceModules();
// The same, in these folders; of two files of one name the first counts.
std::vector<DeviceLeaf> FindDeviceModules(const std::vector<std::string>& folders);

}  // namespace oc

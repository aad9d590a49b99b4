// Devices behind the C interface (openclaw_device.h): a plugin's table as a DeviceLeaf. Leaves of
// the tree come through the same table; nobody above devices/ sees a difference.
//
//   OC_ASSIGN_OR_RETURN(DeviceLeaf leaf, LoadPlugin("libnpu_plugin.so"));
//   registry.Add(std::move(leaf));
#pragma once

#include <string>

#include "openclaw/devices/device.h"
#include "openclaw/devices/openclaw_device.h"

namespace oc {

// Opens the library, which stays open for the life of the process. First a child process tries it,
// so that a plugin that crashes or hangs while it is loaded or counts its devices is an error here:
// kFailedPrecondition names the file and what it did, also where the symbol is missing or no table
// is shared; kDeadlineExceeded after `timeout_seconds`.
StatusOr<DeviceLeaf> LoadPlugin(const std::string& path, double timeout_seconds = 30);

// The leaf of a query function in this process. kFailedPrecondition where it returns no table, or
// one that lacks what must be there; `origin` names it in messages.
StatusOr<DeviceLeaf> LeafOfTable(oc_device_query_function query, const std::string& origin);

}  // namespace oc

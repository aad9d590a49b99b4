#include "openclaw/devices/device.h"

#include <absl/strings/str_join.h>

namespace oc {

std::string ToString(const OpRequest& request) {
  std::string text = request.def->name;
  for (const TensorType& t : request.inputs) absl::StrAppend(&text, " ", t.ToString());
  if (!request.attrs.values().empty()) absl::StrAppend(&text, " ", request.attrs.ToString());
  if (request.accumulate != 0) absl::StrAppend(&text, " accumulate ", request.accumulate);
  return text;
}

bool WantsSumType(const OpRequest& request) {
  return request.attrs.Has("dtype") && TakesSumType(*request.def);
}

StatusOr<const DeviceLeaf*> DeviceRegistry::Find(const std::string& name) const {
  for (const DeviceLeaf& leaf : leaves_) {
    if (leaf.name == name) return &leaf;
  }
  return InvalidArgument("no device leaf '", name, "'; there are: ",
                         absl::StrJoin(leaves_, ", ", [](std::string* out, const DeviceLeaf& l) {
                           out->append(l.name);
                         }));
}

}  // namespace oc

// The list of the product's ops. To add one: a file here, a line in the list, a line in docs/ops.md, a
// kernel a device.
#include "openclaw/graph/ops/ops.h"

namespace oc {
namespace ops {

// Each is defined in the file of its family.
// clang-format off
#define OC_OPS(X)
// clang-format on

#define OC_DECLARE(function) OpDef function();
OC_OPS(OC_DECLARE)
#undef OC_DECLARE

std::vector<OpDef> All() {
  std::vector<OpDef> all;
#define OC_LIST(function) all.push_back(function());
  OC_OPS(OC_LIST)
#undef OC_LIST
  return all;
}

}  // namespace ops

std::unique_ptr<OpRegistry> NewRegistryWithBuiltinOps() {
  auto registry = std::make_unique<OpRegistry>();
  for (OpDef& def : ops::All()) {
    const std::string name = def.name;
    const Status status = registry->Add(std::move(def));
    OC_CHECK(status.ok(), name, ": ", status.ToString());
  }
  return registry;
}

std::shared_ptr<const OpRegistry> BuiltinOps() {
  // Built once and never changed: not state.
  static const std::shared_ptr<const OpRegistry> registry = NewRegistryWithBuiltinOps();
  return registry;
}

}  // namespace oc

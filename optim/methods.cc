#include "openclaw/optim/methods.h"

#include <absl/strings/str_join.h>

namespace oc {
namespace {

// f of a default-made method of each kind, until one answers true.
template <typename F, size_t... kIndex>
void ForEachMethod(const F& f, std::index_sequence<kIndex...>) {
  (void)(f(std::variant_alternative_t<kIndex, Method>()) || ...);
}
template <typename F>
void ForEachMethod(const F& f) {
  ForEachMethod(f, std::make_index_sequence<std::variant_size_v<Method>>());
}

}  // namespace

std::vector<std::string> MethodNames() {
  std::vector<std::string> names;
  ForEachMethod([&](const auto& method) {
    names.push_back(method.kName);
    return false;
  });
  return names;
}

StatusOr<Method> DefaultMethod(const std::string& name) {
  std::optional<Method> found;
  ForEachMethod([&](const auto& method) {
    if (name == method.kName) found = method;
    return found.has_value();
  });
  if (found) return *std::move(found);
  return Unimplemented("optimizer.name '", name, "'; there are ",
                       absl::StrJoin(MethodNames(), ", "));
}

}  // namespace oc

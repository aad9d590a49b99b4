#include "openclaw/graph/text/words.h"

#include <absl/strings/escaping.h>

#include <algorithm>

namespace oc {

bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

std::string QuoteWord(const std::string& name) {
  const bool plain =
      !name.empty() && name != "_" && std::all_of(name.begin(), name.end(), IsWordChar);
  return plain ? name : absl::StrCat("\"", absl::CEscape(name), "\"");
}

Scope DefaultScope(ValueKind kind) {
  switch (kind) {
    case ValueKind::kParameter:
    case ValueKind::kState:
    case ValueKind::kReduced:
      return Scope::kStep;
    default:
      return Scope::kMicroBatch;
  }
}

}  // namespace oc

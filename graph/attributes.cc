#include "openclaw/graph/attributes.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <cstdlib>

namespace oc {

std::string FormatDouble(double value) {
  for (int precision = 6; precision <= 17; ++precision) {
    std::string text = absl::StrFormat("%.*g", precision, value);
    if (std::strtod(text.c_str(), nullptr) != value && precision < 17) continue;
    if (text.find_first_of(".einf") == std::string::npos) text += ".0";
    return text;
  }
  return "nan";
}

namespace {

struct Formatter {
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(int64_t v) const { return absl::StrCat(v); }
  std::string operator()(double v) const { return FormatDouble(v); }
  std::string operator()(const std::string& v) const {
    return absl::StrCat("\"", absl::CEscape(v), "\"");
  }
  std::string operator()(const std::vector<int64_t>& v) const {
    return absl::StrCat("(", absl::StrJoin(v, ", "), ")");
  }
  std::string operator()(const Shape& v) const { return v.ToString(); }
  std::string operator()(DType v) const { return Name(v); }
};

}  // namespace

Attributes Attributes::Bind(const DimBinding& binding) const {
  Attributes result = *this;
  for (auto& [name, value] : result.values_) {
    if (Shape* shape = std::get_if<Shape>(&value)) *shape = shape->Bind(binding);
  }
  return result;
}

std::string Attributes::ToString() const {
  if (values_.empty()) return "";
  return absl::StrCat("{",
                      absl::StrJoin(values_, ", ",
                                    [](std::string* out, const auto& entry) {
                                      absl::StrAppend(out, entry.first, ": ",
                                                      std::visit(Formatter(), entry.second));
                                    }),
                      "}");
}

}  // namespace oc

#include "openclaw/launcher/config/section.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>

#include "openclaw/core/nearest_name.h"

namespace oc::config {
namespace {

std::string RangeText(double lo, bool lo_open, double hi, bool hi_open) {
  if (lo <= -kMaxDouble && hi >= kMaxDouble) return "a number";
  if (hi >= kMaxDouble) return absl::StrCat("a number ", lo_open ? "above " : "of at least ", lo);
  return absl::StrCat("a number in ", lo_open ? "(" : "[", lo, ", ", hi, hi_open ? ")" : "]");
}

std::string RangeText(int64_t lo, int64_t hi) {
  if (hi == kMaxInt) return absl::StrCat("an integer of at least ", lo);
  return absl::StrCat("an integer in [", lo, ", ", hi, "]");
}

bool PlainScalar(const YamlValue& value) {
  return value.kind == YamlValue::Kind::kScalar && !value.quoted;
}

}  // namespace

Status Errors::ToStatus() const {
  return lines_.empty() ? OkStatus() : InvalidArgument(absl::StrJoin(lines_, "\n"));
}

StatusOr<int64_t> ParseBytes(const std::string& text) {
  static constexpr struct {
    const char* suffix;
    double factor;
  } kUnits[] = {{"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0},
                {"TiB", 0x1p40}, {"KB", 1e3},        {"MB", 1e6},
                {"GB", 1e9},     {"TB", 1e12},       {"B", 1}};
  std::string number = text;
  double factor = 1;
  for (const auto& unit : kUnits) {
    const std::string suffix = unit.suffix;
    if (text.size() > suffix.size() && text.ends_with(suffix)) {
      number = text.substr(0, text.size() - suffix.size());
      factor = unit.factor;
      break;
    }
  }
  double value = 0;
  if (!absl::SimpleAtod(number, &value) || !(value * factor >= 1) || value * factor > 0x1p62) {
    return InvalidArgument("not a size");
  }
  return static_cast<int64_t>(value * factor);
}

Section::Section(const YamlValue* value, std::string path, Errors* errors)
    : value_(value), path_(std::move(path)), errors_(errors) {
  if (value_ == nullptr || value_->kind == YamlValue::Kind::kMap) return;
  if (value_->kind != YamlValue::Kind::kNull) {
    errors_->Add(value_->where, absl::StrCat("`", path_, "` is `", value_->ToString(),
                                             "`, which must be a map of keys"));
  }
  value_ = nullptr;
}

const YamlValue* Section::Raw(const std::string& key) {
  if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
  const YamlValue* value = value_ == nullptr ? nullptr : value_->Find(key);
  return value == nullptr || value->kind == YamlValue::Kind::kNull ? nullptr : value;
}

bool Section::IsAuto(const YamlValue& value) {
  return PlainScalar(value) && value.scalar == "auto";
}

std::string Section::Path(const std::string& key) const {
  return path_.empty() ? key : absl::StrCat(path_, ".", key);
}

std::string Section::Where(const std::string& key) const {
  if (value_ == nullptr) return "configuration";
  for (const YamlEntry& entry : value_->entries) {
    if (entry.key == key) return entry.where;
  }
  return value_->where;
}

void Section::Fail(const std::string& key, const std::string& message) {
  errors_->Add(Where(key), absl::StrCat("`", Path(key), "` ", message));
}

void Section::FailValue(const std::string& key, const YamlValue& value, const std::string& what) {
  errors_->Add(value.where,
               absl::StrCat("`", Path(key), "` is `", value.ToString(), "`, which must be ", what));
}

bool Section::ParseIntValue(const std::string& key, const YamlValue& value, int64_t lo, int64_t hi,
                            const std::string& also, int64_t* out) {
  int64_t parsed = 0;
  if (!PlainScalar(value) || !absl::SimpleAtoi(value.scalar, &parsed) || parsed < lo ||
      parsed > hi) {
    FailValue(key, value, RangeText(lo, hi) + also);
    return false;
  }
  *out = parsed;
  return true;
}

bool Section::ParseDoubleValue(const std::string& key, const YamlValue& value, double lo,
                               bool lo_open, double hi, bool hi_open, double* out) {
  double parsed = 0;
  if (!PlainScalar(value) || !absl::SimpleAtod(value.scalar, &parsed) || !std::isfinite(parsed) ||
      parsed < lo || parsed > hi || (lo_open && parsed == lo) || (hi_open && parsed == hi)) {
    FailValue(key, value, RangeText(lo, lo_open, hi, hi_open));
    return false;
  }
  *out = parsed;
  return true;
}

void Section::Int(const std::string& key, int64_t lo, int64_t hi, int64_t* out) {
  if (const YamlValue* value = Raw(key)) ParseIntValue(key, *value, lo, hi, "", out);
}

void Section::Int(const std::string& key, int64_t lo, int64_t hi, int* out) {
  int64_t parsed = *out;
  Int(key, lo, std::min<int64_t>(hi, std::numeric_limits<int>::max()), &parsed);
  *out = static_cast<int>(parsed);
}

void Section::Unsigned(const std::string& key, uint64_t* out) {
  const YamlValue* value = Raw(key);
  if (value == nullptr) return;
  uint64_t parsed = 0;
  if (!PlainScalar(*value) || !absl::SimpleAtoi(value->scalar, &parsed)) {
    return FailValue(key, *value, "an integer in [0, 2^64)");
  }
  *out = parsed;
}

void Section::Double(const std::string& key, double lo, double hi, double* out) {
  OpenDouble(key, lo, false, hi, false, out);
}

void Section::OpenDouble(const std::string& key, double lo, bool lo_open, double hi, bool hi_open,
                         double* out) {
  if (const YamlValue* value = Raw(key)) {
    ParseDoubleValue(key, *value, lo, lo_open, hi, hi_open, out);
  }
}

void Section::Bool(const std::string& key, bool* out) {
  const YamlValue* value = Raw(key);
  if (value == nullptr) return;
  if (!PlainScalar(*value) || (value->scalar != "true" && value->scalar != "false")) {
    return FailValue(key, *value, "true or false");
  }
  *out = value->scalar == "true";
}

void Section::String(const std::string& key, std::string* out) {
  const YamlValue* value = Raw(key);
  if (value == nullptr) return;
  if (value->kind != YamlValue::Kind::kScalar || value->scalar.empty()) {
    return FailValue(key, *value, "a text");
  }
  *out = value->scalar;
}

void Section::Enum(const std::string& key, const std::vector<std::string>& allowed,
                   std::string* out) {
  const YamlValue* value = Raw(key);
  if (value == nullptr) return;
  if (value->kind != YamlValue::Kind::kScalar ||
      std::find(allowed.begin(), allowed.end(), value->scalar) == allowed.end()) {
    return FailValue(key, *value, absl::StrCat("one of ", absl::StrJoin(allowed, ", ")));
  }
  *out = value->scalar;
}

void Section::Bytes(const std::string& key, int64_t* out) {
  const YamlValue* value = Raw(key);
  if (value == nullptr) return;
  StatusOr<int64_t> bytes = InvalidArgument("no scalar");
  if (value->kind == YamlValue::Kind::kScalar) bytes = ParseBytes(value->scalar);
  if (!bytes.ok()) return FailValue(key, *value, "a memory size, such as 4GiB, 512MiB or 1048576");
  *out = *bytes;
}

void Section::Ints(const std::string& key, int64_t lo, int64_t hi, std::vector<int64_t>* out) {
  const YamlValue* value = Raw(key);
  if (value == nullptr) return;
  if (value->kind != YamlValue::Kind::kList) {
    return FailValue(key, *value, "a list, each item " + RangeText(lo, hi));
  }
  std::vector<int64_t> list;
  for (const YamlValue& item : value->items) {
    int64_t number = 0;
    if (!ParseIntValue(key, item, lo, hi, "", &number)) return;
    list.push_back(number);
  }
  *out = std::move(list);
}

void Section::Doubles(const std::string& key, double lo, double hi, size_t count,
                      std::vector<double>* out) {
  const YamlValue* value = Raw(key);
  if (value == nullptr) return;
  if (value->kind != YamlValue::Kind::kList || value->items.size() != count) {
    return FailValue(key, *value, absl::StrCat("a list of ", count, " numbers"));
  }
  std::vector<double> list;
  for (const YamlValue& item : value->items) {
    double number = 0;
    if (!ParseDoubleValue(key, item, lo, false, hi, true, &number)) return;
    list.push_back(number);
  }
  *out = std::move(list);
}

void Section::Strings(const std::string& key, std::vector<std::string>* out) {
  const YamlValue* value = Raw(key);
  if (value == nullptr) return;
  if (value->kind == YamlValue::Kind::kScalar && !value->scalar.empty()) {
    *out = {value->scalar};
    return;
  }
  std::vector<std::string> list;
  bool good = value->kind == YamlValue::Kind::kList;
  for (const YamlValue& item : value->items) {
    good = good && item.kind == YamlValue::Kind::kScalar && !item.scalar.empty();
    list.push_back(item.scalar);
  }
  if (!good) return FailValue(key, *value, "a text or a list of texts");
  *out = std::move(list);
}

void Section::AutoInt(const std::string& key, int64_t lo, int64_t hi, std::optional<int64_t>* out) {
  const YamlValue* value = Raw(key);
  if (value == nullptr) return;
  if (IsAuto(*value)) {
    out->reset();
    return;
  }
  int64_t parsed = 0;
  if (ParseIntValue(key, *value, lo, hi, ", or auto", &parsed)) *out = parsed;
}

void Section::Finish() {
  if (value_ == nullptr) return;
  for (const YamlEntry& entry : value_->entries) {
    if (std::find(known_.begin(), known_.end(), entry.key) != known_.end()) continue;
    const std::string nearest = NearestName(entry.key, known_);
    errors_->Add(
        entry.where,
        absl::StrCat("unknown key `", Path(entry.key), "`",
                     nearest.empty() ? absl::StrCat("; known here: ", absl::StrJoin(known_, ", "))
                                     : absl::StrCat("; did you mean `", nearest, "`?")));
  }
}

}  // namespace oc::config

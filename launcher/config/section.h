// Reads one map of a YAML document key by key, checking types and ranges, and remembers which keys
// were asked for: what is left over is unknown. Internal to launcher/config.
//
//   Section section(*root.Find("train"), "train", &errors);
//   section.Int("micro_batch", 1, kMaxInt, &train.micro_batch);
//   section.Finish();   // reports unknown keys
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "openclaw/core/status.h"
#include "openclaw/launcher/config/yaml_value.h"

namespace oc::config {

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr double kMaxDouble = std::numeric_limits<double>::max();

// The errors of a file, in the order of reading.
class Errors {
 public:
  void Add(const std::string& where, const std::string& message) {
    lines_.push_back(where + ": " + message);
  }
  bool empty() const { return lines_.empty(); }
  Status ToStatus() const;  // kInvalidArgument with all of them, or ok

 private:
  std::vector<std::string> lines_;
};

// "4GiB", "512MiB", "1.5GB", "1048576": bytes.
StatusOr<int64_t> ParseBytes(const std::string& text);

// Keys that are absent leave *out as it is, and so do those with an error. All values end up in
// [lo, hi].
class Section {
 public:
  // `value` may be null (an absent section), and must be a map or a YAML null. Both pointers must
  // outlive the section.
  Section(const YamlValue* value, std::string path, Errors* errors);

  void Int(const std::string& key, int64_t lo, int64_t hi, int64_t* out);
  void Int(const std::string& key, int64_t lo, int64_t hi, int* out);
  void Unsigned(const std::string& key, uint64_t* out);
  void Double(const std::string& key, double lo, double hi, double* out);
  // Excludes the ends of the range that are marked open.
  void OpenDouble(const std::string& key, double lo, bool lo_open, double hi, bool hi_open,
                  double* out);
  void Bool(const std::string& key, bool* out);
  void String(const std::string& key, std::string* out);  // not empty
  void Enum(const std::string& key, const std::vector<std::string>& allowed, std::string* out);
  void Bytes(const std::string& key, int64_t* out);  // memory sizes, positive
  void Ints(const std::string& key, int64_t lo, int64_t hi, std::vector<int64_t>* out);
  void Doubles(const std::string& key, double lo, double hi, size_t count,
               std::vector<double>* out);
  void Strings(const std::string& key, std::vector<std::string>* out);  // a list, or one text

  // The same, where the word `auto` empties *out.
  void AutoInt(const std::string& key, int64_t lo, int64_t hi, std::optional<int64_t>* out);

  // The raw value, null where absent or a YAML null; counts as read.
  const YamlValue* Raw(const std::string& key);
  // True for the plain word `auto`.
  static bool IsAuto(const YamlValue& value);

  // "file.yaml:7" of a key, or of the section where the key is absent.
  std::string Where(const std::string& key) const;
  std::string Path(const std::string& key) const;
  void Fail(const std::string& key, const std::string& message);
  // "`train.steps` is `x`, which must be <what>".
  void FailValue(const std::string& key, const YamlValue& value, const std::string& what);

  // Reports the keys that nobody asked for, and sections that are no maps.
  void Finish();

 private:
  bool ParseIntValue(const std::string& key, const YamlValue& value, int64_t lo, int64_t hi,
                     const std::string& also, int64_t* out);
  bool ParseDoubleValue(const std::string& key, const YamlValue& value, double lo, bool lo_open,
                        double hi, bool hi_open, double* out);

  const YamlValue* value_;  // null: nothing there
  std::string path_;
  Errors* errors_;
  std::vector<std::string> known_;
};

}  // namespace oc::config

// A YAML document as plain data with the place of every value, so that whoever reads it needs
// neither the YAML library nor its exceptions. Internal to launcher/config.
#pragma once

#include <string>
#include <vector>

#include "openclaw/core/status.h"

namespace oc::config {

struct YamlEntry;

struct YamlValue {
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  std::string scalar;
  bool quoted = false;             // "auto" in quotes is a text, not a keyword
  std::vector<YamlValue> items;    // kList
  std::vector<YamlEntry> entries;  // kMap, in the order of the file
  std::string where;               // "file.yaml:12", or "command line"

  // Null where there is none. Precondition: kMap.
  const YamlValue* Find(const std::string& key) const;
  // As it could stand in a file, in flow style; for messages, so long ones are cut.
  std::string ToString() const;
};

struct YamlEntry {
  std::string key;
  std::string where;
  YamlValue value;
};

// One document; `source` is its name in `where`. An empty text is kNull. kInvalidArgument for
// broken YAML, several documents, a key that stands twice in a map, and keys that are no scalars.
StatusOr<YamlValue> ParseYaml(const std::string& text, const std::string& source);

// Reads a whole file. kFailedPrecondition where that fails.
StatusOr<std::string> ReadTextFile(const std::string& path);

// Sets one `key.path=value` in a document. Maps on the way are made where they are missing; an item
// of a list must be there. The value's `where` is "command line (key.path=value)". Returns the key
// path.
StatusOr<std::string> ApplyOverride(const std::string& assignment, YamlValue* root);

}  // namespace oc::config

#include "openclaw/launcher/config/yaml_value.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace oc::config {
namespace {

// Guards against aliases that expand without end; an experiment has dozens of values.
constexpr int kMaxValues = 200000;

std::string At(const std::string& source, const YAML::Mark& mark) {
  return mark.is_null() ? source : absl::StrCat(source, ":", mark.line + 1);
}

Status Convert(const YAML::Node& node, const std::string& source, int* budget, YamlValue* out);

Status ConvertMap(const YAML::Node& node, const std::string& source, int* budget, YamlValue* out) {
  out->kind = YamlValue::Kind::kMap;
  for (const auto& pair : node) {
    YamlEntry entry;
    entry.where = At(source, pair.first.Mark());
    if (!pair.first.IsScalar()) {
      return InvalidArgument(entry.where, ": a key must be a plain word");
    }
    entry.key = pair.first.Scalar();
    for (const YamlEntry& other : out->entries) {
      if (other.key == entry.key) {
        return InvalidArgument(entry.where, ": key `", entry.key, "` stands twice (first at ",
                               other.where, ")");
      }
    }
    OC_RETURN_IF_ERROR(Convert(pair.second, source, budget, &entry.value));
    out->entries.push_back(std::move(entry));
  }
  return OkStatus();
}

Status Convert(const YAML::Node& node, const std::string& source, int* budget, YamlValue* out) {
  out->where = At(source, node.Mark());
  if (--*budget < 0) return InvalidArgument(source, ": more than ", kMaxValues, " values");
  switch (node.Type()) {
    case YAML::NodeType::Undefined:
    case YAML::NodeType::Null:
      out->kind = YamlValue::Kind::kNull;
      return OkStatus();
    case YAML::NodeType::Scalar:
      out->kind = YamlValue::Kind::kScalar;
      out->scalar = node.Scalar();
      out->quoted = node.Tag() == "!";
      return OkStatus();
    case YAML::NodeType::Sequence:
      out->kind = YamlValue::Kind::kList;
      for (const YAML::Node& item : node) {
        out->items.emplace_back();
        OC_RETURN_IF_ERROR(Convert(item, source, budget, &out->items.back()));
      }
      return OkStatus();
    case YAML::NodeType::Map:
      return ConvertMap(node, source, budget, out);
  }
  return Internal("yaml: unknown kind of node");
}

void SetWhere(const std::string& where, YamlValue* value) {
  value->where = where;
  for (YamlValue& item : value->items) SetWhere(where, &item);
  for (YamlEntry& entry : value->entries) {
    entry.where = where;
    SetWhere(where, &entry.value);
  }
}

std::string FlowText(const YamlValue& value) {
  switch (value.kind) {
    case YamlValue::Kind::kNull:
      return "null";
    case YamlValue::Kind::kScalar:
      return value.quoted ? absl::StrCat("\"", value.scalar, "\"") : value.scalar;
    case YamlValue::Kind::kList: {
      std::vector<std::string> parts;
      for (const YamlValue& item : value.items) parts.push_back(FlowText(item));
      return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
    }
    case YamlValue::Kind::kMap: {
      std::vector<std::string> parts;
      for (const YamlEntry& e : value.entries) {
        parts.push_back(absl::StrCat(e.key, ": ", FlowText(e.value)));
      }
      return absl::StrCat("{", absl::StrJoin(parts, ", "), "}");
    }
  }
  return "?";
}

// The child that one part of a key path names; made where a map lacks it.
StatusOr<YamlValue*> Child(const std::string& part, const std::string& where, YamlValue* parent) {
  if (parent->kind == YamlValue::Kind::kList) {
    int64_t index = 0;
    const int64_t size = static_cast<int64_t>(parent->items.size());
    if (!absl::SimpleAtoi(part, &index) || index < 0 || index >= size) {
      return InvalidArgument(where, ": `", part, "` is no item of a list of ", size,
                             " (items count from 0)");
    }
    return &parent->items[index];
  }
  if (parent->kind == YamlValue::Kind::kScalar) {
    return InvalidArgument(where, ": cannot set `", part, "` inside the value `",
                           parent->ToString(), "`");
  }
  parent->kind = YamlValue::Kind::kMap;
  for (YamlEntry& entry : parent->entries) {
    if (entry.key == part) {
      entry.where = where;
      return &entry.value;
    }
  }
  parent->entries.push_back({part, where, {}});
  return &parent->entries.back().value;
}

}  // namespace

const YamlValue* YamlValue::Find(const std::string& key) const {
  for (const YamlEntry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

std::string YamlValue::ToString() const {
  constexpr size_t kMax = 80;
  std::string text = FlowText(*this);
  if (text.size() > kMax) text = text.substr(0, kMax) + "...";
  return text;
}

StatusOr<YamlValue> ParseYaml(const std::string& text, const std::string& source) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      return InvalidArgument(source, ": holds ", documents.size(), " YAML documents, not one");
    }
    YamlValue value;
    value.where = absl::StrCat(source, ":1");
    if (documents.empty()) return value;
    int budget = kMaxValues;
    OC_RETURN_IF_ERROR(Convert(documents[0], source, &budget, &value));
    return value;
  } catch (const YAML::Exception& e) {
    return InvalidArgument(At(source, e.mark), ": not YAML: ", e.msg);
  } catch (const std::exception& e) {
    return InvalidArgument(source, ": not YAML: ", e.what());
  }
}

StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || !text) return FailedPrecondition("cannot read the file ", path);
  return text.str();
}

StatusOr<std::string> ApplyOverride(const std::string& assignment, YamlValue* root) {
  const size_t equals = assignment.find('=');
  const std::string path = assignment.substr(0, equals);
  const std::vector<std::string> parts = absl::StrSplit(path, '.');
  if (equals == std::string::npos || std::count(parts.begin(), parts.end(), "") > 0) {
    return InvalidArgument("command line: `", assignment,
                           "` is not of the form key.path=value, such as optimizer.lr=3e-4");
  }
  const std::string where = absl::StrCat("command line (", assignment, ")");
  OC_ASSIGN_OR_RETURN(YamlValue value, ParseYaml(assignment.substr(equals + 1), where));
  YamlValue* target = root;
  for (const std::string& part : parts) {
    OC_ASSIGN_OR_RETURN(target, Child(part, where, target));
  }
  SetWhere(where, &value);
  *target = std::move(value);
  return path;
}

}  // namespace oc::config

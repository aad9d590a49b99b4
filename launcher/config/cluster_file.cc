#include "openclaw/launcher/config/cluster_file.h"

#include <absl/strings/str_join.h>

#include <map>

#include "openclaw/launcher/config/device_options.h"
#include "openclaw/launcher/config/section.h"
#include "openclaw/launcher/config/yaml_value.h"

namespace oc {
namespace {

using config::Errors;
using config::kMaxDouble;
using config::kMaxInt;
using config::Section;
using config::YamlValue;

constexpr int64_t kMaxVcus = 65536;

bool IsList(const YamlValue& value) { return value.kind == YamlValue::Kind::kList; }

void ReadDTypes(Section* section, VcuSpec* vcu) {
  std::vector<std::string> names = {"f32"};
  section->Strings("dtypes", &names);
  for (const std::string& name : names) {
    StatusOr<DType> dtype = ParseDType(name);
    if (dtype.ok()) {
      vcu->dtypes.push_back(*dtype);
    } else {
      section->Fail("dtypes", std::string(dtype.status().message()));
    }
  }
}

void ReadVcu(const YamlValue& value, const std::string& path, Errors* errors,
             std::map<std::string, int>* numbers, ClusterSpec* cluster) {
  Section section(&value, path, errors);
  VcuSpec vcu;
  int count = 1;
  vcu.threads = 0;
  section.String("name", &vcu.name);
  section.String("device", &vcu.device);
  section.String("kind", &vcu.kind);
  section.String("host_kind", &vcu.host_kind);
  section.String("host", &vcu.host);
  section.Int("process", 0, kMaxInt, &vcu.process);
  section.Int("threads", 1, kMaxVcus, &vcu.threads);
  section.Int("count", 1, kMaxVcus, &count);
  section.Bytes("memory", &vcu.memory_bytes);
  ReadDTypes(&section, &vcu);
  for (const char* key : {"device", "memory"}) {
    if (section.Raw(key) == nullptr) section.Fail(key, "is missing");
  }
  if (const YamlValue* own = vcu.device.empty() ? nullptr : section.Raw(vcu.device)) {
    config::ReadDeviceOptions(*own, vcu.device, &section, &vcu.options);
  }
  section.Finish();
  if (vcu.device.empty() || vcu.memory_bytes == 0) return;  // reported
  if (cluster->size() + count > kMaxVcus) {
    return section.Fail("count", absl::StrCat("makes more than ", kMaxVcus, " VCUs"));
  }
  const std::string given = vcu.name;
  for (int i = 0; i < count; ++i) {
    if (given.empty()) {
      vcu.name = absl::StrCat(vcu.device, ":", (*numbers)[vcu.device]++);
    } else if (count > 1) {
      vcu.name = absl::StrCat(given, ":", i);
    }
    cluster->vcus.push_back(vcu);
  }
}

// Sets *curve from latency and bandwidth, or from points. Adds an error where neither is complete.
void ReadCurve(Section* section, LinkCurve* curve) {
  double latency = -1;
  int64_t bandwidth = 0;
  section->Double("latency", 0, 1e6, &latency);
  section->Bytes("bandwidth", &bandwidth);
  const YamlValue* points = section->Raw("points");
  const bool both = section->Raw("latency") && section->Raw("bandwidth");
  if ((points == nullptr) != both) {
    return section->Fail("latency", "and bandwidth, or points, must be given");
  }
  if (points == nullptr) {
    if (latency >= 0 && bandwidth > 0) {
      *curve = LinkCurve::Of(latency, static_cast<double>(bandwidth));
    }
    return;
  }
  const char* const kWhat = "a list of [bytes, seconds] with rising bytes";
  if (!IsList(*points) || points->items.empty())
    return section->FailValue("points", *points, kWhat);
  curve->points.clear();
  for (const YamlValue& item : points->items) {
    if (!IsList(item) || item.items.size() != 2) return section->FailValue("points", item, kWhat);
    LinkCurve::Point point;
    // Read the pair as two keys, for the messages of Section.
    YamlValue pair{.kind = YamlValue::Kind::kMap, .where = item.where};
    pair.entries = {{"bytes", item.where, item.items[0]}, {"seconds", item.where, item.items[1]}};
    Errors pair_errors;
    Section reader(&pair, "", &pair_errors);
    reader.Int("bytes", 0, kMaxInt, &point.bytes);
    reader.Double("seconds", 0, 1e9, &point.seconds);
    const bool rising = curve->points.empty() || curve->points.back().bytes < point.bytes;
    if (!pair_errors.empty() || !rising) return section->FailValue("points", item, kWhat);
    curve->points.push_back(point);
  }
}

void ReadPair(const YamlValue& value, const std::string& path, Errors* errors,
              const std::map<std::string, int>& index, ClusterSpec* cluster) {
  Section section(&value, path, errors);
  int ends[2] = {-1, -1};
  const char* const kKeys[2] = {"from", "to"};
  for (int i = 0; i < 2; ++i) {
    std::string name;
    section.String(kKeys[i], &name);
    const auto it = index.find(name);
    if (it != index.end()) {
      ends[i] = it->second;
    } else {
      section.Fail(kKeys[i], absl::StrCat("must name a VCU, not `", name, "`"));
    }
  }
  bool one_way = false;
  section.Bool("one_way", &one_way);
  LinkCurve curve;
  ReadCurve(&section, &curve);
  section.Finish();
  if (ends[0] < 0 || ends[1] < 0) return;
  if (ends[0] == ends[1]) return section.Fail("to", "must be another VCU than `from`");
  const int n = cluster->size();
  cluster->links[ends[0] * n + ends[1]] = curve;
  if (!one_way) cluster->links[ends[1] * n + ends[0]] = curve;
}

void ReadLinks(const YamlValue* value, const std::string& top_where, bool need_links,
               Errors* errors, ClusterSpec* cluster) {
  const size_t n = cluster->vcus.size();
  cluster->links.assign(n * n, LinkCurve());
  Section section(value, "links", errors);
  const YamlValue* fallback = section.Raw("default");
  const YamlValue* pairs = section.Raw("pairs");
  section.Finish();
  if (fallback != nullptr) {
    Section reader(fallback, "links.default", errors);
    LinkCurve curve;
    ReadCurve(&reader, &curve);
    reader.Finish();
    for (size_t i = 0; i < n * n; ++i) {
      if (i / n != i % n) cluster->links[i] = curve;
    }
  }
  if (pairs != nullptr && !IsList(*pairs)) section.FailValue("pairs", *pairs, "a list");
  std::map<std::string, int> index;
  for (size_t i = 0; i < n; ++i) index[cluster->vcus[i].name] = static_cast<int>(i);
  for (size_t i = 0; pairs != nullptr && i < pairs->items.size(); ++i) {
    ReadPair(pairs->items[i], absl::StrCat("links.pairs.", i), errors, index, cluster);
  }
  if (!errors->empty()) return;
  for (size_t i = 0; i < n * n; ++i) {
    if (i / n == i % n || !cluster->links[i].points.empty()) continue;
    if (!need_links) {
      cluster->links[i] = LinkCurve::Of(0, 1e15);
      continue;
    }
    return errors->Add(
        value == nullptr ? top_where : value->where,
        absl::StrCat("no link from ", cluster->vcus[i / n].name, " to ", cluster->vcus[i % n].name,
                     ": give it in links.pairs, or give links.default"));
  }
}

}  // namespace

StatusOr<ClusterSpec> ParseCluster(const std::string& text, const std::string& source,
                                   bool need_links) {
  OC_ASSIGN_OR_RETURN(YamlValue root, config::ParseYaml(text, source));
  ClusterSpec cluster;
  Errors errors;
  Section top(&root, "", &errors);
  const YamlValue* vcus = top.Raw("vcus");
  const YamlValue* links = top.Raw("links");
  top.Finish();
  std::map<std::string, int> numbers;
  if (vcus == nullptr || !IsList(*vcus) || vcus->items.empty()) {
    errors.Add(vcus == nullptr ? root.where : vcus->where,
               "`vcus` must be a list of VCUs such as [{device: cpu, memory: 4GiB}]");
  } else {
    for (size_t i = 0; i < vcus->items.size(); ++i) {
      ReadVcu(vcus->items[i], absl::StrCat("vcus.", i), &errors, &numbers, &cluster);
    }
  }
  OC_RETURN_IF_ERROR(errors.ToStatus());
  ReadLinks(links, root.where, need_links, &errors, &cluster);
  OC_RETURN_IF_ERROR(errors.ToStatus());
  for (VcuSpec& v : cluster.vcus) {
    if (need_links && v.threads == 0) v.threads = 1;
  }
  const Status valid = cluster.Validate();
  if (!valid.ok()) return Annotate(valid, source);
  return cluster;
}

StatusOr<ClusterSpec> LoadCluster(const std::string& path, bool need_links) {
  OC_ASSIGN_OR_RETURN(std::string text, config::ReadTextFile(path));
  return ParseCluster(text, path, need_links);
}

StatusOr<std::vector<ClusterEntry>> EntriesOn(const ClusterSpec& cluster, const std::string& host) {
  std::vector<ClusterEntry> entries;
  std::vector<std::string> hosts;
  for (const VcuSpec& v : cluster.vcus) {
    if (!v.host.empty() && v.host != host) {
      hosts.push_back(v.host);
      continue;
    }
    entries.push_back({.device = v.device,
                       .cores = v.threads,
                       .memory_bytes = v.memory_bytes,
                       .options = v.options});
  }
  if (entries.empty()) {
    return InvalidArgument("cluster: no VCU of the file is on host ", host, "; it has those of ",
                           absl::StrJoin(hosts, ", "));
  }
  return entries;
}

}  // namespace oc

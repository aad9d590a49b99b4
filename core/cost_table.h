// Measured costs of ops. Planning and lowering know devices from this table (and VcuSpec) alone;
// the runtime fills it from `prepare` and by measuring, and asks again after Missing() named new
// keys.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "openclaw/core/status.h"

namespace oc {

struct CostEntry {
  double seconds = 0;
  int64_t workspace_bytes = 0;
  std::vector<int64_t> opaque_bytes;  // one for each opaque output, in order
  bool supported = true;              // false: the device has no such variant (adding to an output)
  int64_t host_bytes = 0;             // memory of the host that it uses besides
  std::string substitute;             // what stands in for a kernel that the device lacks
  bool deterministic = false;         // the device says that it repeats its results bit by bit
};

// A key is text: "op@version(types; attributes; flags) on kind", built by graph/cost_key.h.
class CostTable {
 public:
  // Null where nobody has measured the key.
  const CostEntry* Find(const std::string& key) const;
  void Set(const std::string& key, CostEntry entry) { entries_[key] = std::move(entry); }
  size_t size() const { return entries_.size(); }
  const std::map<std::string, CostEntry>& entries() const { return entries_; }

  // The profile file: JSON. kUnavailable, kDataLoss or kInvalidArgument name the file.
  Status Save(const std::string& path) const;
  static StatusOr<CostTable> Load(const std::string& path);
  // As Save and Load, in memory: how one rank's table reaches the others.
  std::string ToJson() const;
  static StatusOr<CostTable> FromJson(const std::string& text);

 private:
  std::map<std::string, CostEntry> entries_;
};

}  // namespace oc

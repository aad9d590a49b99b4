#include "openclaw/partitioner/program/merge_calls.h"

#include <algorithm>
#include <map>

#include "openclaw/partitioner/costs.h"

namespace oc {
namespace {

// Calls of one key may be one call.
std::string KeyOf(const Call& call) {
  const TensorList list = ListOf(*call.def, call.attrs, call.inputs.size());
  std::string key = absl::StrCat(call.def->name, "@", call.def->version, call.attrs.ToString(),
                                 call.accumulate, "/", static_cast<int>(call.phase));
  for (int i = 0; i < list.operands; ++i) {
    absl::StrAppend(&key, " ", Name(call.input_types[i].dtype));
  }
  for (size_t i = call.inputs.size() - list.shared; i < call.inputs.size(); ++i) {
    absl::StrAppend(&key, " ", call.inputs[i]);
  }
  // A sum goes on into the same place.
  if (call.def->lists == OpDef::Lists::kSum) absl::StrAppend(&key, " += ", call.outputs[0]);
  return key;
}

// The tensors of `more` behind those of `call`.
void Append(Call& call, const Call& more) {
  const int shared = call.def->shared;
  const auto insert = [shared](auto& to, const auto& from) {
    to.insert(to.end() - shared, from.begin(), from.end() - shared);
  };
  insert(call.inputs, more.inputs);
  insert(call.input_types, more.input_types);
  if (call.def->lists == OpDef::Lists::kSum) return;
  call.outputs.insert(call.outputs.end(), more.outputs.begin(), more.outputs.end());
  call.output_types.insert(call.output_types.end(), more.output_types.begin(),
                           more.output_types.end());
}

// The last call, by index, that reads or writes each slot.
class LastUses {
 public:
  void Add(const Call& call, int index) {
    for (int slot : call.inputs) Set(read_, slot, index);
    for (int slot : call.outputs) {
      Set(written_, slot, index);
      if (call.accumulate != 0) Set(read_, slot, index);
    }
  }
  // Whether what `call` does may be done as part of call `index` instead of now.
  bool MayJoin(const Call& call, int index) const {
    const bool sum = call.def->lists == OpDef::Lists::kSum && call.accumulate != 0;
    const auto free = [&](int slot, int before) {
      return Get(written_, slot) < before && Get(read_, slot) < before;
    };
    return std::all_of(call.inputs.begin(), call.inputs.end(),
                       [&](int slot) { return Get(written_, slot) < index; }) &&
           std::all_of(call.outputs.begin(), call.outputs.end(),
                       [&](int slot) { return free(slot, sum ? index + 1 : index); });
  }

 private:
  static int Get(const std::vector<int>& list, int slot) {
    return slot < static_cast<int>(list.size()) ? list[slot] : kNone;
  }
  static void Set(std::vector<int>& list, int slot, int index) {
    if (slot >= static_cast<int>(list.size())) list.resize(slot + 1, kNone);
    list[slot] = std::max(list[slot], index);
  }
  std::vector<int> read_, written_;
};

}  // namespace

std::vector<SizedCall> MergeCalls(std::vector<SizedCall> calls,
                                  const std::function<bool(const Call&)>& takes_lists) {
  std::vector<SizedCall> merged;
  std::map<std::string, int> open;  // the newest call of each key that takes more tensors
  LastUses uses;
  for (SizedCall& sized : calls) {
    const Call& call = sized.call;
    // A sum that replaces what was there begins anew.
    const bool begins = call.def->lists == OpDef::Lists::kSum && call.accumulate == 0;
    const bool listable = call.def->lists != OpDef::Lists::kNone && !begins;
    const std::string key = listable ? KeyOf(call) : "";
    const auto known = listable ? open.find(key) : open.end();
    if (known != open.end() && uses.MayJoin(call, known->second)) {
      uses.Add(call, known->second);
      SizedCall& whole = merged[known->second];
      whole.workspace_bytes = ListWorkspace(whole.workspace_bytes, sized.workspace_bytes);
      Append(whole.call, call);
      continue;
    }
    const int index = static_cast<int>(merged.size());
    if (listable && takes_lists(call)) open[key] = index;
    uses.Add(call, index);
    merged.push_back(std::move(sized));
  }
  return merged;
}

}  // namespace oc

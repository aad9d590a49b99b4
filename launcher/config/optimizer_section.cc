#include "openclaw/launcher/config/optimizer_section.h"

#include <absl/strings/str_join.h>

#include <algorithm>

#include "openclaw/optim/learning_rate.h"
#include "openclaw/optim/optimizer.h"

namespace oc::config {
namespace {

bool Contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// The names whose keys, as `keys_of` lists them, hold the key.
template <typename F>
std::string NamesTaking(const std::string& key, const std::vector<std::string>& names,
                        const F& keys_of) {
  std::vector<std::string> taking;
  for (const std::string& name : names) {
    if (Contains(keys_of(name), key)) taking.push_back(name);
  }
  return absl::StrJoin(taking, ", ");
}

// Reports keys that are there but that only other names take.
template <typename F>
void RefuseOthers(Section* section, const std::string& name, const std::vector<std::string>& names,
                  const F& keys_of) {
  const std::vector<std::string> own = keys_of(name);
  std::vector<std::string> seen;
  for (const std::string& other : names) {
    for (const std::string& key : keys_of(other)) {
      if (Contains(own, key) || Contains(seen, key)) continue;
      seen.push_back(key);
      if (section->Raw(key) == nullptr) continue;
      section->Fail(
          key, absl::StrCat("is a key of ", NamesTaking(key, names, keys_of), "; here the name is ",
                            name, own.empty() ? "" : ", which takes ", absl::StrJoin(own, ", ")));
    }
  }
}

// A number above 0, or none: the word, which is what an absent key means.
void ReadLimit(Section* section, const std::string& key, std::optional<double>* limit) {
  const YamlValue* value = section->Raw(key);
  if (value == nullptr) return;
  if (value->scalar == "none" && !value->quoted) return limit->reset();
  double number = 0;
  section->OpenDouble(key, 0, true, kMaxDouble, false, &number);
  if (number > 0) *limit = number;
}

void ReadAdamW(const YamlValue* value, Errors* errors, AuxiliaryAdamWConfig* adamw) {
  Section section(value, "optimizer.adamw", errors);
  section.OpenDouble("lr", 0, false, kMaxDouble, false, &adamw->lr);
  section.Doubles("betas", 0, 1, 2, &adamw->betas);
  section.OpenDouble("eps", 0, true, kMaxDouble, false, &adamw->eps);
  section.Double("weight_decay", 0, kMaxDouble, &adamw->weight_decay);
  section.Finish();
}

void ReadMethod(Section* section, Errors* errors, OptimizerConfig* o) {
  const std::vector<std::string> keys = HybridOptimizer::ConfigKeys(o->name);
  const auto takes = [&](const char* key) { return Contains(keys, key); };
  section->OpenDouble("lr", 0, true, kMaxDouble, false, &o->lr);
  if (takes("betas")) section->Doubles("betas", 0, 1, 2, &o->betas);
  if (takes("eps")) section->OpenDouble("eps", 0, true, kMaxDouble, false, &o->eps);
  if (takes("momentum")) section->OpenDouble("momentum", 0, false, 1, true, &o->momentum);
  if (takes("nesterov")) section->Bool("nesterov", &o->nesterov);
  if (takes("weight_decay")) section->Double("weight_decay", 0, kMaxDouble, &o->weight_decay);
  if (takes("beta2_decay")) section->Double("beta2_decay", -kMaxDouble, 0, &o->beta2_decay);
  if (takes("eps1")) section->OpenDouble("eps1", 0, true, kMaxDouble, false, &o->eps1);
  if (takes("eps2")) section->Double("eps2", 0, kMaxDouble, &o->eps2);
  if (takes("d")) section->Double("d", 1, kMaxDouble, &o->d);
  if (takes("ns_steps")) section->Int("ns_steps", 1, 99, &o->ns_steps);
  if (takes("ns_coefficients")) {
    section->Doubles("ns_coefficients", -kMaxDouble, kMaxDouble, 3, &o->ns_coefficients);
  }
  if (takes("adjust_lr_fn")) {
    section->Enum("adjust_lr_fn", {"original", "match_rms_adamw"}, &o->adjust_lr_fn);
  }
  if (takes("adamw")) ReadAdamW(section->Raw("adamw"), errors, &o->adamw);
  RefuseOthers(section, o->name, MethodNames(), HybridOptimizer::ConfigKeys);
  if (o->name == "sgd" && o->nesterov && o->momentum == 0) {
    section->Fail("nesterov", "needs optimizer.momentum above 0");
  }
}

void ReadSchedule(const YamlValue* value, Errors* errors, ScheduleConfig* s) {
  Section section(value, "optimizer.schedule", errors);
  std::vector<std::string> names = ScheduleNames();
  for (const char* later : {"inverse_sqrt", "one_cycle"}) names.push_back(later);
  section.Enum("name", names, &s->name);
  section.Int("warmup_steps", 0, kMaxInt, &s->warmup_steps);
  const std::vector<std::string> keys = ScheduleKeys(s->name);
  const auto takes = [&](const char* key) { return Contains(keys, key); };
  if (takes("final_ratio")) section.Double("final_ratio", 0, 1, &s->final_ratio);
  if (takes("power")) section.OpenDouble("power", 0, true, kMaxDouble, false, &s->power);
  if (takes("decay_steps")) section.AutoInt("decay_steps", 0, kMaxInt, &s->decay_steps);
  if (takes("decay_ratio")) section.Double("decay_ratio", 0, 1, &s->decay_ratio);
  if (takes("decay_shape")) {
    section.Enum("decay_shape", {"linear", "cosine", "sqrt"}, &s->decay_shape);
  }
  if (takes("gamma")) section.OpenDouble("gamma", 0, true, kMaxDouble, false, &s->gamma);
  if (takes("step_size")) {
    if (section.Raw("step_size") != nullptr) {
      section.Int("step_size", 1, kMaxInt, &s->step_size.emplace(1));
    }
    if (section.Raw("milestones") != nullptr) {
      section.Ints("milestones", 0, kMaxInt, &s->milestones.emplace());
    }
    const Status status = CheckSchedule(*s);
    if (!status.ok()) errors->Add(section.Where("name"), std::string(status.message()));
  }
  RefuseOthers(&section, s->name, ScheduleNames(), ScheduleKeys);
  section.Finish();
}

void ReadGroups(const YamlValue* value, Section* optimizer, Errors* errors,
                std::vector<ParameterGroup>* groups) {
  if (value == nullptr) return;
  if (value->kind != YamlValue::Kind::kList) {
    return optimizer->FailValue(
        "groups", *value,
        "a list of maps, such as [{match: \"blocks.*\", lr_scale: 0.5, weight_decay: 0}]");
  }
  for (size_t i = 0; i < value->items.size(); ++i) {
    Section section(&value->items[i], absl::StrCat("optimizer.groups.", i), errors);
    ParameterGroup group;
    section.String("name", &group.name);
    if (section.Raw("match") == nullptr) {
      section.Fail("match", "is missing: a pattern of parameters' names, or a list of them");
    }
    section.Strings("match", &group.match);
    section.Double("lr_scale", 0, kMaxDouble, &group.lr_scale);
    if (section.Raw("weight_decay") != nullptr) {
      section.Double("weight_decay", 0, kMaxDouble, &group.weight_decay.emplace(0));
    }
    section.Bool("decay_all", &group.decay_all);
    if (section.Raw("use_muon") != nullptr) {
      section.Bool("use_muon", &group.use_muon.emplace(false));
    }
    section.Finish();
    groups->push_back(std::move(group));
  }
}

}  // namespace

void ReadOptimizer(const YamlValue* value, Errors* errors, OptimizerConfig* optimizer) {
  Section section(value, "optimizer", errors);
  std::string name = optimizer->name;
  section.Enum("name", MethodNames(), &name);
  if (auto defaults = HybridOptimizer::DefaultConfig(name); defaults.ok()) *optimizer = *defaults;
  ReadMethod(&section, errors, optimizer);
  ReadLimit(&section, "clip_norm", &optimizer->clip_norm);
  ReadLimit(&section, "clip_value", &optimizer->clip_value);
  ReadSchedule(section.Raw("schedule"), errors, &optimizer->schedule);
  ReadGroups(section.Raw("groups"), &section, errors, &optimizer->groups);
  for (const ParameterGroup& group : optimizer->groups) {
    if (group.use_muon && optimizer->name != "muon") {
      section.Fail("groups",
                   absl::StrCat("use_muon is of muon; here the name is ", optimizer->name));
    }
  }
  if (const YamlValue* ema = section.Raw("ema");
      ema != nullptr && (ema->scalar != "none" || ema->quoted)) {
    Section own(ema, "optimizer.ema", errors);
    own.OpenDouble("decay", 0, true, 1, true, &optimizer->ema.emplace().decay);
    own.Finish();
  }
  section.Finish();
}

}  // namespace oc::config

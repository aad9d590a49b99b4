#include "ratios.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace oc::benchmarks {
namespace {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

void Sampler::Sample(const std::function<void(int n)>& calls) {
  constexpr double kLongEnough = 5e-3;
  constexpr int kMostCalls = 1 << 14;
  const auto time = [&](int n) {
    const double begin = now_();
    calls(n);
    return now_() - begin;
  };
  if (calls_ == 0) {
    calls(1);  // what is done once
    for (calls_ = 1; calls_ < kMostCalls && time(calls_) < kLongEnough;) calls_ *= 2;
    return;
  }
  // Cores that slept, and caches that the other side filled, are the next sample's own again.
  constexpr int kWarm = 4;
  calls((calls_ + kWarm - 1) / kWarm);
  seconds_.push_back(time(calls_) / calls_);
}

void Ratios::Add(const std::string& name, int threads, double flops, const Sampler& ours,
                 const Sampler& direct) {
  std::vector<double> ratios;
  for (size_t i = 0; i < ours.seconds().size(); ++i) {
    ratios.push_back(direct.seconds()[i] / ours.seconds()[i]);
  }
  const Ratio r = {name,          threads, flops, Median(ours.seconds()), Median(direct.seconds()),
                   Median(ratios)};
  if (list_.empty()) {
    std::printf("%-40s %8s %10s %8s %8s %6s\n", "op", "threads", "ms", "GFLOP/s", "direct",
                "ratio");
  }
  list_.push_back(r);
  std::printf("%-40s %8d %10.4f %8.1f %8.1f %6.2f\n", r.name.c_str(), r.threads, r.ours * 1e3,
              r.flops / r.ours * 1e-9, r.flops / r.direct * 1e-9, r.value);
  std::fflush(stdout);
}

void Ratios::PrintSummary(const std::string& library) const {
  if (list_.empty()) {
    std::printf("nothing was measured\n");
    return;
  }
  constexpr double kGoal = 0.95;
  double ours = 0, direct = 0;
  int below = 0;
  const Ratio* lowest = &list_[0];
  for (const Ratio& r : list_) {
    ours += r.ours;
    direct += r.direct;
    below += r.value < kGoal ? 1 : 0;
    if (r.value < lowest->value) lowest = &r;
  }
  std::printf(
      "%d ops against %s called directly: ratio of all %.2f, lowest %.2f (%s), %d below %.2f\n",
      static_cast<int>(list_.size()), library.c_str(), direct / ours, lowest->value,
      lowest->name.c_str(), below, kGoal);
}

bool Ratios::WriteJson(const std::string& path, const std::string& library) const {
  nlohmann::json rows = nlohmann::json::array();
  for (const Ratio& r : list_) {
    rows.push_back({{"name", r.name},
                    {"threads", r.threads},
                    {"seconds", r.ours},
                    {"direct_seconds", r.direct},
                    {"gflops", r.flops / r.ours * 1e-9},
                    {"ratio", r.value}});
  }
  std::ofstream file(path);
  file << nlohmann::json({{"library", library}, {"ratios", rows}}).dump(1) << "\n";
  file.close();
  return file.good();
}

}  // namespace oc::benchmarks

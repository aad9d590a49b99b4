// The speed of a leaf's op as a share of that of a library called directly on the same data: both
// in turns in one process, so that what disturbs the machine hits both. Times are medians; the
// ratio is the median of those of each round.
//
//   Ratios ratios;
//   Sampler ours(now), direct(now);
//   for (int round = 0; round < 15; ++round) {
//     direct.Sample(call_library);
//     ours.Sample(call_leaf);
//   }
//   ratios.Add("linear 256x256", /*threads=*/1, flops, ours, direct);
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace oc::benchmarks {

// Times of one of the sides, in seconds a call.
class Sampler {
 public:
  // `now` in seconds. The first call of Sample finds how many calls last 5 ms; it is not counted.
  explicit Sampler(std::function<double()> now) : now_(std::move(now)) {}
  // `calls(n)` makes n calls and waits for their end. A quarter as many come first, uncounted.
  void Sample(const std::function<void(int n)>& calls);
  const std::vector<double>& seconds() const { return seconds_; }

 private:
  std::function<double()> now_;
  int calls_ = 0;
  std::vector<double> seconds_;
};

class Ratios {
 public:
  // Prints the row. As many samples of both sides.
  void Add(const std::string& name, int threads, double flops, const Sampler& ours,
           const Sampler& direct);
  // Prints the sum of times, the lowest ratio, and how many are below 0.95.
  void PrintSummary(const std::string& library) const;
  // One object: {"library": ..., "ratios": [{"name", "threads", "seconds", "direct_seconds",
  // "gflops", "ratio"}, ...]}. False where the file cannot be written.
  bool WriteJson(const std::string& path, const std::string& library) const;

 private:
  struct Ratio {
    std::string name;
    int threads = 1;
    double flops = 0;
    double ours = 0, direct = 0;  // seconds a call
    double value = 0;             // above 1: ours is faster
  };
  std::vector<Ratio> list_;
};

}  // namespace oc::benchmarks

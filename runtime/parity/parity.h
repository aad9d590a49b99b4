// Whether unlike devices compute the same: each op, forward and backward, and small models in
// training, compared pair by pair of device kinds. `ocl doctor --parity` prints it.
//
//   OC_ASSIGN_OR_RETURN(DeviceRegistry registry, LeavesWithPlugins({"libnpu_plugin.so"}));
//   OC_ASSIGN_OR_RETURN(parity::Report report, parity::CompareDevices(registry, {}));
//   std::fputs(parity::ToText(report).c_str(), stdout);
//   if (!report.ok()) ...
//
// The relative difference of two elements a and b of an output is |a - b| / max(|a|, |b|, r), r the
// root mean square of the output; that of two losses |a - b| / max(|a|, |b|). Allowed is, of an op
// in a dtype, a mean of Tolerance(dtype) (op_case.h: f64 1e-12, f32 1e-5, f16 2e-3, bf16 1e-2;
// integers and bools 0) times the case's own factor, and 30 times that at a single element; of
// training in f32, kTrainingTolerance.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "openclaw/devices/device.h"

namespace oc::parity {

inline constexpr double kLargestOverMean = 30;
// Of a step's loss, and of the mean over a parameter's elements after the last step (at a single
// element 30 times that).
inline constexpr double kTrainingTolerance = 1e-5;

struct Options {
  // Leaves of the registry; empty: all that find a device but `sim`, whose arithmetic is the
  // reference device's.
  std::vector<std::string> leaves;
  std::vector<std::string> ops;  // empty: all
  int64_t largest_case = 1000;   // elements of all inputs together; larger cases are left out
  int64_t training_steps = 20;   // of an MLP and a tiny GPT; 0: none
  double timeout_seconds = 60;   // of every blocking call in training
  // In training: DiscoverOptions::on_stuck_call (runtime/cluster.h).
  std::function<void(const Status& why)> on_stuck_call;
};

// How far two sides are apart, as measured and against what is allowed.
struct Deviation {
  double largest = 0;
  double mean = 0;
  double of_allowed = 0;  // the worse of largest and mean, over what is allowed; beyond 1: exceeded
  std::string where;      // the case, or the step or parameter, that is worst
  std::string error;      // one side failed: why; of_allowed is then infinite
};

struct OpRow {
  std::string op;
  DType dtype = DType::kF32;
  bool backward = false;  // the op and then the ops of its gradient rule, from gradients given
  int cases = 0;
  Deviation deviation;
  // Leaves of the pair whose own kernels did not run, but the reference device's.
  std::vector<std::string> on_reference_code;
};

struct TrainingRow {
  std::string model;
  Deviation losses, parameters;
};

// What a device cannot run.
struct Lack {
  std::string device;
  std::string what;  // "softmax f32", "add f64 backward", "training of gpt"
  std::string reason;
};

struct Pair {
  std::string a, b;        // as Report::devices
  std::vector<OpRow> ops;  // the worst first
  std::vector<TrainingRow> training;
  std::vector<Lack> lacks;
  bool ok() const;
};

struct ComparedDevice {
  std::string name;  // "cpu:0"
  std::string kind;  // "cpu/avx512/2t"
};

struct Report {
  std::vector<ComparedDevice> devices;
  std::vector<Pair> pairs;
  // Leaves without a device, and why: `device` is the leaf. Fatal where the leaf was asked for.
  std::vector<Lack> absent;
  bool asked_are_absent = false;
  // No difference beyond what is allowed, and all that was asked for is there.
  bool ok() const;
};

// Compares one device of every kind in the leaves. kInvalidArgument for an unknown leaf or op;
// kFailedPrecondition where there are fewer than two kinds of device. What a device cannot do, or
// fails in, stands in the report. Blocks for tens of seconds; the ops run on the calling thread.
StatusOr<Report> CompareDevices(const DeviceRegistry& registry, const Options& options);

// A table a pair: what exceeds, then the worst rows, at most `rows` of them.
std::string ToText(const Report& report, size_t rows = 20);
// All of it. Infinite numbers are null.
std::string ToJson(const Report& report);

}  // namespace oc::parity

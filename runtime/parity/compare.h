// For the parts of runtime/parity: how differences add up.
#pragma once

#include <set>
#include <string>
#include <vector>
#include "openclaw/core/tensor.h"

#include "openclaw/runtime/parity/parity.h"

namespace oc::parity {

// Collects relative differences of elements, and the worst against what is allowed.
class Deviations {
 public:
  // Adds those of two tensors of one type. A mean of `allowed` and elements of `allowed_largest`
  // are within tolerance.
  void Add(const Tensor& a, const Tensor& b, double allowed, double allowed_largest,
           const std::string& where);
  // One side failed.
  void AddError(const std::string& error, const std::string& where);
  Deviation result() const;

 private:
  Deviation worst_;
  double sum_ = 0, elements_ = 0;
};

// A device that ops run on.
struct OpDevice {
  std::string name, leaf;  // "cpu:0", "cpu"
  Slice* slice = nullptr;
};

// Fills `ops` and `lacks` of the pairs: those of devices 0 and 1, 0 and 2, ... 1 and 2, ... Inputs
// are made on the reference slice. kInvalidArgument for an unknown op.
Status CompareOps(const std::vector<OpDevice>& devices, Slice& reference, const Options& options,
                  std::vector<Pair>& pairs);

// One model, trained on a device alone.
struct Trained {
  std::string model;
  Status status;
  std::vector<double> losses;      // by step
  std::vector<Tensor> parameters;  // after the last step, by name
  std::vector<std::string> names;
  // Ops that the device lacks: decomposed there or run on the host, by name.
  std::set<std::string> substituted;
};
// Every model, on device number `device` of the leaf.
std::vector<Trained> TrainModels(const std::string& leaf, size_t device,
                                 const DeviceRegistry& registry, const Options& options);

}  // namespace oc::parity

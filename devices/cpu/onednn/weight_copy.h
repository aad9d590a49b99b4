// Copies of a convolution's weights between OIHW, in which the arena holds them, and the form that
// the library likes; output channels are split over the workers.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "openclaw/devices/cpu/native/weight_loops.h"
#include "openclaw/devices/cpu/onednn/conv_geometry.h"

namespace oc::cpu {

onednn::Dims WeightDims(const ConvGeometry& g);
StatusOr<onednn::Layout> PlainWeights(const ConvGeometry& g);

class WeightCopy {
 public:
  // To `blocked`, or of a weights' gradient from it.
  static StatusOr<WeightCopy> Create(const onednn::Context& context, const ConvGeometry& g,
                                     const onednn::Layout& plain, const onednn::Layout& blocked,
                                     int threads);
  int64_t scratch_bytes() const;
  // Whether ToPlain takes more than one partial sum; else they are added up before.
  bool adds_partials() const { return form_.has_value(); }

  // Each is called on every worker.
  Status ToBlocked(int worker, const std::byte* plain, std::byte* blocked,
                   std::byte* scratch) const;
  // Sets or adds, as the geometry says.
  Status ToPlain(int worker, const PartialSums& sums, std::byte* plain, std::byte* scratch) const;

 private:
  WeightCopy(const ConvGeometry& g, int threads) : g_(g), threads_(threads) {}
  Status AddCall(const onednn::Context& context, const onednn::Layout& plain,
                 const onednn::Layout& blocked);
  Status AddParts(const onednn::Context& context, const onednn::Layout& plain,
                  const onednn::Layout& blocked, int64_t grain);
  Status RunCall(int worker, std::byte* from, std::byte* to, std::byte* scratch) const;

  ConvGeometry g_;
  int threads_;
  std::optional<onednn::WeightForm> form_;            // own loops know it
  std::vector<std::unique_ptr<onednn::Call>> calls_;  // the library's, where they do not
};

}  // namespace oc::cpu

// The weights' gradient of a convolution on small images as one product a tap, over the pixels
// whose patch has that tap within the image: of 4x4 images and 3x3 taps three tenths of what a
// product of whole patches multiplies is padding.
#pragma once

#include "openclaw/devices/cpu/onednn/conv_geometry.h"
#include "openclaw/devices/host/kernel.h"

namespace oc::cpu {

// A fixed rule from measurements, so that every process takes the same kernel.
bool SuitsTaps(const ConvGeometry& g, int threads);
// Precondition: SuitsTaps(g, threads).
StatusOr<std::unique_ptr<HostKernel>> NewTapGradWeight(const onednn::Context& context,
                                                       const ConvGeometry& g, int threads);

}  // namespace oc::cpu

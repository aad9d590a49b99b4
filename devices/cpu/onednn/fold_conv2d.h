// The gradient of a convolution's images as a matrix product that is folded back (col2im): what
// each output pixel gives to every channel and tap of its patch is one product with the weights as
// they lie in OIHW, and adding it up gives the images. The library's own kernel wants the weights
// in another form in every call, and is slow on small images: of those that take this way it has
// 0.5 to 0.9 of its speed.
//
// The product is cut into pieces of some images and channels, which stay in the caches; workers
// share images and channels, so that no two of them add to one pixel.
#pragma once

#include "openclaw/devices/cpu/onednn/conv_geometry.h"
#include "openclaw/devices/host/kernel.h"

namespace oc::cpu {

// A fixed rule from measurements, so that every process takes the same kernel.
bool SuitsFold(const ConvGeometry& g);
// Precondition: SuitsFold(g).
StatusOr<std::unique_ptr<HostKernel>> NewFoldConvolution(const onednn::Context& context,
                                                         const ConvGeometry& g, int threads);

}  // namespace oc::cpu

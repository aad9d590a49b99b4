// Convolutions as matrix products: the patches of the images are copied into rows (im2col), the
// weights into rows of taps, and one product, split over the workers as any other, does the rest.
// Where images have become as small as 4x4, the library's convolutions in NHWC reach a third (the
// weights' gradient) to four fifths (forward) of that. A 1x1 convolution is a product as it lies,
// or one of the pixels that its stride leaves: the library would want the weights in another form.
#pragma once

#include "openclaw/devices/cpu/onednn/conv_geometry.h"
#include "openclaw/devices/host/kernel.h"

namespace oc::cpu {

// A fixed rule from measurements, so that every process takes the same kernel.
bool SuitsPatches(const ConvGeometry& g);
// Precondition: SuitsPatches(g).
StatusOr<std::unique_ptr<HostKernel>> NewPatchConvolution(const onednn::Context& context,
                                                          const ConvGeometry& g, int threads);

}  // namespace oc::cpu

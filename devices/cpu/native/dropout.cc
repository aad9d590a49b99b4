#include <cmath>
#include <cstring>

#include "openclaw/devices/cpu/native/dropout_loops.h"
#include "openclaw/devices/cpu/native/glue.h"

namespace oc::cpu {
namespace {

StatusOr<std::unique_ptr<HostKernel>> MakeDropout(const OpRequest& request, int) {
  const TensorType& x = request.inputs[0];
  OC_ASSIGN_OR_RETURN(const FloatKind kind, FloatKindOf(x));
  const auto loop = GetDropoutLoops().dropout[kind];
  const int64_t n = x.shape.num_elements(), size = SizeInBytes(x.dtype);
  const int64_t samples = x.shape[0].size();
  const uint64_t per_sample = samples == 0 ? 0 : static_cast<uint64_t>(n / samples);
  const double p = request.attrs.Double("p", 0.5);
  if (!request.attrs.Bool("training", true) || p == 0) {
    return MakeKernel([=](const KernelArgs& args) {
      if (args.outputs[0] == args.inputs[0]) return;
      Split(args.pool, n, 1, 64, [&](int64_t begin, int64_t end) {
        std::memcpy(args.outputs[0] + begin * size, args.inputs[0] + begin * size,
                    static_cast<size_t>((end - begin) * size));
      });
    });
  }
  const uint64_t stream = static_cast<uint64_t>(request.attrs.Int("stream"));
  // UniformFloat is a whole number of 2^-24: u >= p where that number is at least this.
  const uint32_t threshold = static_cast<uint32_t>(std::ceil(static_cast<float>(p) * 0x1p24));
  const float scale = static_cast<float>(1.0 / (1.0 - p));
  return MakeKernel([=](const KernelArgs& args) {
    const int64_t* rng = args.in<int64_t>(1);
    const uint64_t key = static_cast<uint64_t>(rng[0]);
    const uint64_t of_step = stream ^ (static_cast<uint64_t>(rng[1]) * 0x9E3779B97F4A7C15u);
    const uint64_t first = static_cast<uint64_t>(rng[2]) * per_sample;
    Split(args.pool, n, 4, 64, [&](int64_t begin, int64_t end) {
      loop(args.inputs[0] + begin * size, args.outputs[0] + begin * size, end - begin, key, of_step,
           first + static_cast<uint64_t>(begin), threshold, scale);
    });
  });
}

}  // namespace

void RegisterDropout(KernelRegistry& registry) { registry.Add("dropout", MakeDropout); }

}  // namespace oc::cpu

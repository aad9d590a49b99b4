#include "openclaw/core/rng.h"
#include "openclaw/devices/reference/basic.h"
#include "openclaw/devices/reference/dispatch.h"

namespace oc::reference {
namespace {

template <typename T>
Status Dropout(const OpRequest& request, const KernelArgs& args) {
  const Shape& shape = request.inputs[0].shape;
  const int64_t n = shape.num_elements();
  if (n == 0) return OkStatus();
  const bool off = !request.attrs.Bool("training", true);
  const auto p = static_cast<float>(request.attrs.Double("p"));
  const int64_t* numbers = args.in<int64_t>(1);  // seed, step, first sample
  const Philox rng(static_cast<uint64_t>(numbers[0]));
  const uint64_t stream = static_cast<uint64_t>(request.attrs.Int("stream")) ^
                          (static_cast<uint64_t>(numbers[1]) * 0x9E3779B97F4A7C15u);
  const uint64_t first =
      static_cast<uint64_t>(numbers[2]) * static_cast<uint64_t>(n / shape[0].size());
  const double scale = off ? 1.0 : 1.0 / (1.0 - request.attrs.Double("p"));
  for (int64_t i = 0; i < n; ++i) {
    const bool keep = off || UniformFloat(rng.Word(stream, first + static_cast<uint64_t>(i))) >= p;
    Store(args.out<T>(0), i, keep ? Load(args.in<T>(0), i) * scale : 0.0);
  }
  return OkStatus();
}

}  // namespace

void RegisterDropout(KernelRegistry& registry) {
  registry.Add("dropout", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return Dropout<T>(r, a);
               }));
}

}  // namespace oc::reference

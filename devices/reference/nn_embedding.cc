#include "openclaw/devices/reference/floats.h"
#include "openclaw/devices/reference/nn.h"

namespace oc::reference {
namespace {

Status CheckIds(const int32_t* ids, int64_t count, int64_t vocabulary) {
  for (int64_t n = 0; n < count; ++n) {
    if (ids[n] < 0 || ids[n] >= vocabulary) {
      return OutOfRange("id ", ids[n], " at position ", n, " is outside 0..", vocabulary - 1);
    }
  }
  return OkStatus();
}

template <typename T>
Status Lookup(const OpRequest& request, const KernelArgs& args) {
  const int32_t* ids = args.in<int32_t>(0);
  const int64_t count = request.inputs[0].shape.num_elements();
  const int64_t width = request.inputs[1].shape[1].size();
  OC_RETURN_IF_ERROR(CheckIds(ids, count, request.inputs[1].shape[0].size()));
  for (int64_t n = 0; n < count; ++n) {
    for (int64_t c = 0; c < width; ++c) {
      args.out<T>(0)[n * width + c] = args.in<T>(1)[ids[n] * width + c];
    }
  }
  return OkStatus();
}

template <typename T>
Status Grad(const OpRequest& request, const KernelArgs& args) {
  const int32_t* ids = args.in<int32_t>(1);
  const int64_t count = request.inputs[1].shape.num_elements();
  const int64_t vocabulary = request.outputs[0].shape[0].size();
  const int64_t width = request.outputs[0].shape[1].size();
  OC_RETURN_IF_ERROR(CheckIds(ids, count, vocabulary));
  for (int64_t v = 0; v < vocabulary; ++v) {
    int64_t first = 0;  // most ids occur nowhere
    while (first < count && ids[first] != v) ++first;
    for (int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (int64_t n = first; n < count; ++n) {
        if (ids[n] == v) sum += Load(args.in<T>(0), n * width + c);
      }
      StoreSum(request, args, 0, v * width + c, sum);
    }
  }
  return OkStatus();
}

}  // namespace

void RegisterEmbedding(KernelRegistry& registry) {
  registry.Add("embedding",
               FloatKernel([]<typename T>(const OpRequest& r,
                                          const KernelArgs& a) { return Lookup<T>(r, a); },
                           /*operand=*/1));
  registry.Add("embedding_grad",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return Grad<T>(r, a);
               }),
               /*accumulable=*/1, /*sum_types=*/true);
}

}  // namespace oc::reference

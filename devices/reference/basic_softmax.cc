#include <algorithm>
#include <cmath>
#include <limits>

#include "openclaw/devices/reference/basic.h"
#include "openclaw/devices/reference/dispatch.h"

namespace oc::reference {
namespace {

int64_t RowsOf(const Shape& shape, int64_t columns) {
  return columns == 0 ? 0 : shape.num_elements() / columns;
}

template <typename T>
Status Softmax(const OpRequest& request, const KernelArgs& args) {
  const Shape& shape = request.inputs[0].shape;
  const int64_t columns = shape[-1].size(), rows = RowsOf(shape, columns);
  for (int64_t row = 0; row < rows; ++row) {
    const T* x = args.in<T>(0) + row * columns;
    T* y = args.out<T>(0) + row * columns;
    double max = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < columns; ++i) max = std::max(max, Load(x, i));
    for (int64_t i = 0; i < columns; ++i) sum += std::exp(Load(x, i) - max);
    for (int64_t i = 0; i < columns; ++i) Store(y, i, std::exp(Load(x, i) - max) / sum);
  }
  return OkStatus();
}

template <typename T>
Status SoftmaxGrad(const OpRequest& request, const KernelArgs& args) {
  const Shape& shape = request.inputs[0].shape;
  const int64_t columns = shape[-1].size(), rows = RowsOf(shape, columns);
  for (int64_t row = 0; row < rows; ++row) {
    const T* dy = args.in<T>(0) + row * columns;
    const T* y = args.in<T>(1) + row * columns;
    T* dx = args.out<T>(0) + row * columns;
    double dot = 0;
    for (int64_t i = 0; i < columns; ++i) dot += Load(dy, i) * Load(y, i);
    for (int64_t i = 0; i < columns; ++i) Store(dx, i, Load(y, i) * (Load(dy, i) - dot));
  }
  return OkStatus();
}

}  // namespace

void RegisterSoftmax(KernelRegistry& registry) {
  registry.Add("softmax", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return Softmax<T>(r, a);
               }));
  registry.Add("softmax_grad", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return SoftmaxGrad<T>(r, a);
               }));
}

}  // namespace oc::reference

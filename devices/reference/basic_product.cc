#include "openclaw/devices/reference/basic.h"
#include "openclaw/devices/reference/dispatch.h"
#include "openclaw/devices/reference/gelu.h"

namespace oc::reference {
namespace {

// A matrix in memory: element (row, column) lies at row * row_stride + column * column_stride.
template <typename T>
struct Matrix {
  const T* data;
  int64_t row_stride, column_stride;
  double at(int64_t row, int64_t column) const {
    return Load(data, row * row_stride + column * column_stride);
  }
};

template <typename T>
Matrix<T> RowMajor(const T* data, int64_t columns, bool transposed = false) {
  return transposed ? Matrix<T>{data, 1, columns} : Matrix<T>{data, columns, 1};
}

// finish(row, column, a's row times b's column) for every element of the product.
template <typename T, typename Finish>
void Multiply(const Matrix<T>& a, const Matrix<T>& b, int64_t m, int64_t k, int64_t n,
              const Finish& finish) {
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += a.at(row, i) * b.at(i, column);
      finish(row, column, sum);
    }
  }
}

// The elements of one matrix of a stack, or 0 where all products share the one there is.
int64_t StackStride(const Shape& shape) {
  return shape.rank() == 2 ? 0 : shape[-1].size() * shape[-2].size();
}

template <typename T>
Status Matmul(const OpRequest& request, const KernelArgs& args) {
  const Shape& a = request.inputs[0].shape;
  const Shape& b = request.inputs[1].shape;
  const Shape& y = request.outputs[0].shape;
  const bool ta = request.attrs.Bool("transpose_a"), tb = request.attrs.Bool("transpose_b");
  const int64_t m = y[-2].size(), n = y[-1].size(), k = a[ta ? -2 : -1].size();
  int64_t stack = 1;
  for (int d = 0; d < y.rank() - 2; ++d) stack *= y[d].size();
  for (int64_t s = 0; s < stack; ++s) {
    T* out = args.out<T>(0) + s * m * n;
    Multiply(RowMajor(args.in<T>(0) + s * StackStride(a), a[-1].size(), ta),
             RowMajor(args.in<T>(1) + s * StackStride(b), b[-1].size(), tb), m, k, n,
             [&](int64_t row, int64_t column, double sum) { Store(out, row * n + column, sum); });
  }
  return OkStatus();
}

int64_t Rows(const Shape& shape) {
  int64_t rows = 1;
  for (int d = 0; d < shape.rank() - 1; ++d) rows *= shape[d].size();
  return rows;
}

template <typename T>
Status Linear(const OpRequest& request, const KernelArgs& args) {
  const Shape& x = request.inputs[0].shape;
  const int64_t in = x[-1].size(), out = request.inputs[1].shape[0].size();
  const bool has_bias = request.inputs.size() > 2;
  const bool relu = request.attrs.String("activation", "none") == "relu";
  Multiply(RowMajor(args.in<T>(0), in), RowMajor(args.in<T>(1), in, /*transposed=*/true), Rows(x),
           in, out, [&](int64_t row, int64_t column, double sum) {
             if (has_bias) sum += Load(args.in<T>(2), column);
             Store(args.out<T>(0), row * out + column, relu && sum < 0 ? 0.0 : sum);
           });
  return OkStatus();
}

// GELU of what is stored, so that the result is that of the two ops.
template <typename T>
Status LinearGelu(const OpRequest& request, const KernelArgs& args) {
  OC_RETURN_IF_ERROR(Linear<T>(request, args));
  const bool tanh = IsTanh(request);
  const int64_t n = request.outputs[0].shape.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    Store(args.out<T>(1), i, Gelu(Load(args.out<T>(0), i), tanh));
  }
  return OkStatus();
}

template <typename T>
Status LinearGradInput(const OpRequest& request, const KernelArgs& args) {
  const Shape& dy = request.inputs[0].shape;
  const int64_t out = dy[-1].size(), in = request.inputs[1].shape[1].size();
  Multiply(RowMajor(args.in<T>(0), out), RowMajor(args.in<T>(1), in), Rows(dy), out, in,
           [&](int64_t row, int64_t column, double sum) {
             Store(args.out<T>(0), row * in + column, sum);
           });
  return OkStatus();
}

// The product as it is stored, so that the result is that of the two ops.
template <typename T>
Status LinearGradInputGelu(const OpRequest& request, const KernelArgs& args) {
  const Shape& dy = request.inputs[0].shape;
  const int64_t out = dy[-1].size(), in = request.inputs[1].shape[1].size();
  const bool tanh = IsTanh(request);
  Multiply(RowMajor(args.in<T>(0), out), RowMajor(args.in<T>(1), in), Rows(dy), out, in,
           [&](int64_t row, int64_t column, double sum) {
             const int64_t at = row * in + column;
             T* const dx = args.out<T>(0);
             Store(dx, at, sum);
             Store(dx, at, Load(dx, at) * GeluSlope(Load(args.in<T>(2), at), tanh));
           });
  return OkStatus();
}

template <typename T>
Status LinearGradWeight(const OpRequest& request, const KernelArgs& args) {
  const Shape& dy = request.inputs[0].shape;
  const int64_t out = dy[-1].size(), in = request.inputs[1].shape[-1].size();
  Multiply(RowMajor(args.in<T>(0), out, /*transposed=*/true), RowMajor(args.in<T>(1), in), out,
           Rows(dy), in, [&](int64_t row, int64_t column, double sum) {
             StoreSum(request, args, 0, row * in + column, sum);
           });
  return OkStatus();
}

}  // namespace

void RegisterProduct(KernelRegistry& registry) {
  registry.Add("matmul", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return Matmul<T>(r, a);
               }));
  registry.Add("linear", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return Linear<T>(r, a);
               }));
  registry.Add("linear_gelu", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return LinearGelu<T>(r, a);
               }));
  registry.Add("linear_grad_input",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return LinearGradInput<T>(r, a);
               }));
  registry.Add("linear_grad_input_gelu",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return LinearGradInputGelu<T>(r, a);
               }));
  registry.Add("linear_grad_weight",
               FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return LinearGradWeight<T>(r, a);
               }),
               /*accumulable=*/1, /*sum_types=*/true);
}

}  // namespace oc::reference

// cuBLASLt, loaded at run time (library.h), and its products with an algorithm chosen for a slice.
//
// A product's first algorithm by the library's own estimate is up to 25 % slower than its best, so
// the candidates are run once a shape and slice of a kind; where results must repeat bit by bit
// from one process to the next, the first is taken.
#pragma once

#include <cublasLt.h>

#include <string>

#include "openclaw/devices/cuda/library.h"
#include "openclaw/devices/cuda/plan.h"

namespace oc::cuda {

struct BlasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescInit_internal) init_desc;
  decltype(&cublasLtMatmulDescSetAttribute) set_desc;
  decltype(&cublasLtMatrixLayoutInit_internal) init_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatmulPreferenceInit_internal) init_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtGetStatusString) text;

  Status ToStatus(cublasStatus_t code, const char* call, const std::string& where) const;
};
// kFailedPrecondition where the library is missing or too old.
StatusOr<const BlasLt*> LoadBlasLt();
// One a device, for the life of the process. Precondition: the device is current.
StatusOr<cublasLtHandle_t> BlasHandle(const BlasLt& blas, int ordinal, const std::string& where);

// kGeluTanhGrad: times the derivative of gelu (tanh) at another matrix of d's shape. kBiasGeluTanh:
// gelu of what is kept in such a matrix.
enum class Epilogue { kNone, kRelu, kBias, kReluBias, kGeluTanhGrad, kBiasGeluTanh };

// d[m, n] = epilogue(op(a) op(b) + beta d + bias[n]), row-major, `batch` of them at strides.
struct Product {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldd = 0;
  int64_t batch = 1, stride_a = 0, stride_b = 0, stride_d = 0;
  DType type = DType::kF32;      // of a and b
  DType out_type = DType::kF32;  // of d; the bias has it too
  bool accumulate = false;       // beta is 1, else 0
  Epilogue epilogue = Epilogue::kNone;
  bool tf32 = false;
  bool deterministic = false;
};

// Where a and b lie, and the bias, which may be none.
using Locate = std::function<const void*(const Call&)>;
using LocateOut = std::function<void*(const Call&)>;

// Also of sums of nothing (k is 0) and of nothing at all. kUnimplemented where the types have no
// product.
Status AddProduct(OpPlan& plan, const Product& product, Locate a, Locate b, LocateOut d,
                  Locate bias = nullptr);

// d = gelu'(x) * op(a) op(b), x of d's type and shape: in the product's epilogue where cuBLASLt has
// that for the types and addresses, else by a kernel behind the product.
Status AddGeluGradProduct(OpPlan& plan, const Product& product, Locate a, Locate b, LocateOut d,
                          Locate x, bool tanh);
// h = op(a) op(b) + bias, y = gelu(h), in the same way.
Status AddGeluProduct(OpPlan& plan, const Product& product, Locate a, Locate b, LocateOut h,
                      LocateOut y, Locate bias, bool tanh);

}  // namespace oc::cuda

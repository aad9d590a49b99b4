#include "openclaw/devices/cuda/blas.h"

#include <map>
#include <mutex>

namespace oc::cuda {

Status BlasLt::ToStatus(cublasStatus_t code, const char* call, const std::string& where) const {
  if (code == CUBLAS_STATUS_SUCCESS) return OkStatus();
  const std::string message = absl::StrCat(call, ": ", text(code), " (", where, ")");
  switch (code) {
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return Unimplemented(message);
    case CUBLAS_STATUS_ALLOC_FAILED:
      return ResourceExhausted(message);
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return FailedPrecondition(message);
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return oc::cuda::ToStatus(cudaGetLastError(), call, where).ok()
                 ? Internal(message)
                 : absl::UnavailableError(message);
    default:
      return Internal(message);
  }
}

StatusOr<const BlasLt*> LoadBlasLt() {
  static const auto loaded = []() -> StatusOr<BlasLt> {
    OC_ASSIGN_OR_RETURN(const Library library,
                        Library::Open("libcublasLt.so.13", "cuBLASLt, which products run on,",
                                      "install CUDA 13's libcublas, or put its folder into "
                                      "LD_LIBRARY_PATH"));
    BlasLt b{
        .create = library.Get<decltype(&cublasLtCreate)>("cublasLtCreate"),
        .matmul = library.Get<decltype(&cublasLtMatmul)>("cublasLtMatmul"),
        .heuristic = library.Get<decltype(&cublasLtMatmulAlgoGetHeuristic)>(
            "cublasLtMatmulAlgoGetHeuristic"),
        .init_desc = library.Get<decltype(&cublasLtMatmulDescInit_internal)>(
            "cublasLtMatmulDescInit_internal"),
        .set_desc = library.Get<decltype(&cublasLtMatmulDescSetAttribute)>(
            "cublasLtMatmulDescSetAttribute"),
        .init_layout = library.Get<decltype(&cublasLtMatrixLayoutInit_internal)>(
            "cublasLtMatrixLayoutInit_internal"),
        .set_layout = library.Get<decltype(&cublasLtMatrixLayoutSetAttribute)>(
            "cublasLtMatrixLayoutSetAttribute"),
        .init_preference = library.Get<decltype(&cublasLtMatmulPreferenceInit_internal)>(
            "cublasLtMatmulPreferenceInit_internal"),
        .set_preference = library.Get<decltype(&cublasLtMatmulPreferenceSetAttribute)>(
            "cublasLtMatmulPreferenceSetAttribute"),
        .text = library.Get<decltype(&cublasLtGetStatusString)>("cublasLtGetStatusString"),
    };
    if (b.create == nullptr || b.matmul == nullptr || b.heuristic == nullptr ||
        b.init_desc == nullptr || b.set_desc == nullptr || b.init_layout == nullptr ||
        b.set_layout == nullptr || b.init_preference == nullptr || b.set_preference == nullptr ||
        b.text == nullptr) {
      return FailedPrecondition("cuBLASLt of ", library.path(),
                                " lacks a function: it is not of "
                                "CUDA 13");
    }
    return b;
  }();
  OC_RETURN_IF_ERROR(loaded.status());
  return &*loaded;
}

StatusOr<cublasLtHandle_t> BlasHandle(const BlasLt& blas, int ordinal, const std::string& where) {
  static std::mutex mutex;
  static auto* const handles = new std::map<int, cublasLtHandle_t>;
  std::lock_guard<std::mutex> lock(mutex);
  cublasLtHandle_t& handle = (*handles)[ordinal];
  if (handle == nullptr) {
    OC_RETURN_IF_ERROR(blas.ToStatus(blas.create(&handle), "cublasLtCreate", where));
  }
  return handle;
}

}  // namespace oc::cuda

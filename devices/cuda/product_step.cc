// One product of cuBLASLt: its descriptions, and which algorithm runs it.
#include <algorithm>
#include <map>
#include <mutex>

#include "openclaw/devices/cuda/blas.h"
#include "openclaw/devices/cuda/kernels/elementwise.h"
#include "openclaw/devices/cuda/kernels/fill.h"
#include "openclaw/devices/cuda/measure.h"

namespace oc::cuda {
namespace {

constexpr size_t kMostWorkspace = size_t{32} << 20;
constexpr int kCandidates = 12;

StatusOr<cudaDataType_t> DataType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    default:
      return Unimplemented("no product of ", Name(dtype), "; there are f32, bf16, f16");
  }
}

cublasLtEpilogue_t EpilogueOf(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kRelu:
      return CUBLASLT_EPILOGUE_RELU;
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kReluBias:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::kGeluTanhGrad:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::kBiasGeluTanh:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// An algorithm and the workspace it wants.
struct Choice {
  cublasLtMatmulAlgo_t algo{};
  size_t workspace = 0;
};

std::string KeyOf(const Product& p, const CudaSlice& slice, int align) {
  return absl::StrCat(slice.traits().ordinal, "/", slice.traits().units, ":", p.transpose_a,
                      p.transpose_b, " ", p.m, "x", p.n, "x", p.k, " ", p.lda, ",", p.ldb, ",",
                      p.ldd, " ", p.batch, "*", p.stride_a, ",", p.stride_b, ",", p.stride_d, " ",
                      Name(p.type), Name(p.out_type), p.accumulate, static_cast<int>(p.epilogue),
                      p.tf32, p.deterministic, "@", align);
}

// What was chosen in this process.
struct Choices {
  std::mutex mutex;
  std::map<std::string, Choice> by_key;
};
Choices& Chosen() {
  static auto* const all = new Choices;
  return *all;
}

class ProductStep : public Step {
 public:
  // `aux`: what the epilogue reads or writes besides.
  ProductStep(const Product& product, Locate a, Locate b, LocateOut d, Locate bias,
              Locate aux = nullptr)
      : p_(product),
        a_(std::move(a)),
        b_(std::move(b)),
        d_(std::move(d)),
        bias_(std::move(bias)),
        aux_(std::move(aux)) {}

  StatusOr<int64_t> Prepare(const CudaSlice& slice, const std::string& where) override;
  Status Run(const Call& call, char* scratch, const std::string& where) const override;
  // Whether every address lies on 16 bytes.
  bool IsAligned(const Call& call) const;

 private:
  Status Describe(const CudaSlice& slice, const std::string& where);
  StatusOr<std::vector<cublasLtMatmulHeuristicResult_t>> Candidates(int align, int most,
                                                                    const std::string& where) const;
  // `align`: of all operands, in bytes.
  StatusOr<Choice> Choose(const CudaSlice& slice, int align, const std::string& where) const;
  StatusOr<Choice> Fastest(const CudaSlice& slice,
                           const std::vector<cublasLtMatmulHeuristicResult_t>& candidates,
                           const std::string& where) const;
  cublasStatus_t Launch(const Choice& choice, const void* a, const void* b, void* d,
                        const void* bias, const void* aux, void* workspace,
                        cudaStream_t stream) const;

  static constexpr int kAlign = 16;
  const Product p_;
  const Locate a_, b_;
  const LocateOut d_;
  const Locate bias_, aux_;
  const BlasLt* blas_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDescOpaque_t desc_{};
  cublasLtMatrixLayoutOpaque_t left_{}, right_{}, out_{};  // in the library's order of columns
  Choice aligned_, any_;
};

// The library's matrices lie by columns: theirs of d is the transpose of ours, d' = op(b)' op(a)'.
Status ProductStep::Describe(const CudaSlice& slice, const std::string& where) {
  OC_ASSIGN_OR_RETURN(const cudaDataType_t type, DataType(p_.type));
  OC_ASSIGN_OR_RETURN(const cudaDataType_t out_type, DataType(p_.out_type));
  const BlasLt& blas = *blas_;
  const auto layout = [&](cublasLtMatrixLayoutOpaque_t& made, cudaDataType_t of, int64_t rows,
                          int64_t columns, int64_t ld, int64_t stride) -> Status {
    OC_RETURN_IF_ERROR(
        blas.ToStatus(blas.init_layout(&made, sizeof(made), of, static_cast<uint64_t>(rows),
                                       static_cast<uint64_t>(columns), ld),
                      "cublasLtMatrixLayoutInit", where));
    if (p_.batch == 1) return OkStatus();
    const auto count = static_cast<int32_t>(p_.batch);
    OC_RETURN_IF_ERROR(blas.ToStatus(
        blas.set_layout(&made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
        "cublasLtMatrixLayoutSetAttribute", where));
    return blas.ToStatus(blas.set_layout(&made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                         &stride, sizeof(stride)),
                         "cublasLtMatrixLayoutSetAttribute", where);
  };
  const bool ta = p_.transpose_a, tb = p_.transpose_b;
  OC_RETURN_IF_ERROR(layout(left_, type, tb ? p_.k : p_.n, tb ? p_.n : p_.k, p_.ldb, p_.stride_b));
  OC_RETURN_IF_ERROR(layout(right_, type, ta ? p_.m : p_.k, ta ? p_.k : p_.m, p_.lda, p_.stride_a));
  OC_RETURN_IF_ERROR(layout(out_, out_type, p_.n, p_.m, p_.ldd, p_.stride_d));

  const bool tf32 = p_.tf32 && p_.type == DType::kF32;
  OC_RETURN_IF_ERROR(blas.ToStatus(
      blas.init_desc(&desc_, sizeof(desc_),
                     tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
      "cublasLtMatmulDescInit", where));
  const auto set = [&](cublasLtMatmulDescAttributes_t what, const auto& value) {
    return blas.ToStatus(blas.set_desc(&desc_, what, &value, sizeof(value)),
                         "cublasLtMatmulDescSetAttribute", where);
  };
  const cublasOperation_t left_op = tb ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t right_op = ta ? CUBLAS_OP_T : CUBLAS_OP_N;
  OC_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, left_op));
  OC_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSB, right_op));
  OC_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, EpilogueOf(p_.epilogue)));
  if (aux_ != nullptr) {
    OC_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p_.ldd));
    // The heuristic looks at its alignment alone.
    const auto* somewhere = reinterpret_cast<const void*>(uintptr_t{4096});
    OC_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, somewhere));
  }
  if (bias_ != nullptr) {
    OC_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, out_type));
    // Any address: the heuristic wants one.
    const void* somewhere = nullptr;
    OC_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere));
  }
  if (slice.enforcement() == Enforcement::kHard) {
    const int32_t units = slice.traits().units;
    OC_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, units));
  }
  return OkStatus();
}

StatusOr<std::vector<cublasLtMatmulHeuristicResult_t>> ProductStep::Candidates(
    int align, int most, const std::string& where) const {
  const BlasLt& blas = *blas_;
  cublasLtMatmulPreferenceOpaque_t preference{};
  OC_RETURN_IF_ERROR(blas.ToStatus(blas.init_preference(&preference, sizeof(preference)),
                                   "cublasLtMatmulPreferenceInit", where));
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
    return blas.ToStatus(blas.set_preference(&preference, what, &value, sizeof(value)),
                         "cublasLtMatmulPreferenceSetAttribute", where);
  };
  OC_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace));
  const auto bytes = static_cast<uint32_t>(align);
  for (const auto what :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    OC_RETURN_IF_ERROR(set(what, bytes));
  }
  // In place, parts of a sum are added in the order in which they come.
  const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  OC_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes));
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most));
  int count = 0;
  OC_RETURN_IF_ERROR(
      blas.ToStatus(blas.heuristic(handle_, const_cast<cublasLtMatmulDescOpaque_t*>(&desc_),
                                   const_cast<cublasLtMatrixLayoutOpaque_t*>(&left_),
                                   const_cast<cublasLtMatrixLayoutOpaque_t*>(&right_),
                                   const_cast<cublasLtMatrixLayoutOpaque_t*>(&out_),
                                   const_cast<cublasLtMatrixLayoutOpaque_t*>(&out_), &preference,
                                   most, results.data(), &count),
                    "cublasLtMatmulAlgoGetHeuristic", where));
  results.resize(static_cast<size_t>(count));
  std::erase_if(results, [](const auto& r) { return r.state != CUBLAS_STATUS_SUCCESS; });
  if (results.empty()) return Unimplemented("cuBLASLt has no algorithm (", where, ")");
  return results;
}

cublasStatus_t ProductStep::Launch(const Choice& choice, const void* a, const void* b, void* d,
                                   const void* bias, const void* aux, void* workspace,
                                   cudaStream_t stream) const {
  cublasLtMatmulDescOpaque_t desc = desc_;  // the addresses in it are this call's
  const auto set = [&](cublasLtMatmulDescAttributes_t what, const void* address) {
    return blas_->set_desc(&desc, what, &address, sizeof(address));
  };
  cublasStatus_t code = CUBLAS_STATUS_SUCCESS;
  if (bias_ != nullptr) code = set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  if (aux_ != nullptr && code == CUBLAS_STATUS_SUCCESS) {
    code = set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
  }
  if (code != CUBLAS_STATUS_SUCCESS) return code;
  const float alpha = 1, beta = p_.accumulate ? 1 : 0;
  auto* left = const_cast<cublasLtMatrixLayoutOpaque_t*>(&left_);
  auto* right = const_cast<cublasLtMatrixLayoutOpaque_t*>(&right_);
  auto* out = const_cast<cublasLtMatrixLayoutOpaque_t*>(&out_);
  return blas_->matmul(handle_, &desc, &alpha, b, left, a, right, &beta, d, out, d, out,
                       &choice.algo, workspace, choice.workspace, stream);
}

StatusOr<Choice> ProductStep::Fastest(
    const CudaSlice& slice, const std::vector<cublasLtMatmulHeuristicResult_t>& candidates,
    const std::string& where) const {
  const auto bytes = [&](int64_t rows, int64_t ld, int64_t stride, DType type) {
    return (rows * ld + (p_.batch - 1) * stride) * SizeInBytes(type);
  };
  const int64_t output = bytes(p_.m, p_.ldd, p_.stride_d, p_.out_type);
  enum { kA, kB, kD, kBias, kAux, kWorkspace };
  OC_ASSIGN_OR_RETURN(
      const auto measure,
      Measure::Create(
          slice,
          {bytes(p_.transpose_a ? p_.k : p_.m, p_.lda, p_.stride_a, p_.type),
           bytes(p_.transpose_b ? p_.n : p_.k, p_.ldb, p_.stride_b, p_.type), output, p_.n * 4,
           aux_ == nullptr ? 0 : output, static_cast<int64_t>(kMostWorkspace)},
          where));
  Choice best = {candidates[0].algo, candidates[0].workspaceSize};
  if (measure == nullptr) return best;
  OC_RETURN_IF_ERROR(measure->Fill(kA, p_.type));
  OC_RETURN_IF_ERROR(measure->Fill(kB, p_.type));
  OC_RETURN_IF_ERROR(measure->Fill(kBias, p_.out_type));
  OC_RETURN_IF_ERROR(measure->Fill(kAux, p_.out_type));
  double best_seconds = 0;
  for (const auto& candidate : candidates) {
    const Choice choice = {candidate.algo, candidate.workspaceSize};
    const auto run = [&] {
      return Launch(choice, measure->memory(kA), measure->memory(kB), measure->memory(kD),
                    measure->memory(kBias), measure->memory(kAux), measure->memory(kWorkspace),
                    measure->stream()) == CUBLAS_STATUS_SUCCESS;
    };
    OC_ASSIGN_OR_RETURN(const double seconds, measure->Time(run, best_seconds));
    // Less than the noise is no reason to leave the library's order.
    if (seconds < 0 || (best_seconds > 0 && seconds > 0.98 * best_seconds)) continue;
    best = choice;
    best_seconds = seconds;
  }
  return best;
}

StatusOr<Choice> ProductStep::Choose(const CudaSlice& slice, int align,
                                     const std::string& where) const {
  Choices& chosen = Chosen();
  const std::string key = KeyOf(p_, slice, align);
  {
    std::lock_guard<std::mutex> lock(chosen.mutex);
    if (const auto known = chosen.by_key.find(key); known != chosen.by_key.end()) {
      return known->second;
    }
  }
  // Small products all take the time of a launch.
  const double flops = 2.0 * static_cast<double>(p_.m) * static_cast<double>(p_.n) *
                       static_cast<double>(p_.k) * static_cast<double>(p_.batch);
  const bool measure = !p_.deterministic && align == kAlign && flops > 1e8;
  OC_ASSIGN_OR_RETURN(const auto candidates, Candidates(align, measure ? kCandidates : 1, where));
  Choice choice = {candidates[0].algo, candidates[0].workspaceSize};
  if (candidates.size() > 1) {
    OC_ASSIGN_OR_RETURN(choice, Fastest(slice, candidates, where));
  }
  std::lock_guard<std::mutex> lock(chosen.mutex);
  return chosen.by_key.emplace(key, choice).first->second;
}

StatusOr<int64_t> ProductStep::Prepare(const CudaSlice& slice, const std::string& where) {
  OC_ASSIGN_OR_RETURN(blas_, LoadBlasLt());
  OC_ASSIGN_OR_RETURN(handle_, BlasHandle(*blas_, slice.traits().ordinal, where));
  OC_RETURN_IF_ERROR(Describe(slice, where));
  OC_ASSIGN_OR_RETURN(aligned_, Choose(slice, kAlign, where));
  OC_ASSIGN_OR_RETURN(any_, Choose(slice, SizeInBytes(p_.type), where));
  return static_cast<int64_t>(std::max(aligned_.workspace, any_.workspace));
}

bool ProductStep::IsAligned(const Call& call) const {
  const auto at = [](const void* address) { return reinterpret_cast<uintptr_t>(address); };
  uintptr_t bits = at(a_(call)) | at(b_(call)) | at(d_(call));
  for (const Locate& more : {bias_, aux_}) {
    if (more != nullptr) bits |= at(more(call));
  }
  return bits % kAlign == 0;
}

Status ProductStep::Run(const Call& call, char* scratch, const std::string& where) const {
  const void* a = a_(call);
  const void* b = b_(call);
  void* d = d_(call);
  const void* bias = bias_ == nullptr ? nullptr : bias_(call);
  const void* aux = aux_ == nullptr ? nullptr : aux_(call);
  return blas_->ToStatus(
      Launch(IsAligned(call) ? aligned_ : any_, a, b, d, bias, aux, scratch, call.stream),
      "cublasLtMatmul", where);
}

// A product whose epilogue does what a kernel behind a plain one does as well: the epilogue wants
// every address on 16 bytes, rows of a multiple of 8 elements and one type.
class FusedProductStep : public Step {
 public:
  using Behind = std::function<cudaError_t(const Call&)>;
  FusedProductStep(std::unique_ptr<ProductStep> fused, std::unique_ptr<ProductStep> plain,
                   Behind behind)
      : fused_(std::move(fused)), plain_(std::move(plain)), behind_(std::move(behind)) {}

  StatusOr<int64_t> Prepare(const CudaSlice& slice, const std::string& where) override {
    OC_ASSIGN_OR_RETURN(const int64_t bytes, plain_->Prepare(slice, where));
    if (fused_ == nullptr) return bytes;
    const auto more = fused_->Prepare(slice, where);
    if (more.ok()) return std::max(bytes, *more);
    if (!absl::IsUnimplemented(more.status())) return more.status();
    fused_ = nullptr;
    return bytes;
  }

  Status Run(const Call& call, char* scratch, const std::string& where) const override {
    if (fused_ != nullptr && fused_->IsAligned(call)) return fused_->Run(call, scratch, where);
    OC_RETURN_IF_ERROR(plain_->Run(call, scratch, where));
    return ToStatus(behind_(call), "launch a kernel", where);
  }

 private:
  std::unique_ptr<ProductStep> fused_;  // null where cuBLASLt has none
  std::unique_ptr<ProductStep> plain_;
  const Behind behind_;
};

bool FitsGeluEpilogue(const Product& p, bool tanh) {
  return tanh && p.n % 8 == 0 && p.type == p.out_type;
}

}  // namespace

Status AddGeluGradProduct(OpPlan& plan, const Product& p, Locate a, Locate b, LocateOut d, Locate x,
                          bool tanh) {
  OC_RETURN_IF_ERROR(DataType(p.type).status());
  if (p.m == 0 || p.n == 0 || p.batch == 0) return OkStatus();
  if (p.k == 0) return AddProduct(plan, p, std::move(a), std::move(b), std::move(d));
  Product fused = p;
  fused.epilogue = Epilogue::kGeluTanhGrad;
  const auto op = tanh ? kernels::BinaryOp::kGeluTanhGrad : kernels::BinaryOp::kGeluGrad;
  const auto behind = [=, type = TypeOf(p.out_type), n = p.batch * p.m * p.n](const Call& c) {
    return kernels::Binary(type, op, d(c), x(c), d(c), n, n, c.stream);
  };
  plan.SetImplementation("cublaslt");
  plan.Add(std::make_unique<FusedProductStep>(
      FitsGeluEpilogue(p, tanh) ? std::make_unique<ProductStep>(fused, a, b, d, nullptr, x)
                                : nullptr,
      std::make_unique<ProductStep>(p, a, b, d, nullptr), behind));
  return OkStatus();
}

Status AddGeluProduct(OpPlan& plan, const Product& p, Locate a, Locate b, LocateOut h, LocateOut y,
                      Locate bias, bool tanh) {
  OC_RETURN_IF_ERROR(DataType(p.type).status());
  if (p.m == 0 || p.n == 0 || p.batch == 0) return OkStatus();
  const auto op = tanh ? kernels::UnaryOp::kGeluTanh : kernels::UnaryOp::kGelu;
  const auto behind = [=, type = TypeOf(p.out_type), n = p.batch * p.m * p.n](const Call& c) {
    return kernels::Unary(type, op, 0, 0, h(c), y(c), n, c.stream);
  };
  Product plain = p, fused = p;
  plain.epilogue = Epilogue::kBias;
  fused.epilogue = Epilogue::kBiasGeluTanh;
  if (p.k == 0) {
    OC_RETURN_IF_ERROR(AddProduct(plan, plain, a, b, h, bias));
    plan.Launch(behind);
    return OkStatus();
  }
  plan.SetImplementation("cublaslt");
  plan.Add(std::make_unique<FusedProductStep>(
      FitsGeluEpilogue(p, tanh) ? std::make_unique<ProductStep>(fused, a, b, y, bias, h) : nullptr,
      std::make_unique<ProductStep>(plain, a, b, h, bias), behind));
  return OkStatus();
}

Status AddProduct(OpPlan& plan, const Product& p, Locate a, Locate b, LocateOut d, Locate bias) {
  OC_RETURN_IF_ERROR(DataType(p.type).status());
  OC_RETURN_IF_ERROR(DataType(p.out_type).status());
  if (p.m == 0 || p.n == 0 || p.batch == 0) return OkStatus();
  if (p.k == 0) {
    const bool relu = p.epilogue == Epilogue::kRelu || p.epilogue == Epilogue::kReluBias;
    plan.Launch([=, type = TypeOf(p.out_type), rows = p.batch * p.m](const Call& c) {
      if (p.accumulate) return cudaSuccess;
      return kernels::FillRows(type, bias == nullptr ? nullptr : bias(c), relu, d(c), rows, p.n,
                               c.stream);
    });
    return OkStatus();
  }
  plan.SetImplementation("cublaslt");
  plan.Add(
      std::make_unique<ProductStep>(p, std::move(a), std::move(b), std::move(d), std::move(bias)));
  return OkStatus();
}

}  // namespace oc::cuda

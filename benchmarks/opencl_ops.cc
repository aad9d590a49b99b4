// Products of the opencl leaf against CLBlast called directly on the same device and sizes: linear
// layers and their gradients as the example models have them, and square products. A ratio above 1:
// the leaf is faster.
//
//   build/bin/opencl_ops [--rounds=9] [--json=FILE] [part of a name]
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <clblast_c.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "openclaw/devices/plugin.h"
#include "openclaw/graph/op.h"
#include "ratios.h"

namespace oc {
namespace {

double Now() {
  const auto t = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(t).count();
}

void CheckCl(cl_int code, const char* call) { OC_CHECK(code == CL_SUCCESS, call, ": ", code); }

// c[m, n] = op(a) op(b), row-major.
struct Product {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
};

struct Case {
  std::string name, op;
  std::vector<TensorType> inputs;
  Product product;
};

std::vector<float> Values(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i * 7919 % 1009) / 1009.0f - 0.5f;
  }
  return values;
}

// CLBlast called on a context of its own, of the device that the leaf calls its first.
class Direct {
 public:
  Direct() {
    cl_uint platforms = 0;
    CheckCl(clGetPlatformIDs(0, nullptr, &platforms), "clGetPlatformIDs");
    std::vector<cl_platform_id> ids(platforms);
    CheckCl(clGetPlatformIDs(platforms, ids.data(), nullptr), "clGetPlatformIDs");
    // Accelerators first, as the leaf has it.
    constexpr cl_device_type kTypes[] = {CL_DEVICE_TYPE_GPU | CL_DEVICE_TYPE_ACCELERATOR,
                                         CL_DEVICE_TYPE_CPU};
    for (const cl_device_type type : kTypes) {
      for (cl_platform_id id : ids) {
        if (device_ == nullptr) clGetDeviceIDs(id, type, 1, &device_, nullptr);
      }
    }
    OC_CHECK(device_ != nullptr, "no OpenCL device");
    cl_int code = CL_SUCCESS;
    context_ = clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &code);
    CheckCl(code, "clCreateContext");
    queue_ = clCreateCommandQueue(context_, device_, 0, &code);
    CheckCl(code, "clCreateCommandQueue");
  }
  ~Direct() {
    Clear();
    clReleaseCommandQueue(queue_);
    clReleaseContext(context_);
  }
  Direct(const Direct&) = delete;

  std::string device() const {
    char name[256] = "";
    clGetDeviceInfo(device_, CL_DEVICE_NAME, sizeof(name), name, nullptr);
    return name;
  }
  void SetUp(const Product& p) {
    Clear();
    product_ = p;
    for (const int64_t n : {p.m * p.k, p.k * p.n, p.m * p.n}) {
      std::vector<float> values = Values(n);
      cl_int code = CL_SUCCESS;
      memory_.push_back(clCreateBuffer(context_, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                       values.size() * sizeof(float), values.data(), &code));
      CheckCl(code, "clCreateBuffer");
    }
  }
  void Run(int n) {
    const Product& p = product_;
    const auto of = [](bool t) { return t ? CLBlastTransposeYes : CLBlastTransposeNo; };
    for (int i = 0; i < n; ++i) {
      const CLBlastStatusCode code =
          CLBlastSgemm(CLBlastLayoutRowMajor, of(p.transpose_a), of(p.transpose_b),
                       static_cast<size_t>(p.m), static_cast<size_t>(p.n), static_cast<size_t>(p.k),
                       1.0f, memory_[0], 0, static_cast<size_t>(p.transpose_a ? p.m : p.k),
                       memory_[1], 0, static_cast<size_t>(p.transpose_b ? p.k : p.n), 0.0f,
                       memory_[2], 0, static_cast<size_t>(p.n), &queue_, nullptr);
      OC_CHECK(code == CLBlastSuccess, "CLBlastSgemm: ", static_cast<int>(code));
    }
    CheckCl(clFinish(queue_), "clFinish");
  }

 private:
  void Clear() {
    for (cl_mem m : memory_) clReleaseMemObject(m);
    memory_.clear();
  }
  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  Product product_;
  std::vector<cl_mem> memory_;
};

template <typename T>
T Must(StatusOr<T> value) {
  OC_CHECK(value.ok(), value.status().ToString());
  return std::move(value).value();
}
void Must(const Status& status) { OC_CHECK(status.ok(), status.ToString()); }

// The leaf's op with its operands.
class Ours {
 public:
  Ours(Slice& slice, const Case& c) : slice_(slice) {
    OpRequest request{.def = BuiltinOps()->Find(c.op), .inputs = c.inputs};
    request.outputs = Must(request.def->infer({request.inputs, request.attrs}));
    op_ = Must(slice.Prepare(request));
    queue_ = Must(slice.CreateQueue("compute"));
    done_ = Must(slice.CreateEvent());
    for (const TensorType& t : request.inputs) {
      in_.push_back(Allocate(t.bytes()));
      const std::vector<float> values = Values(t.shape.num_elements());
      Must(queue_->CopyFromHost(in_.back(), std::as_bytes(std::span(values))));
      Wait();
    }
    out_.push_back(Allocate(request.outputs[0].bytes()));
    workspace_ = Allocate(op_->workspace_bytes());
    flops_ = request.def->cost({request.inputs, request.attrs}, request.outputs).flops;
  }
  ~Ours() {
    queue_ = nullptr;  // before what it may use
  }
  void Run(int n) {
    for (int i = 0; i < n; ++i) Must(queue_->Enqueue(*op_, in_, out_, workspace_));
    Wait();
  }
  double flops() const { return flops_; }

 private:
  BufferRange Allocate(int64_t bytes) {
    buffers_.push_back(Must(slice_.Allocate(bytes)));
    return {buffers_.back().get(), 0, bytes};
  }
  void Wait() {
    Must(queue_->Record(*done_));
    Must(done_->Wait(/*timeout_seconds=*/600));
  }

  Slice& slice_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::unique_ptr<PreparedOp> op_;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<Event> done_;
  std::vector<BufferRange> in_, out_;
  BufferRange workspace_;
  double flops_ = 0;
};

// A linear layer with its two gradients.
void AddLinear(std::vector<Case>& cases, const std::string& name, int64_t rows, int64_t in,
               int64_t out) {
  const TensorType x{DType::kF32, {rows, in}}, w{DType::kF32, {out, in}},
      dy{DType::kF32, {rows, out}};
  cases.push_back({name + " forward", "linear", {x, w}, {rows, out, in, false, true}});
  cases.push_back({name + " grad input", "linear_grad_input", {dy, w}, {rows, in, out}});
  cases.push_back({name + " grad weight", "linear_grad_weight", {dy, x}, {out, in, rows, true}});
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  AddLinear(cases, "mlp 784->512", 64, 784, 512);
  AddLinear(cases, "mlp 512->10", 64, 512, 10);
  AddLinear(cases, "lenet 400->120", 64, 400, 120);
  AddLinear(cases, "lenet 84->10", 64, 84, 10);
  AddLinear(cases, "gpt qkv 256->768", 2048, 256, 768);
  AddLinear(cases, "gpt down 1024->256", 2048, 1024, 256);
  for (const int64_t n : {64, 256, 512, 1024}) {
    const TensorType square{DType::kF32, {n, n}};
    cases.push_back({absl::StrCat("matmul ", n), "matmul", {square, square}, {n, n, n}});
  }
  return cases;
}

int Main(const std::string& part, int rounds, const std::string& json) {
  const DeviceLeaf leaf = Must(LoadPlugin(OPENCL_MODULE));
  const auto devices = Must(leaf.discover());
  const int units = devices[0]->info().threads;
  const auto slice = Must(devices[0]->CreateSlice({.threads = units}));
  Direct direct;
  std::printf("%s; CLBlast on %s\n", slice->kind().c_str(), direct.device().c_str());
  benchmarks::Ratios ratios;
  for (const Case& c : Cases()) {
    if (c.name.find(part) == std::string::npos) continue;
    Ours ours(*slice, c);
    direct.SetUp(c.product);
    benchmarks::Sampler of_ours(Now), of_direct(Now);
    for (int round = 0; round <= rounds; ++round) {
      of_direct.Sample([&](int n) { direct.Run(n); });
      of_ours.Sample([&](int n) { ours.Run(n); });
    }
    ratios.Add(c.name, units, ours.flops(), of_ours, of_direct);
  }
  ratios.PrintSummary("CLBlast");
  if (json.empty() || ratios.WriteJson(json, "CLBlast")) return 0;
  std::fprintf(stderr, "cannot write %s\n", json.c_str());
  return 1;
}

}  // namespace
}  // namespace oc

int main(int argc, char** argv) {
  std::string part, json;
  int rounds = 9;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.rfind("--rounds=", 0) == 0) {
      rounds = std::max(1, std::atoi(arg.c_str() + 9));
    } else if (arg.rfind("--json=", 0) == 0) {
      json = arg.substr(7);
    } else {
      part = arg;
    }
  }
  return oc::Main(part, rounds, json);
}

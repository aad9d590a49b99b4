// Products and convolutions of the cpu leaf, as the example models have them, against oneDNN called
// directly: a primitive of its own with as many OpenMP threads as the leaf has workers, plain NHWC
// and row-major operands. Weights of convolutions are already in the form that oneDNN likes, which
// the leaf has to bring them into: a peer that held them so all the time. With --plain-weights they
// are plain on both sides, and oneDNN's reorder is part of its call. OpenMP's threads are pinned,
// as the leaf's workers are. A ratio above 1: the leaf is faster.
//
//   build/bin/cpu_ops [threads, default 1 and 2] [f32|bf16, default f32] [--rounds=15]
//                     [--plain-weights] [--json=FILE] [part of a name]
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "openclaw/devices/cpu/kernels.h"
#include "openclaw/graph/op.h"
#include "ratios.h"

namespace oc {
namespace {

using Tag = dnnl::memory::format_tag;
using Args = std::unordered_map<int, dnnl::memory>;

// Of one thread its processor time, which does not count when others have the core; else the
// clock's.
double Now(int threads) {
  timespec t;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Case {
  std::string name, op;
  std::vector<TensorType> inputs;
  Attributes attrs;
};

// oneDNN called directly on the operands of one request.
class Direct {
 public:
  Direct(const OpRequest& request, const std::vector<void*>& inputs, void* output,
         bool plain_weights)
      : engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        in_(inputs),
        out_(output),
        plain_weights_(plain_weights) {
    type_ = request.inputs[0].dtype == DType::kF32 ? dnnl::memory::data_type::f32
                                                   : dnnl::memory::data_type::bf16;
    const std::string& op = request.def->name;
    if (op.rfind("conv2d", 0) == 0) {
      Convolution(request, op);
    } else {
      Product(request, op);
    }
  }
  void Run() {
    if (before_) before_.execute(stream_, weights_args_);
    primitive_.execute(stream_, args_);
    if (after_) after_.execute(stream_, weights_args_);
    stream_.wait();
  }

 private:
  dnnl::memory Memory(const dnnl::memory::desc& desc, void* data) { return {desc, engine_, data}; }

  void Product(const OpRequest& r, const std::string& op) {
    const int64_t m = r.inputs[0].shape.num_elements() / r.inputs[0].shape[-1].size();
    const int64_t k0 = r.inputs[0].shape[-1].size();
    const auto desc = [&](int64_t rows, int64_t columns, bool transposed) {
      return dnnl::memory::desc({rows, columns}, type_, transposed ? Tag::ba : Tag::ab);
    };
    dnnl::memory::desc a, b, c, bias;
    if (op == "linear") {
      const int64_t n = r.inputs[1].shape[0].size();
      a = desc(m, k0, false), b = desc(k0, n, true), c = desc(m, n, false);
      if (r.inputs.size() > 2) bias = desc(1, n, false);
    } else if (op == "linear_grad_input") {
      const int64_t n = r.inputs[1].shape[1].size();
      a = desc(m, k0, false), b = desc(k0, n, false), c = desc(m, n, false);
    } else {  // linear_grad_weight
      const int64_t n = r.inputs[1].shape[-1].size();
      a = desc(k0, m, true), b = desc(m, n, false), c = desc(k0, n, false);
    }
    const bool has_bias = r.inputs.size() > 2;
#if DNNL_VERSION_MAJOR >= 3
    const auto pd = has_bias ? dnnl::matmul::primitive_desc(engine_, a, b, bias, c)
                             : dnnl::matmul::primitive_desc(engine_, a, b, c);
#else
    const auto d = has_bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    const dnnl::matmul::primitive_desc pd(d, engine_);
#endif
    primitive_ = dnnl::matmul(pd);
    args_ = {{DNNL_ARG_SRC, Memory(a, in_[0])},
             {DNNL_ARG_WEIGHTS, Memory(b, in_[1])},
             {DNNL_ARG_DST, Memory(c, out_)}};
    if (has_bias) args_.emplace(DNNL_ARG_BIAS, Memory(bias, in_[2]));
  }

  void Convolution(const OpRequest& r, const std::string& op) {
    const bool forward = op == "conv2d", grad_input = op == "conv2d_grad_input";
    const Shape& x = (grad_input ? r.outputs[0] : r.inputs[forward ? 0 : 1]).shape;
    const Shape& y = (forward ? r.outputs[0] : r.inputs[0]).shape;
    const Shape& w = (forward || grad_input ? r.inputs[1] : r.outputs[0]).shape;
    const auto image = [&](const Shape& s) {
      return dnnl::memory::desc({s[0].size(), s[3].size(), s[1].size(), s[2].size()}, type_,
                                Tag::nhwc);
    };
    const dnnl::memory::desc xd = image(x), yd = image(y), wd(w.sizes(), type_, Tag::any);
    const auto stride = r.attrs.Ints("stride"), padding = r.attrs.Ints("padding");
    const dnnl::memory::dims before = {padding[0], padding[1]}, after = {padding[2], padding[3]};
    constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
    constexpr auto kKind = dnnl::prop_kind::forward_training;
    using Forward = dnnl::convolution_forward;
    using Data = dnnl::convolution_backward_data;
    using Weights = dnnl::convolution_backward_weights;
#if DNNL_VERSION_MAJOR >= 3
    const Forward::primitive_desc f(engine_, kKind, kAlgorithm, xd, wd, yd, stride, before, after);
#else
    const Forward::primitive_desc f({kKind, kAlgorithm, xd, wd, yd, stride, before, after},
                                    engine_);
#endif
    if (forward) {
      Finish(Forward(f), {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
             {Memory(xd, in_[0]), dnnl::memory(f.weights_desc(), engine_), Memory(yd, out_)}, w);
    } else if (grad_input) {
#if DNNL_VERSION_MAJOR >= 3
      const Data::primitive_desc d(engine_, kAlgorithm, xd, wd, yd, stride, before, after, f);
#else
      const Data::primitive_desc d({kAlgorithm, xd, wd, yd, stride, before, after}, engine_, f);
#endif
      Finish(Data(d), {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
             {Memory(xd, out_), dnnl::memory(d.weights_desc(), engine_), Memory(yd, in_[0])}, w);
    } else {
#if DNNL_VERSION_MAJOR >= 3
      const Weights::primitive_desc d(engine_, kAlgorithm, xd, wd, yd, stride, before, after, f);
#else
      const Weights::primitive_desc d({kAlgorithm, xd, wd, yd, stride, before, after}, engine_, f);
#endif
      Finish(Weights(d), {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
             {Memory(xd, in_[1]), dnnl::memory(d.diff_weights_desc(), engine_), Memory(yd, in_[0])},
             w);
    }
  }

  // Between the plain weights and the primitive's, its operand 1.
  void Reorder(const Shape& w, bool is_output, const dnnl::memory& own) {
    const dnnl::memory plain = Memory({w.sizes(), type_, Tag::oihw}, is_output ? out_ : in_[1]);
    if (!plain_weights_ || plain.get_desc() == own.get_desc()) return;
    const dnnl::memory& from = is_output ? own : plain;
    const dnnl::memory& to = is_output ? plain : own;
    (is_output ? after_ : before_) = dnnl::reorder(from, to);
    weights_args_ = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
  }

  void Finish(dnnl::primitive primitive, std::vector<int> roles, std::vector<dnnl::memory> operands,
              const Shape& w) {
    primitive_ = std::move(primitive);
    // Memory that nobody filled may hold denormal numbers, which are slow.
    std::memset(operands[1].get_data_handle(), 0, operands[1].get_desc().get_size());
    Reorder(w, roles[1] == DNNL_ARG_DIFF_WEIGHTS, operands[1]);
    for (size_t i = 0; i < roles.size(); ++i) args_.emplace(roles[i], operands[i]);
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<void*> in_;
  void* out_;
  bool plain_weights_;
  dnnl::memory::data_type type_;
  dnnl::primitive primitive_, before_, after_;  // those that reorder weights: empty for none
  Args args_, weights_args_;
};

std::vector<int> AllowedCores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

// Makes OpenMP's team of the calling thread, and pins each of its threads to a core of its own, as
// a worker pool's are.
void BindTeam(int threads, const std::vector<int>& cores) {
  omp_set_num_threads(threads);
  if (cores.empty()) return;
#pragma omp parallel num_threads(threads)
  {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cores[static_cast<size_t>(omp_get_thread_num()) % cores.size()], &set);
    sched_setaffinity(0, sizeof(set), &set);
  }
}

// A thread that does one thing after the other.
class Caller {
 public:
  Caller() : thread_([this] { Serve(); }) {}
  ~Caller() {
    Hand(nullptr);
    thread_.join();
  }
  // Returns when it is done.
  void Run(const std::function<void()>& task) { Hand(&task); }

 private:
  void Hand(const std::function<void()>* task) {
    std::unique_lock<std::mutex> lock(mutex_);
    task_ = task;
    waiting_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !waiting_; });
  }
  void Serve() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (bool more = true; more;) {
      changed_.wait(lock, [this] { return waiting_; });
      more = task_ != nullptr;
      if (more) (*task_)();
      waiting_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* task_ = nullptr;  // null: none comes any more
  bool waiting_ = false;
  std::thread thread_;
};

double Flops(const OpDef& def, const OpRequest& request) {
  return def.cost({request.inputs, request.attrs}, request.outputs).flops;
}

void Run(const Case& c, const KernelRegistry& registry, int threads, int rounds, bool plain_weights,
         benchmarks::Ratios& ratios) {
  OpRequest request;
  const std::shared_ptr<const OpRegistry> ops = BuiltinOps();
  request.def = ops->Find(c.op);
  request.attrs = c.attrs;
  request.inputs = c.inputs;
  auto outputs = request.def->infer({request.inputs, request.attrs});
  OC_CHECK(outputs.ok(), outputs.status().ToString());
  request.outputs = *outputs;

  std::vector<Tensor> tensors;
  for (const TensorType& t : request.inputs) {
    Tensor& tensor = tensors.emplace_back(t);
    for (int64_t i = 0; i < std::min<int64_t>(t.shape.num_elements(), 4096); ++i) {
      tensor.set(i, std::sin(0.1 * static_cast<double>(i)));
    }
  }
  tensors.emplace_back(request.outputs[0]);
  std::vector<const std::byte*> in;
  std::vector<void*> raw;
  for (size_t i = 0; i + 1 < tensors.size(); ++i) {
    in.push_back(tensors[i].bytes().data());
    raw.push_back(tensors[i].bytes().data());
  }
  std::byte* out[] = {tensors.back().bytes().data()};

  auto kernel = registry.Find(c.op)->create(request, threads);
  OC_CHECK(kernel.ok(), kernel.status().ToString());
  const Tensor workspace({DType::kU8, {std::max<int64_t>(1, (*kernel)->workspace_bytes())}});
  WorkerPool pool(threads, AllowedCores());
  const KernelArgs args{in.data(), out, const_cast<std::byte*>(workspace.bytes().data()), pool};

  const auto now = [threads] { return Now(threads); };
  benchmarks::Sampler ours(now), direct(now);
  std::unique_ptr<Direct> peer;
  // A thread a side: what belongs to a thread (OpenMP's team, its place in the allocator) is kept.
  Caller our_caller, direct_caller;
  our_caller.Run([&] { pool.BindCaller(); });
  direct_caller.Run([&] {
    BindTeam(threads, AllowedCores());
    peer = std::make_unique<Direct>(request, raw, out[0], plain_weights);
  });
  // The first round of each side is not counted.
  for (int round = 0; round <= rounds; ++round) {
    direct_caller.Run([&] {
      direct.Sample([&](int n) {
        for (int i = 0; i < n; ++i) peer->Run();
      });
    });
    // Idle OpenMP threads spin for a while: let them fall asleep before the pool has its turn.
    if (threads > 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    our_caller.Run([&] {
      ours.Sample([&](int n) {
        for (int i = 0; i < n; ++i) {
          const Status status = (*kernel)->Run(args);
          OC_CHECK(status.ok(), status.ToString());
        }
      });
    });
  }
  ratios.Add(c.name, threads, Flops(*request.def, request), ours, direct);
}

// A linear layer with its two gradients.
void AddLinear(std::vector<Case>& cases, const std::string& name, DType type, int64_t rows,
               int64_t in, int64_t out) {
  const TensorType x{type, {rows, in}}, w{type, {out, in}}, dy{type, {rows, out}};
  cases.push_back({name + " forward", "linear", {x, w, {type, {out}}}, {}});
  cases.push_back({name + " grad input", "linear_grad_input", {dy, w}, {}});
  cases.push_back({name + " grad weight", "linear_grad_weight", {dy, x}, {}});
}

struct Convolution {
  int64_t batch, size, in, out, kernel, stride = 1, pad = -1;  // -1: half the kernel
  bool first = false;  // of the model: no gradient of the images
};

void AddConvolution(std::vector<Case>& cases, DType type, const Convolution& c) {
  const auto& [batch, size, in, out, kernel, stride, given_pad, first] = c;
  const int64_t pad = given_pad < 0 ? kernel / 2 : given_pad;
  const int64_t out_size = (size + 2 * pad - kernel) / stride + 1;
  const std::string name =
      absl::StrCat("conv ", size, "x", size, " ", in, "->", out, " k", kernel, " s", stride);
  const TensorType x{type, {batch, size, size, in}}, w{type, {out, in, kernel, kernel}},
      y{type, {batch, out_size, out_size, out}};
  Attributes attrs = {{"stride", std::vector<int64_t>{stride, stride}},
                      {"padding", std::vector<int64_t>{pad, pad, pad, pad}}};
  cases.push_back({name + " forward", "conv2d", {x, w}, attrs});
  Attributes grad = attrs;
  grad.Set("input_shape", x.shape);
  if (!first) cases.push_back({name + " grad input", "conv2d_grad_input", {y, w}, grad});
  attrs.Set("weight_shape", w.shape);
  cases.push_back({name + " grad weight", "conv2d_grad_weight", {y, x}, attrs});
}

std::vector<Case> Cases(DType type) {
  std::vector<Case> cases;
  AddLinear(cases, "mlp 784->512", type, 64, 784, 512);
  AddLinear(cases, "mlp 512->512", type, 64, 512, 512);
  AddLinear(cases, "mlp 512->10", type, 64, 512, 10);
  AddLinear(cases, "lenet 400->120", type, 64, 400, 120);
  AddLinear(cases, "lenet 120->84", type, 64, 120, 84);
  AddLinear(cases, "lenet 84->10", type, 64, 84, 10);
  AddLinear(cases, "gpt qkv 256->768", type, 2048, 256, 768);
  AddLinear(cases, "gpt proj 256->256", type, 2048, 256, 256);
  AddLinear(cases, "gpt up 256->1024", type, 2048, 256, 1024);
  AddLinear(cases, "gpt down 1024->256", type, 2048, 1024, 256);
  AddLinear(cases, "124M qkv 768->2304", type, 256, 768, 2304);
  AddLinear(cases, "124M proj 768->768", type, 256, 768, 768);
  AddLinear(cases, "124M up 768->3072", type, 256, 768, 3072);
  AddLinear(cases, "124M down 3072->768", type, 256, 3072, 768);
  AddLinear(cases, "124M head 768->50304", type, 256, 768, 50304);
  AddLinear(cases, "resnet 512->10", type, 32, 512, 10);
  // LeNet's, then those of ResNet-18 with its small stem.
  for (const Convolution& c : std::vector<Convolution>{
           {.batch = 64, .size = 28, .in = 1, .out = 6, .kernel = 5, .first = true},
           {.batch = 64, .size = 14, .in = 6, .out = 16, .kernel = 5, .pad = 0},
           {.batch = 32, .size = 32, .in = 3, .out = 64, .kernel = 3, .first = true},
           {.batch = 32, .size = 32, .in = 64, .out = 64, .kernel = 3},
           {.batch = 32, .size = 32, .in = 64, .out = 128, .kernel = 3, .stride = 2},
           {.batch = 32, .size = 32, .in = 64, .out = 128, .kernel = 1, .stride = 2},
           {.batch = 32, .size = 16, .in = 128, .out = 128, .kernel = 3},
           {.batch = 32, .size = 16, .in = 128, .out = 256, .kernel = 3, .stride = 2},
           {.batch = 32, .size = 16, .in = 128, .out = 256, .kernel = 1, .stride = 2},
           {.batch = 32, .size = 8, .in = 256, .out = 256, .kernel = 3},
           {.batch = 32, .size = 8, .in = 256, .out = 512, .kernel = 3, .stride = 2},
           {.batch = 32, .size = 8, .in = 256, .out = 512, .kernel = 1, .stride = 2},
           {.batch = 32, .size = 4, .in = 512, .out = 512, .kernel = 3}}) {
    AddConvolution(cases, type, c);
  }
  return cases;
}

}  // namespace
}  // namespace oc

int main(int argc, char** argv) {
  std::vector<int> threads = {1, 2};
  oc::DType type = oc::DType::kF32;
  std::string part, json;
  int rounds = 15;
  bool plain_weights = false;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.rfind("--rounds=", 0) == 0) {
      rounds = std::max(1, std::atoi(arg.c_str() + 9));
    } else if (arg == "--plain-weights") {
      plain_weights = true;
    } else if (arg.rfind("--json=", 0) == 0) {
      json = arg.substr(7);
    } else if (arg == "bf16") {
      type = oc::DType::kBF16;
    } else if (arg.find_first_not_of("0123456789") == std::string::npos && std::atoi(argv[i]) > 0) {
      threads = {std::atoi(argv[i])};
    } else if (arg != "f32") {
      part = arg;
    }
  }
  oc::KernelRegistry registry;
  const oc::Status status = oc::cpu::RegisterOneDnn(registry);
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  oc::benchmarks::Ratios ratios;
  for (const int t : threads) {
    for (const oc::Case& c : oc::Cases(type)) {
      if (c.name.find(part) == std::string::npos) continue;
      oc::Run(c, registry, t, rounds, plain_weights, ratios);
    }
  }
  ratios.PrintSummary("oneDNN");
  if (!json.empty() && !ratios.WriteJson(json, "oneDNN")) {
    std::fprintf(stderr, "cannot write %s\n", json.c_str());
    return 1;
  }
  return 0;
}

// Times of the cpu leaf's own kernels on shapes of the examples: milliseconds a call, and bytes
// moved.
//
//   build/bin/cpu_native [threads] [part of a name]
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "openclaw/core/rng.h"
#include "openclaw/devices/cpu/kernels.h"
#include "openclaw/graph/op.h"

namespace oc {
namespace {

struct Case {
  std::string name, op;
  std::vector<TensorType> inputs;
  Attributes attrs;
  uint32_t accumulate = 0;
  int operands = 0;  // not 0: calls one after the other, each of so many of the inputs
};

// Values in -1..1; ids and labels below 256.
void Fill(Tensor& t, uint64_t stream) {
  const Philox rng(7);
  // What is large repeats itself.
  const int64_t n = std::min<int64_t>(t.num_elements(), 1 << 16);
  for (int64_t i = 0; i < n; ++i) {
    const float u = UniformFloat(rng.Word(stream, static_cast<uint64_t>(i)));
    t.set(i, IsFloat(t.dtype()) ? 2.0 * u - 1.0 : static_cast<int>(u * 256));
  }
  std::byte* const data = t.bytes().data();
  const size_t all = t.bytes().size(), filled = n == 0 ? 1 : all / t.num_elements() * n;
  for (size_t at = filled; at < all; at += filled) {
    std::memcpy(data + at, data, std::min(filled, all - at));
  }
}

// Of one thread the time that it had the processor, so that others on the machine disturb less.
double Now(bool of_thread) {
  timespec t;
  clock_gettime(of_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

// One op on operands of its own.
class Call {
 public:
  Call(const Case& c, const std::vector<TensorType>& types, const KernelRegistry& registry,
       int threads) {
    const OpDef* def = BuiltinOps()->Find(c.op);
    OC_CHECK(def != nullptr, c.op);
    const auto results = def->infer({types, c.attrs});
    OC_CHECK(results.ok(), c.name, ": ", results.status().ToString());
    auto kernel =
        registry.Find(c.op)->create({def, c.attrs, types, *results, c.accumulate}, threads);
    OC_CHECK(kernel.ok(), c.name, ": ", kernel.status().ToString());
    kernel_ = std::move(kernel).value();
    for (const TensorType& type : types) {
      tensors_.emplace_back(type);
      Fill(tensors_.back(), tensors_.size());
      bytes_ += static_cast<double>(type.bytes());
      in_.push_back(tensors_.back().bytes().data());
    }
    for (size_t i = 0; i < results->size(); ++i) {
      bytes_ += static_cast<double>((*results)[i].bytes());
      const int updated = UpdatedInput(*def, c.attrs, types.size(), results->size(), i);
      if (updated >= 0) {
        out_.push_back(tensors_[updated].bytes().data());
        continue;
      }
      tensors_.emplace_back((*results)[i]);
      out_.push_back(tensors_.back().bytes().data());
    }
    workspace_ = Tensor({DType::kU8, {kernel_->workspace_bytes()}});
  }
  void Run(WorkerPool& pool) {
    const Status status = kernel_->Run({in_.data(), out_.data(), workspace_.bytes().data(), pool});
    OC_CHECK(status.ok(), status.ToString());
  }
  double bytes() const { return bytes_; }

 private:
  std::unique_ptr<HostKernel> kernel_;
  std::vector<Tensor> tensors_;
  Tensor workspace_;
  std::vector<const std::byte*> in_;
  std::vector<std::byte*> out_;
  double bytes_ = 0;
};

void Run(const Case& c, const KernelRegistry& registry, WorkerPool& pool) {
  const size_t each = c.operands == 0 ? c.inputs.size() : static_cast<size_t>(c.operands);
  std::vector<std::unique_ptr<Call>> calls;
  double bytes = 0;
  for (size_t at = 0; at < c.inputs.size(); at += each) {
    const std::vector<TensorType> types(c.inputs.begin() + at, c.inputs.begin() + at + each);
    calls.push_back(std::make_unique<Call>(c, types, registry, pool.threads()));
    bytes += calls.back()->bytes();
  }
  std::vector<double> times;
  for (int i = 0; i < 15; ++i) {
    const double begin = Now(pool.threads() == 1);
    for (const auto& call : calls) call->Run(pool);
    times.push_back(Now(pool.threads() == 1) - begin);
  }
  std::sort(times.begin(), times.end());
  std::printf("%-36s %9.3f ms, best %9.3f ms %8.1f GB/s\n", c.name.c_str(), times[7], times[0],
              bytes / times[0] / 1e6);
}

TensorType F(const Shape& shape, DType dtype = DType::kF32) { return {dtype, shape}; }
TensorType I(const Shape& shape) { return {DType::kI32, shape}; }

// The parameters of GPT-2 124M.
std::vector<Shape> Gpt2() {
  std::vector<Shape> shapes = {{50257, 768}, {1024, 768}};
  for (int layer = 0; layer < 12; ++layer) {
    for (const Shape& s :
         {Shape{768}, Shape{768}, Shape{2304, 768}, Shape{2304}, Shape{768, 768}, Shape{768},
          Shape{768}, Shape{768}, Shape{3072, 768}, Shape{3072}, Shape{768, 3072}, Shape{768}}) {
      shapes.push_back(s);
    }
  }
  shapes.insert(shapes.end(), {{768}, {768}});
  return shapes;
}

// One call for a list of tensors, and a call a tensor where `apart`.
Case Update(const std::string& name, const std::string& op, const std::vector<Shape>& shapes,
            const std::vector<DType>& operands, int scalars, bool apart) {
  Case c = {name + (apart ? ", a call each" : ", one call"), op, {}, {}};
  const TensorType s = F({});
  for (const Shape& shape : shapes) {
    for (DType dtype : operands) c.inputs.push_back(F(shape, dtype));
    if (apart) c.inputs.insert(c.inputs.end(), static_cast<size_t>(scalars), s);
  }
  if (!apart) c.inputs.insert(c.inputs.end(), static_cast<size_t>(scalars), s);
  if (apart) c.operands = static_cast<int>(operands.size()) + scalars;
  return c;
}

void AddUpdates(std::vector<Case>& cases, DType t) {
  const Shape p = {124475904};
  const TensorType s = F({});
  cases.push_back({"sum_squares 124M", "sum_squares", {F(p, t)}, {}});
  cases.push_back({"accumulate 124M", "accumulate", {F(p), F(p, t)}, {}});
  cases.push_back({"sgd 124M", "sgd", {F(p), F(p, t), F(p), s, s}, {{"momentum", 0.9}}});
  cases.push_back({"adamw 124M", "adamw", {F(p), F(p, t), F(p), F(p), s, s, s}, {}});
  const DType f = DType::kF32;
  const std::vector<Shape> gpt2 = Gpt2(), small(1000, Shape{768});
  for (bool apart : {true, false}) {
    cases.push_back(Update("norm of gpt2-124m", "sum_squares", gpt2, {t}, 0, apart));
    cases.push_back(Update("adamw gpt2-124m", "adamw", gpt2, {f, t, f, f}, 3, apart));
    cases.push_back(Update("adamw 1000 x 768", "adamw", small, {f, t, f, f}, 3, apart));
    cases.push_back(Update("lion 1000 x 768", "lion", small, {f, t, f}, 2, apart));
    cases.push_back(Update("lamb_moments gpt2-124m", "lamb_moments", gpt2, {f, t, f, f}, 2, apart));
  }
  const int64_t rows = 3072, columns = 768;
  cases.push_back(
      {"adafactor 3072x768",
       "adafactor",
       {F({rows, columns}), F({rows, columns}, t), F({rows, 1}), F({1, columns}), s, s, s},
       {}});
}

std::vector<Case> Cases(DType t) {
  const Shape x = {8, 256, 256}, wide = {8, 256, 1024}, rows = {8, 256};
  const TensorType s = F({});
  std::vector<Case> cases = {
      {"add", "add", {F(x, t), F(x, t)}, {}},
      {"add bias", "add", {F(wide, t), F({1024}, t)}, {}},
      {"relu", "relu", {F(wide, t)}, {}},
      {"gelu", "gelu", {F(wide, t)}, {}},
      {"gelu tanh", "gelu", {F(wide, t)}, {{"approximate", std::string("tanh")}}},
      {"gelu_grad", "gelu_grad", {F(wide, t), F(wide, t)}, {}},
      {"gelu_grad tanh",
       "gelu_grad",
       {F(wide, t), F(wide, t)},
       {{"approximate", std::string("tanh")}}},
      {"exp", "exp", {F(wide, t)}, {}},
      {"tanh", "tanh", {F(wide, t)}, {}},
      {"layer_norm", "layer_norm", {F(x, t), F({256}, t), F({256}, t)}, {}},
      {"layer_norm_grad_input",
       "layer_norm_grad_input",
       {F(x, t), F(x, t), F({256}, t), F(rows), F(rows)},
       {}},
      {"layer_norm_grad_weight",
       "layer_norm_grad_weight",
       {F(x, t), F(x, t), F(rows), F(rows)},
       {}},
      {"layer_norm 2048x768", "layer_norm", {F({2048, 768}, t), F({768}, t), F({768}, t)}, {}},
      {"layer_norm_grad_input 2048x768",
       "layer_norm_grad_input",
       {F({2048, 768}, t), F({2048, 768}, t), F({768}, t), F({2048}), F({2048})},
       {}},
      {"layer_norm_grad_weight 2048x768",
       "layer_norm_grad_weight",
       {F({2048, 768}, t), F({2048, 768}, t), F({2048}), F({2048})},
       {}},
      {"cross_entropy 2048x256", "cross_entropy", {F({2048, 256}, t), I({2048})}, {}},
      {"cross_entropy_grad 2048x256",
       "cross_entropy_grad",
       {s, F({2048, 256}, t), I({2048}), F({2048})},
       {}},
      {"cross_entropy 256x50304", "cross_entropy", {F({256, 50304}, t), I({256})}, {}},
      {"cross_entropy_grad 256x50304",
       "cross_entropy_grad",
       {s, F({256, 50304}, t), I({256}), F({256})},
       {}},
      {"softmax 8192x256", "softmax", {F({8192, 256}, t)}, {}},
      {"embedding", "embedding", {I(rows), F({256, 256}, t)}, {}},
      {"embedding_grad", "embedding_grad", {F(x, t), I(rows)}, {{"vocabulary", int64_t{256}}}},
      {"embedding_grad 50304x768",
       "embedding_grad",
       {F({256, 768}, t), I({256})},
       {{"vocabulary", int64_t{50304}}}},
      {"reduce_sum columns", "reduce_sum", {F(wide, t)}, {{"axes", std::vector<int64_t>{0, 1}}}},
      {"reduce_sum last axis", "reduce_sum", {F(wide, t)}, {{"axes", std::vector<int64_t>{-1}}}},
      {"transpose 2048x1024",
       "transpose",
       {F({2048, 1024}, t)},
       {{"permutation", std::vector<int64_t>{1, 0}}}},
      {"transpose 8x256x4x64 0213",
       "transpose",
       {F({8, 256, 4, 64}, t)},
       {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}}},
      {"dropout",
       "dropout",
       {F(wide, t), {DType::kI64, {4}}},
       {{"p", 0.1}, {"stream", int64_t{5}}}},
  };
  const auto attention = [&](const char* name, int64_t batch, int64_t heads, int64_t length) {
    const int64_t width = heads * 64;
    const Attributes attrs = {{"heads", heads}, {"kv_heads", heads}};
    const Shape qkv = {batch, length, 3 * width}, y = {batch, length, width};
    cases.push_back({std::string("attention ") + name, "attention", {F(qkv, t)}, attrs});
    cases.push_back({std::string("attention_grad ") + name,
                     "attention_grad",
                     {F(y, t), F(qkv, t), F(y, t), F({batch, heads, length})},
                     attrs});
  };
  attention("8x4x256x64", 8, 4, 256);
  attention("4x12x64x64", 4, 12, 64);
  attention("1x12x1024x64", 1, 12, 1024);
  cases.push_back({"rope 8x4x256x64",
                   "rope",
                   {F({8, 256, 768}, t)},
                   {{"heads", int64_t{4}}, {"kv_heads", int64_t{4}}}});
  const Attributes relu = {{"activation", std::string("relu")}};
  for (const Shape& image : {Shape{32, 32, 32, 64}, Shape{32, 8, 8, 256}}) {
    const Shape c = {image[3]};
    cases.push_back({"batch_norm " + image.ToString(),
                     "batch_norm",
                     {F(image, t), F(c, t), F(c, t), F(c), F(c)},
                     relu});
    cases.push_back({"batch_norm_grad " + image.ToString(),
                     "batch_norm_grad",
                     {F(image, t), F(image, t), F(c, t), F(c, t), F(c), F(c)},
                     relu});
  }
  const std::vector<int64_t> two = {2, 2};
  const Shape image = {128, 28, 28, 6}, half = {128, 14, 14, 6};
  Attributes pool = {{"kernel", two}, {"stride", two}};
  cases.push_back({"max_pool2d 28x28x6", "max_pool2d", {F(image, t)}, pool});
  pool.Set("input_shape", image);
  cases.push_back(
      {"max_pool2d_grad 28x28x6", "max_pool2d_grad", {F(half, t), {DType::kU8, half}}, pool});
  AddUpdates(cases, t);
  return cases;
}

}  // namespace
}  // namespace oc

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  oc::WorkerPool pool(threads, {0, 1});
  pool.BindCaller();
  oc::KernelRegistry registry;
  oc::cpu::RegisterNative(registry);
  for (const oc::DType dtype : {oc::DType::kF32, oc::DType::kBF16}) {
    std::printf("%s, %d threads\n", oc::Name(dtype), threads);
    for (const oc::Case& c : oc::Cases(dtype)) {
      if (argc > 2 && std::strstr(c.name.c_str(), argv[2]) == nullptr) continue;
      oc::Run(c, registry, pool);
    }
  }
  return 0;
}

// Ops of the cuda leaf at the sizes that models have them, against the floor of the machine: bytes
// moved (each operand read once, each result written once) over the rate of a device copy, or
// operations over the rate of a large bf16 product, whichever takes longer. Operands rotate among
// sets that are several times the cache, so that the memory is measured. Ops of one kind are
// enqueued back to back; a time is the whole over their number, the median of some rounds.
//
//   build/bin/cuda_ops [--rounds=7] [--copy=4.24e12] [--flops=7.8e14] [--json=FILE] [part of a
//   name]
//
// cuda_ops_pytorch.py is the peer.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "openclaw/core/rng.h"
#include "openclaw/devices/modules.h"
#include "openclaw/graph/op.h"

namespace oc {
namespace {

constexpr int64_t kRotated = int64_t{256} << 20;  // bytes of operands, several times the cache

template <typename T>
T Must(StatusOr<T> value) {
  OC_CHECK(value.ok(), value.status().ToString());
  return std::move(value).value();
}
void Must(const Status& status) { OC_CHECK(status.ok(), status.ToString()); }

double Now() {
  const auto t = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(t).count();
}

struct Case {
  std::string name, op;
  std::vector<TensorType> inputs;
  Attributes attrs;
  bool deterministic = false;
  bool in_place = false;  // outputs take the memory of inputs where the op allows it
  int64_t labels = 2;     // integers are 0 to labels - 1
  double bytes = -1;      // moved at least; below 0: of all operands
  uint32_t accumulate = 0;
};

// Random numbers on the device, of which operands are made by copying: whole operands from the host
// would take longer than what is measured.
class Patterns {
 public:
  Patterns(Slice& slice, Queue& queue) {
    constexpr int64_t kElements = int64_t{1} << 20;
    const Philox rng(1);
    const auto done = Must(slice.CreateEvent());
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Tensor pattern({dtype, {kElements}});
      for (int64_t i = 0; i < kElements; ++i) {
        pattern.set(i, 0.05 + UniformFloat(rng.Word(0, static_cast<uint64_t>(i))));
      }
      Pattern& made = patterns_[dtype];
      made.bytes = pattern.type().bytes();
      made.buffer = Must(slice.Allocate(made.bytes));
      Must(queue.CopyFromHost({made.buffer.get(), 0, made.bytes}, pattern.bytes()));
      Must(queue.Record(*done));
      Must(done->Wait(/*timeout_seconds=*/60));
    }
  }
  // False for types without a pattern.
  bool Fill(Queue& queue, const BufferRange& to, DType dtype) const {
    const auto it = patterns_.find(dtype);
    if (it == patterns_.end()) return false;
    const Pattern& pattern = it->second;
    for (int64_t at = 0; at < to.bytes; at += pattern.bytes) {
      const int64_t bytes = std::min(pattern.bytes, to.bytes - at);
      Must(queue.Copy({to.buffer, to.offset + at, bytes}, {pattern.buffer.get(), 0, bytes}));
    }
    return true;
  }

 private:
  struct Pattern {
    std::unique_ptr<Buffer> buffer;
    int64_t bytes = 0;
  };
  std::map<DType, Pattern> patterns_;
};

// A case's op with enough sets of operands.
class Bench {
 public:
  Bench(Slice& slice, Queue& queue, const Patterns& patterns, const Case& c)
      : slice_(slice), queue_(queue), patterns_(patterns), case_(c) {
    OpRequest request{.def = BuiltinOps()->Find(c.op),
                      .attrs = c.attrs,
                      .inputs = c.inputs,
                      .accumulate = c.accumulate,
                      .deterministic = c.deterministic};
    request.outputs = Must(request.def->infer({request.inputs, request.attrs}));
    op_ = Must(slice.Prepare(request));
    done_ = Must(slice.CreateEvent());
    const OpCost cost = request.def->cost
                            ? request.def->cost({request.inputs, request.attrs}, request.outputs)
                            : OpCost{};
    flops_ = cost.flops;
    int64_t bytes = 0;
    for (const auto* types : {&request.inputs, &request.outputs}) {
      for (const TensorType& t : *types) bytes += t.bytes();
    }
    bytes_ = c.bytes >= 0 ? c.bytes : static_cast<double>(bytes);
    const auto sets =
        static_cast<size_t>(std::clamp<int64_t>(kRotated / std::max<int64_t>(bytes, 1) + 1, 2, 16));
    for (size_t s = 0; s < sets; ++s) sets_.push_back(MakeSet(request));
    workspace_ = Allocate(op_->workspace_bytes());
    Wait();
  }

  void Run(int n) {
    for (int i = 0; i < n; ++i) {
      const Set& set = sets_[next_++ % sets_.size()];
      Must(queue_.Enqueue(*op_, set.in, set.out, workspace_));
    }
    Wait();
  }
  double flops() const { return flops_; }
  double bytes() const { return bytes_; }
  const char* implementation() const { return op_->implementation(); }
  int64_t workspace_bytes() const { return op_->workspace_bytes(); }

 private:
  struct Set {
    std::vector<BufferRange> in, out;
  };

  BufferRange Allocate(int64_t bytes) {
    buffers_.push_back(Must(slice_.Allocate(std::max<int64_t>(bytes, 1))));
    return {buffers_.back().get(), 0, bytes};
  }
  void Wait() {
    Must(queue_.Record(*done_));
    Must(done_->Wait(/*timeout_seconds=*/60));
  }

  void Fill(const BufferRange& to, const TensorType& type) {
    if (patterns_.Fill(queue_, to, type.dtype)) return;
    Tensor whole(type);
    const Philox rng(2);
    for (int64_t i = 0; i < whole.num_elements(); ++i) {
      whole.set(i, static_cast<double>(rng.Word(1, static_cast<uint64_t>(i)) %
                                       static_cast<uint64_t>(case_.labels)));
    }
    Must(queue_.CopyFromHost(to, whole.bytes()));
    Wait();
  }

  Set MakeSet(const OpRequest& r) {
    Set set;
    for (const TensorType& t : r.inputs) {
      set.in.push_back(Allocate(t.bytes()));
      Fill(set.in.back(), t);
    }
    for (size_t o = 0; o < r.outputs.size(); ++o) {
      const int updated = UpdatedInput(*r.def, r.attrs, r.inputs.size(), r.outputs.size(), o);
      const bool reuses = case_.in_place && o < r.def->reuse.size() && r.def->reuse[o] >= 0;
      if (updated >= 0) {
        set.out.push_back(set.in[static_cast<size_t>(updated)]);
      } else if (reuses) {
        set.out.push_back(set.in[static_cast<size_t>(r.def->reuse[o])]);
      } else {
        set.out.push_back(Allocate(r.outputs[o].bytes()));
      }
    }
    return set;
  }

  Slice& slice_;
  Queue& queue_;
  const Patterns& patterns_;
  const Case& case_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::unique_ptr<PreparedOp> op_;
  std::unique_ptr<Event> done_;
  std::vector<Set> sets_;
  BufferRange workspace_;
  size_t next_ = 0;
  double flops_ = 0, bytes_ = 0;
};

constexpr DType kBF16 = DType::kBF16, kF32 = DType::kF32, kI32 = DType::kI32;
constexpr double kGradientBytes = 2, kStateBytes = 4;

void AddNorms(std::vector<Case>& cases, const std::string& norm, int64_t rows, int64_t columns) {
  const bool centred = norm == "layer_norm";
  const TensorType x{kBF16, {rows, columns}}, c{kBF16, {columns}}, row{kF32, {rows}};
  const std::string name = absl::StrCat(norm, " ", rows, "x", columns);
  std::vector<TensorType> forward = {x, c}, input = {x, x, c}, weight = {x, x};
  if (centred) {
    forward.push_back(c);
    input.push_back(row);
    weight.push_back(row);
  }
  input.push_back(row);
  weight.push_back(row);
  cases.push_back({name, norm, forward});
  cases.push_back({name + " grad input", norm + "_grad_input", input});
  cases.push_back({name + " grad weight", norm + "_grad_weight", weight, {{"dtype", kF32}}});
  if (!centred) return;
  cases.push_back({name + " of a sum", "add_layer_norm", {x, x, c, c}});
  cases.push_back(
      {name + " grad, added", "layer_norm_grad", {x, x, c, row, row, x}, {{"dtype", kF32}}});
}

void AddAttention(std::vector<Case>& cases, int64_t batch, int64_t time, int64_t heads,
                  int64_t kv_heads, int64_t width) {
  const TensorType qkv{kBF16, {batch, time, (heads + 2 * kv_heads) * width}};
  const TensorType y{kBF16, {batch, time, heads * width}}, lse{kF32, {batch, heads, time}};
  const Attributes attrs = {{"heads", heads}, {"kv_heads", kv_heads}};
  const std::string name =
      absl::StrCat("attention ", batch, "x", time, " ", heads, "/", kv_heads, " of ", width);
  cases.push_back({name, "attention", {qkv}, attrs});
  cases.push_back({name + " grad", "attention_grad", {y, qkv, y, lse}, attrs});
  cases.push_back({name + " grad, deterministic", "attention_grad", {y, qkv, y, lse}, attrs, true});
}

// The parameters of GPT-2 with 124 million, as its optimizer has them.
std::vector<Shape> Gpt2Parameters() {
  std::vector<Shape> shapes = {{50304, 768}, {1024, 768}};
  for (int layer = 0; layer < 12; ++layer) {
    for (const Shape& s :
         {Shape{768}, Shape{768}, Shape{2304, 768}, Shape{2304}, Shape{768, 768}, Shape{768},
          Shape{768}, Shape{768}, Shape{3072, 768}, Shape{3072}, Shape{768, 3072}, Shape{768}}) {
      shapes.push_back(s);
    }
  }
  shapes.insert(shapes.end(), {Shape{768}, Shape{768}});
  return shapes;
}

// `states`: beside p; each tensor's operands are p, g and these.
void AddOptimizer(std::vector<Case>& cases, const std::string& op, int states, int shared,
                  const Attributes& attrs) {
  Case c{absl::StrCat(op, " of 124M"), op, {}, attrs};
  double elements = 0;
  for (const Shape& s : Gpt2Parameters()) {
    c.inputs.push_back({kF32, s});
    c.inputs.push_back({kBF16, s});
    for (int i = 0; i < states; ++i) c.inputs.push_back({kF32, s});
    elements += static_cast<double>(s.num_elements());
  }
  for (int i = 0; i < shared; ++i) c.inputs.push_back({kF32, {}});
  c.bytes = elements * (kGradientBytes + 2 * kStateBytes * (1 + states));
  cases.push_back(c);
}

void AddLists(std::vector<Case>& cases) {
  AddOptimizer(cases, "adamw", 2, 3, {{"weight_decay", 0.1}});
  AddOptimizer(cases, "sgd", 1, 2, {{"momentum", 0.9}});
  AddOptimizer(cases, "lion", 1, 2, {});
  Case squares{"sum_squares of 124M", "sum_squares"}, sums{"sum_partials of 124M", "sum_partials"};
  for (const Shape& s : Gpt2Parameters()) {
    squares.inputs.push_back({kBF16, s});
    sums.inputs.push_back({kF32, {(s.num_elements() + 65535) / 65536}});
  }
  cases.push_back(squares);
  cases.push_back(sums);
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  AddNorms(cases, "layer_norm", 65536, 768);
  AddNorms(cases, "layer_norm", 16384, 1600);
  AddNorms(cases, "rms_norm", 16384, 2048);
  const TensorType logits{kBF16, {16384, 50304}}, labels{kI32, {16384}}, row{kF32, {16384}};
  cases.push_back({.name = "cross_entropy 16384x50304",
                   .op = "cross_entropy",
                   .inputs = {logits, labels},
                   .labels = 50304});
  cases.push_back({.name = "cross_entropy_grad 16384x50304 in place",
                   .op = "cross_entropy_grad",
                   .inputs = {{kF32, {}}, logits, labels, row},
                   .in_place = true,
                   .labels = 50304});
  cases.push_back({"softmax 65536x1024", "softmax", {{kBF16, {65536, 1024}}}});
  const TensorType ids{kI32, {64, 1024}}, table{kBF16, {50304, 768}}, rows{kBF16, {64, 1024, 768}};
  cases.push_back({.name = "embedding 65536 of 50304x768",
                   .op = "embedding",
                   .inputs = {ids, table},
                   .labels = 50304,
                   .bytes = 2.0 * 65536 * 768 * 2});
  cases.push_back({.name = "embedding_grad into f32",
                   .op = "embedding_grad",
                   .inputs = {rows, ids},
                   .attrs = {{"vocabulary", int64_t{50304}}, {"dtype", kF32}},
                   .labels = 50304});
  cases.push_back({.name = "embedding_grad into f32, 100 ids",
                   .op = "embedding_grad",
                   .inputs = {rows, ids},
                   .attrs = {{"vocabulary", int64_t{50304}}, {"dtype", kF32}},
                   .labels = 100});
  cases.push_back({.name = "embedding_grad added to f32",
                   .op = "embedding_grad",
                   .inputs = {rows, ids},
                   .attrs = {{"vocabulary", int64_t{50304}}, {"dtype", kF32}},
                   .labels = 50304,
                   .accumulate = 1});
  AddAttention(cases, 64, 1024, 12, 12, 64);
  AddAttention(cases, 16, 1024, 25, 25, 64);
  AddAttention(cases, 8, 2048, 32, 4, 64);
  AddAttention(cases, 2, 4096, 32, 32, 128);
  cases.push_back({"rope 8x2048 32/4 of 64",
                   "rope",
                   {{kBF16, {8, 2048, 40 * 64}}},
                   {{"heads", int64_t{32}}, {"kv_heads", int64_t{4}}}});
  cases.push_back({"dropout 65536x768",
                   "dropout",
                   {{kBF16, {65536, 768}}, {DType::kI64, {4}}},
                   {{"p", 0.1}, {"stream", int64_t{7}}}});
  const Attributes pool = {{"kernel", std::vector<int64_t>{3, 3}},
                           {"stride", std::vector<int64_t>{2, 2}},
                           {"padding", std::vector<int64_t>{1, 1, 1, 1}}};
  Attributes pool_grad = pool;
  pool_grad.Set("input_shape", Shape{256, 112, 112, 64});
  const TensorType image{kBF16, {256, 112, 112, 64}}, pooled{kBF16, {256, 56, 56, 64}};
  cases.push_back({"max_pool2d of 112x112x64", "max_pool2d", {image}, pool});
  cases.push_back({"max_pool2d_grad of 112x112x64",
                   "max_pool2d_grad",
                   {pooled, {DType::kU8, {256, 56, 56, 64}}},
                   pool_grad});
  cases.push_back(
      {"avg_pool2d 7x7x2048",
       "avg_pool2d",
       {{kBF16, {256, 7, 7, 2048}}},
       {{"kernel", std::vector<int64_t>{7, 7}}, {"stride", std::vector<int64_t>{7, 7}}}});
  AddLists(cases);
  return cases;
}

struct Settings {
  std::string part, json;
  int rounds = 7;
  double copy = 4.24e12, flops = 7.8e14;
};

nlohmann::json Measure(Slice& slice, Queue& queue, const Patterns& patterns, const Case& c,
                       const Settings& settings) {
  Bench bench(slice, queue, patterns, c);
  // As many as take about 10 ms.
  bench.Run(3);
  double begin = Now();
  bench.Run(5);
  const int n = std::clamp(static_cast<int>(0.01 / ((Now() - begin) / 5)), 3, 2000);
  std::vector<double> seconds;
  for (int round = 0; round < settings.rounds; ++round) {
    begin = Now();
    bench.Run(n);
    seconds.push_back((Now() - begin) / n);
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double floor = std::max(bench.bytes() / settings.copy, bench.flops() / settings.flops);
  std::printf("%-46s %9.1f us %7.2f TB/s %7.1f TFLOP/s  floor %8.1f us  %5.2f of it  %s\n",
              c.name.c_str(), median * 1e6, bench.bytes() / median * 1e-12,
              bench.flops() / median * 1e-12, floor * 1e6, floor / median, bench.implementation());
  std::fflush(stdout);
  return {{"name", c.name},
          {"seconds", median},
          {"floor_seconds", floor},
          {"bytes", bench.bytes()},
          {"flops", bench.flops()},
          {"workspace_bytes", bench.workspace_bytes()},
          {"implementation", bench.implementation()}};
}

int Main(const Settings& settings) {
  std::unique_ptr<Device> device;
  for (const DeviceLeaf& leaf : FindDeviceModules()) {
    if (leaf.name != "cuda") continue;
    device = std::move(Must(leaf.discover())[0]);
  }
  OC_CHECK(device != nullptr, "no module openclaw_cuda.so beside the libraries");
  const auto slice = Must(device->CreateSlice({.threads = device->info().threads}));
  const auto queue = Must(slice->CreateQueue("compute"));
  std::printf("%s; floors at %.2f TB/s and %.0f TFLOP/s\n", slice->kind().c_str(),
              settings.copy * 1e-12, settings.flops * 1e-12);
  const Patterns patterns(*slice, *queue);
  nlohmann::json rows = nlohmann::json::array();
  for (const Case& c : Cases()) {
    if (c.name.find(settings.part) == std::string::npos) continue;
    rows.push_back(Measure(*slice, *queue, patterns, c, settings));
  }
  if (settings.json.empty()) return 0;
  std::ofstream file(settings.json);
  file << nlohmann::json{{"device", slice->kind()}, {"ops", rows}}.dump(1) << "\n";
  if (file.good()) return 0;
  std::fprintf(stderr, "cannot write %s\n", settings.json.c_str());
  return 1;
}

}  // namespace
}  // namespace oc

int main(int argc, char** argv) {
  oc::Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto value = [&](const char* key) -> const char* {
      const std::string prefix = absl::StrCat("--", key, "=");
      return arg.rfind(prefix, 0) == 0 ? argv[i] + prefix.size() : nullptr;
    };
    if (const char* rounds = value("rounds"); rounds != nullptr) {
      settings.rounds = std::max(1, std::atoi(rounds));
    } else if (const char* copy = value("copy"); copy != nullptr) {
      settings.copy = std::atof(copy);
    } else if (const char* flops = value("flops"); flops != nullptr) {
      settings.flops = std::atof(flops);
    } else if (const char* json = value("json"); json != nullptr) {
      settings.json = json;
    } else {
      settings.part = arg;
    }
  }
  return oc::Main(settings);
}

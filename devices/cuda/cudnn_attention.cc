#include "openclaw/devices/cuda/cudnn_attention.h"

#include <limits>

#include "openclaw/devices/cuda/measure.h"

namespace oc::cuda {
namespace {

using kernels::AttentionShape;

constexpr int64_t kWidest = 256;
// From here on the accumulator of queries' gradients need not be cleared, and rows of any number
// are masked right; 9.10.0 and 9.10.1 have a wrong backward.
constexpr int64_t kLeastVersion = 90600, kAnyTimeVersion = 91600;

std::string NameOf(const char* what, const AttentionShape& s) {
  return absl::StrCat(what, " ", static_cast<int>(s.type), " ", s.batch, " ", s.time, " ", s.heads,
                      " ", s.kv_heads, " ", s.width, " ", s.scale, s.causal ? " causal" : "");
}

// Offsets within a row of qkv.
int64_t KeysAt(const AttentionShape& s) { return s.heads * s.width; }
int64_t ValuesAt(const AttentionShape& s) { return (s.heads + s.kv_heads) * s.width; }

// The tensors that both graphs have, and the way to the masked scores.
struct Scores {
  explicit Scores(const AttentionShape& shape, DnnGraph& g)
      : s(shape),
        graph(g),
        type(DnnTypeOf(s.type)),
        row((s.heads + 2 * s.kv_heads) * s.width),
        square({s.batch, s.heads, s.time, s.time}),
        square_strides({s.heads * s.time * s.time, s.time * s.time, s.time, 1}) {}

  // [batch, heads, time, width] within qkv and y; transposed: [.., width, time].
  DnnShape Dims(int64_t heads) const { return {s.batch, heads, s.time, s.width}; }
  DnnShape Strides() const { return {s.time * row, s.width, row, 1}; }
  DnnShape OutputStrides() const {
    return {s.time * s.heads * s.width, s.width, s.heads * s.width, 1};
  }
  DnnTensor Packed(int64_t heads) const { return graph.Memory(Dims(heads), Strides(), type); }
  DnnTensor PackedTransposed(int64_t heads) const {
    return graph.Memory({s.batch, heads, s.width, s.time}, {s.time * row, s.width, 1, row}, type);
  }
  DnnTensor Output() const { return graph.Memory(Dims(s.heads), OutputStrides(), type); }
  // [batch, heads, time, 1], as lse lies.
  DnnTensor RowsInMemory() const { return graph.Memory(RowDims(), RowStrides(), DnnType::kF32); }
  DnnTensor Rows() const { return graph.Virtual(RowDims(), RowStrides(), DnnType::kF32); }
  DnnShape RowDims() const { return {s.batch, s.heads, s.time, 1}; }
  DnnShape RowStrides() const { return {s.heads * s.time, s.time, 1, 1}; }
  DnnTensor Square(DnnType of = DnnType::kF32) const {
    return graph.Virtual(square, square_strides, of);
  }
  // [.., keys, queries], in the type of products' factors.
  DnnTensor SquareTransposed() const {
    return graph.Virtual({s.batch, s.heads, s.time, s.time},
                         {s.heads * s.time * s.time, s.time * s.time, 1, s.time}, type);
  }

  DnnTensor Scaled(DnnTensor q, DnnTensor k_transposed) const {
    const DnnTensor products = Square(), scaled = Square();
    graph.Product(q, k_transposed, products);
    graph.Binary(DnnMode::kMul, products, graph.Scalar(s.scale), scaled);
    return scaled;
  }
  DnnTensor Masked(DnnTensor scores) const {
    if (!s.causal) return scores;
    const DnnTensor query = Square(DnnType::kI32), key = Square(DnnType::kI32);
    const DnnTensor seen = Square(DnnType::kBool), masked = Square();
    graph.Index(scores, 2, query);
    graph.Index(scores, 3, key);
    graph.Binary(DnnMode::kGreaterEqual, query, key, seen, DnnType::kBool);
    graph.Select(scores, graph.Scalar(-std::numeric_limits<float>::infinity()), seen, masked);
    return masked;
  }

  const AttentionShape& s;
  DnnGraph& graph;
  DnnType type;
  int64_t row;
  DnnShape square, square_strides;
};

// Tensors of memory come first in both graphs, in this order.
enum Forward : DnnTensor { kQ, kKeysTransposed, kV, kY, kLse };

void AddForward(DnnGraph& g, const AttentionShape& shape) {
  const Scores scores(shape, g);
  const DnnTensor q = scores.Packed(shape.heads);
  const DnnTensor k = scores.PackedTransposed(shape.kv_heads);
  const DnnTensor v = scores.Packed(shape.kv_heads);
  const DnnTensor y = scores.Output(), lse = scores.RowsInMemory();
  const DnnTensor masked = scores.Masked(scores.Scaled(q, k));
  const DnnTensor largest = scores.Rows(), sum = scores.Rows(), log = scores.Rows();
  const DnnTensor centred = scores.Square(), powers = scores.Square();
  const DnnTensor p = scores.Square(scores.type);
  g.Reduce(DnnReduction::kMax, masked, largest);
  g.Binary(DnnMode::kSub, masked, largest, centred);
  g.Unary(DnnMode::kExp, centred, powers);
  g.Reduce(DnnReduction::kSum, powers, sum);
  g.Unary(DnnMode::kLog, sum, log);
  g.Binary(DnnMode::kAdd, largest, log, lse);
  g.Binary(DnnMode::kDiv, powers, sum, p);
  g.Product(p, v, y);
}

enum Backward : DnnTensor {
  kGradQ,
  kGradKeysTransposed,
  kGradValuesTransposed,
  kGradY,
  kGradDy,
  kGradLse,
  kGradDq,
  kGradDk,
  kGradDv,
  kGradSums,
  kGradAccumulator
};

// A product whose heads are added where several queries' heads read one of keys.
void AddShared(const Scores& scores, DnnTensor a, DnnTensor b, DnnTensor to) {
  const AttentionShape& s = scores.s;
  if (s.heads == s.kv_heads) {
    scores.graph.Product(a, b, to);
    return;
  }
  const DnnTensor of_heads =
      scores.graph.Virtual(scores.Dims(s.heads),
                           {s.heads * s.time * s.width, s.time * s.width, s.width, 1}, scores.type);
  scores.graph.Product(a, b, of_heads);
  scores.graph.Reduce(DnnReduction::kSum, of_heads, to);
}

void AddBackward(DnnGraph& g, const AttentionShape& s) {
  const Scores scores(s, g);
  const DnnTensor q = scores.Packed(s.heads);
  const DnnTensor k = scores.PackedTransposed(s.kv_heads);
  const DnnTensor v = scores.PackedTransposed(s.kv_heads);
  const DnnTensor y = scores.Output(), dy = scores.Output(), lse = scores.RowsInMemory();
  const DnnTensor dq = scores.Packed(s.heads), dk = scores.Packed(s.kv_heads);
  const DnnTensor dv = scores.Packed(s.kv_heads), sums = scores.RowsInMemory();
  const DnnTensor accumulator =
      g.Memory(scores.Dims(s.heads), {s.heads * s.time * s.width, s.time * s.width, s.width, 1},
               DnnType::kF32);
  // sums = the sum over a row of dy * y.
  const DnnTensor products = g.Virtual(
      scores.Dims(s.heads), {s.heads * s.time * s.width, s.time * s.width, s.heads * s.width, 1},
      DnnType::kF32);
  const DnnTensor plain_sums = scores.Rows();
  g.Binary(DnnMode::kMul, dy, y, products);
  g.Reduce(DnnReduction::kSum, products, plain_sums);
  g.Binary(DnnMode::kMul, plain_sums, g.Scalar(1.0f), sums);
  // p = e^(scores - lse), dv = p^T dy.
  const DnnTensor centred = scores.Square(), p = scores.Square();
  g.Binary(DnnMode::kSub, scores.Scaled(q, k), lse, centred);
  g.Unary(DnnMode::kExp, scores.Masked(centred), p);
  const DnnTensor p_transposed = scores.SquareTransposed();
  g.Reshape(p, p_transposed);
  AddShared(scores, p_transposed, dy, dv);
  // ds = scale * p * (dy v^T - sums), dk = ds^T q, dq = ds k.
  const DnnTensor dp = scores.Square(), less = scores.Square(), weighted = scores.Square();
  const DnnTensor ds = scores.Square(), ds_transposed = scores.SquareTransposed();
  g.Product(dy, v, dp);
  g.Binary(DnnMode::kSub, dp, sums, less);
  g.Binary(DnnMode::kMul, less, p, weighted);
  g.Binary(DnnMode::kMul, weighted, g.Scalar(s.scale), ds);
  g.Reshape(ds, ds_transposed);
  AddShared(scores, ds_transposed, q, dk);
  const DnnTensor keys = g.Virtual(scores.Dims(s.kv_heads), scores.Strides(), scores.type);
  g.Reshape(k, keys);
  g.Product(ds, keys, accumulator);
  g.Unary(DnnMode::kIdentity, accumulator, dq);
}

const char* Bytes(const void* p, const AttentionShape& s, int64_t elements) {
  return static_cast<const char*>(p) + elements * kernels::BytesOf(s.type);
}

int64_t Rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Of the backward's workspace: sums of rows, then the accumulator of queries' gradients.
int64_t SumsBytes(const AttentionShape& s) { return Rounded(s.batch * s.heads * s.time * 4); }
int64_t AccumulatorBytes(const AttentionShape& s) {
  return Rounded(s.batch * s.heads * s.time * s.width * 4);
}

// Plans are measured where one takes long enough for it to matter, on operands of its size.
constexpr double kLarge = 1e10;  // operations
constexpr int kCandidates = 6;
constexpr int64_t kMostWorkspace = int64_t{256} << 20;

struct Operands {
  int64_t qkv, y, rows;  // bytes

  explicit Operands(const AttentionShape& s)
      : qkv(s.batch * s.time * (s.heads + 2 * s.kv_heads) * s.width * kernels::BytesOf(s.type)),
        y(s.batch * s.time * s.heads * s.width * kernels::BytesOf(s.type)),
        rows(s.batch * s.heads * s.time * 4) {}
};

bool IsLarge(const AttentionShape& s) {
  const auto scores = static_cast<double>(s.batch * s.heads) * static_cast<double>(s.time * s.time);
  return 4 * scores * static_cast<double>(s.width) > kLarge;
}

// The graph's plan, by `run(plan, memory)` where it is to be measured: memory in parts of `bytes`
// and, last, a workspace of own + kMostWorkspace bytes.
using RunFunction = std::function<Status(const DnnPlan&, const Measure&)>;
Dnn::Made Fastest(DnnGraph& graph, const CudaSlice& slice, std::vector<int64_t> bytes, int64_t own,
                  DType dtype, const RunFunction& run, const std::string& where) {
  DnnGraph::Options options;
  const size_t operands = bytes.size();
  bytes.push_back(own + kMostWorkspace);
  OC_ASSIGN_OR_RETURN(const auto measure, Measure::Create(slice, bytes, where));
  if (measure == nullptr) return graph.Build(options);
  for (size_t i = 0; i < operands; ++i) OC_RETURN_IF_ERROR(measure->Fill(i, dtype));
  options.candidates = kCandidates;
  double best = 0;
  options.measure = [&](const DnnPlan& plan) -> StatusOr<double> {
    if (plan.workspace_bytes() > kMostWorkspace) return -1.0;
    OC_ASSIGN_OR_RETURN(const double seconds,
                        measure->Time([&] { return run(plan, *measure).ok(); }, best));
    if (seconds >= 0 && (best == 0 || seconds < best)) best = seconds;
    return seconds;
  };
  return graph.Build(options);
}

DType DTypeOf(const AttentionShape& s) {
  return s.type == kernels::Type::kBF16 ? DType::kBF16 : DType::kF16;
}

}  // namespace

Status WantDnnAttention(const AttentionShape& s) {
  const bool narrow = s.type == kernels::Type::kBF16 || s.type == kernels::Type::kF16;
  if (!narrow) return Unimplemented("cuDNN's attention is of bf16 and f16");
  if (s.width % 8 != 0 || s.width > kWidest) {
    return Unimplemented("cuDNN's attention has heads of a multiple of 8 elements up to ", kWidest,
                         ", not of ", s.width);
  }
  if (s.time < 2) return Unimplemented("cuDNN's attention wants two positions");
  return OkStatus();
}

StatusOr<DnnAttention> DnnAttention::Create(const CudaSlice& slice, const AttentionShape& s,
                                            bool deterministic, const std::string& where) {
  OC_RETURN_IF_ERROR(WantDnnAttention(s));
  OC_ASSIGN_OR_RETURN(const std::shared_ptr<Dnn> dnn, slice.dnn());
  const auto make = [&]() -> Dnn::Made {
    DnnGraph graph(dnn);
    AddForward(graph, s);
    if (deterministic || !IsLarge(s)) return graph.Build({});
    const Operands operands(s);
    const auto run = [&](const DnnPlan& plan, const Measure& m) {
      return RunPlan(plan, {s, m.memory(0), m.memory(1), static_cast<float*>(m.memory(2))},
                     m.memory(3), m.stream());
    };
    return Fastest(graph, slice, {operands.qkv, operands.y, operands.rows}, 0, DTypeOf(s), run,
                   where);
  };
  DnnAttention attention;
  OC_ASSIGN_OR_RETURN(attention.plan_,
                      dnn->Plan(NameOf(deterministic ? "attention, first" : "attention", s), make));
  return attention;
}

Status DnnAttention::Run(const kernels::Attention& a, void* workspace, cudaStream_t stream) const {
  return RunPlan(*plan_, a, workspace, stream);
}

Status DnnAttention::RunPlan(const DnnPlan& plan, const kernels::Attention& a, void* workspace,
                             cudaStream_t stream) {
  const AttentionShape& s = a.shape;
  const std::pair<DnnTensor, const void*> pointers[] = {
      {kQ, a.qkv},
      {kKeysTransposed, Bytes(a.qkv, s, KeysAt(s))},
      {kV, Bytes(a.qkv, s, ValuesAt(s))},
      {kY, a.y},
      {kLse, a.lse}};
  return plan.Run(stream, pointers, workspace);
}

StatusOr<DnnAttentionGrad> DnnAttentionGrad::Create(const CudaSlice& slice, const AttentionShape& s,
                                                    const std::string& where) {
  OC_RETURN_IF_ERROR(WantDnnAttention(s));
  OC_ASSIGN_OR_RETURN(const std::shared_ptr<Dnn> dnn, slice.dnn());
  const int64_t version = dnn->version();
  if (version < kLeastVersion || (version >= 91000 && version < 91002) ||
      (s.time % 128 != 0 && version < kAnyTimeVersion)) {
    return Unimplemented("cuDNN ", version, " has no backward of attention over ", s.time,
                         " positions");
  }
  DnnAttentionGrad grad;
  grad.own_bytes_ = SumsBytes(s) + AccumulatorBytes(s);
  const auto make = [&]() -> Dnn::Made {
    DnnGraph graph(dnn);
    AddBackward(graph, s);
    if (!IsLarge(s)) return graph.Build({});
    const Operands operands(s);
    const auto run = [&](const DnnPlan& plan, const Measure& m) {
      const kernels::AttentionGrad a{.shape = s,
                                     .dy = m.memory(0),
                                     .qkv = m.memory(1),
                                     .y = m.memory(2),
                                     .lse = static_cast<const float*>(m.memory(3)),
                                     .dqkv = m.memory(4)};
      return RunPlan(plan, a, m.memory(5), m.stream());
    };
    return Fastest(graph, slice,
                   {operands.y, operands.qkv, operands.y, operands.rows, operands.qkv},
                   grad.own_bytes_, DTypeOf(s), run, where);
  };
  OC_ASSIGN_OR_RETURN(grad.plan_, dnn->Plan(NameOf("attention_grad", s), make));
  return grad;
}

int64_t DnnAttentionGrad::workspace_bytes() const { return own_bytes_ + plan_->workspace_bytes(); }

Status DnnAttentionGrad::Run(const kernels::AttentionGrad& a, void* workspace,
                             cudaStream_t stream) const {
  return RunPlan(*plan_, a, workspace, stream);
}

Status DnnAttentionGrad::RunPlan(const DnnPlan& plan, const kernels::AttentionGrad& a,
                                 void* workspace, cudaStream_t stream) {
  const AttentionShape& s = a.shape;
  char* sums = static_cast<char*>(workspace);
  char* accumulator = sums + SumsBytes(s);
  const std::pair<DnnTensor, const void*> pointers[] = {
      {kGradQ, a.qkv},
      {kGradKeysTransposed, Bytes(a.qkv, s, KeysAt(s))},
      {kGradValuesTransposed, Bytes(a.qkv, s, ValuesAt(s))},
      {kGradY, a.y},
      {kGradDy, a.dy},
      {kGradLse, a.lse},
      {kGradDq, a.dqkv},
      {kGradDk, Bytes(a.dqkv, s, KeysAt(s))},
      {kGradDv, Bytes(a.dqkv, s, ValuesAt(s))},
      {kGradSums, sums},
      {kGradAccumulator, accumulator}};
  return plan.Run(stream, pointers, accumulator + AccumulatorBytes(s));
}

}  // namespace oc::cuda

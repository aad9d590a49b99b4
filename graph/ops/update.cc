// What a step's update is made of besides optimizers: accumulate lerp ema, sum_squares
// sum_partials clip_factor. Scalars that change from step to step are inputs.
#include "openclaw/graph/ops/update.h"

#include <cmath>

#include "openclaw/graph/sum_chunks.h"

namespace oc::ops {
namespace {

using Ids = std::vector<int>;
using Types = std::vector<TensorType>;
using Vals = std::vector<Val>;

const TensorType kScalar = {DType::kF32, {}};

int OneOperand(const Attributes&) { return 1; }
int TwoOperands(const Attributes&) { return 2; }

// The operands of tensor t of a list, then what all share.
template <typename T>
std::vector<T> OfTensor(const std::vector<T>& all, const TensorList& list, int t) {
  const auto begin = all.begin() + t * list.operands;
  std::vector<T> one(begin, begin + list.operands);
  one.insert(one.end(), all.end() - list.shared, all.end());
  return one;
}

Status ExpectList(const char* name, const TensorList& list, size_t num_inputs) {
  if (list.whole) return OkStatus();
  return InvalidArgument(num_inputs, " inputs, ", name, " takes ", list.operands,
                         " of each tensor and ", list.shared, " that all share");
}

OpDef StateAndValue(const char* name) {
  OpDef def;
  def.name = name;
  def.min_inputs = def.max_inputs = 2;
  def.updates = {0};
  def.parts = OpDef::Parts::kElements;
  def.infer = [](const InferArgs& args) -> StatusOr<Types> {
    OC_RETURN_IF_ERROR(
        ExpectSameShape(args.inputs[0], args.inputs[1], "the state and what it takes up"));
    return Types{args.inputs[0]};
  };
  return def;
}

StatusOr<Types> InferEma(const InferArgs& args) {
  OC_RETURN_IF_ERROR(ExpectSameShape(args.inputs[0], args.inputs[1], "the average and x"));
  OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[2], "step"));
  return Types{args.inputs[0]};
}

// The first step's x as it is: rate 1 on an average that begins at zero.
Vals DecomposeEma(GraphBuilder& b, const Vals& in, const Attributes& attrs) {
  const Val average = in[0];
  const DType dtype = b.type(average).dtype;
  const double decay = attrs.Double("decay");
  const Val first = b.Cast(b.Op("less", {in[2], Like(b, in[2], 1.5)}), ScalarDType(dtype));
  const Val rate = b.Cast(b.Scale(first, decay, 1 - decay), dtype);
  const Val change = b.Sub(b.Cast(in[1], dtype), average);
  return {b.Add(average, b.Mul(change, rate))};
}

StatusOr<Types> InferSumSquares(const InferArgs& args) {
  OC_RETURN_IF_ERROR(ExpectFloat(args.inputs[0], "x"));
  if (!args.inputs[0].shape.bound()) {
    return InvalidArgument("x is ", args.inputs[0].ToString(), ", wants a bound shape");
  }
  return Types{{DType::kF32, {SumChunks(args.inputs[0].shape)}}};
}

}  // namespace

OpDef MakeListOp(const ListOp& op) {
  OpDef def;
  def.name = op.name;
  def.version = op.version;
  def.lists = OpDef::Lists::kEach;
  def.operands = op.operands;
  def.shared = op.shared;
  def.min_inputs = op.shared + 1;
  def.max_inputs = -1;
  def.updates = op.updates;
  def.parts = op.parts;
  def.attrs = op.attrs;
  // ListOf reads no more than this of a definition.
  const auto list_of = [operands = op.operands, shared = op.shared](const Attributes& attrs,
                                                                    size_t num_inputs) {
    OpDef lists;
    lists.lists = OpDef::Lists::kEach;
    lists.operands = operands;
    lists.shared = shared;
    return ListOf(lists, attrs, num_inputs);
  };
  def.infer = [list_of, infer = op.infer, name = op.name](const InferArgs& a) -> StatusOr<Types> {
    const TensorList list = list_of(a.attrs, a.inputs.size());
    OC_RETURN_IF_ERROR(ExpectList(name, list, a.inputs.size()));
    Types outputs;
    for (int t = 0; t < list.tensors; ++t) {
      OC_ASSIGN_OR_RETURN(const Types one, infer({OfTensor(a.inputs, list, t), a.attrs}));
      outputs.insert(outputs.end(), one.begin(), one.end());
    }
    return outputs;
  };
  def.decompose = [list_of, decompose = op.decompose](GraphBuilder& b, const Ids& in,
                                                      const Attributes& attrs) -> StatusOr<Ids> {
    const TensorList list = list_of(attrs, in.size());
    Ids outputs;
    for (int t = 0; t < list.tensors; ++t) {
      Vals one;
      for (int id : OfTensor(in, list, t)) one.push_back({id});
      for (Val v : decompose(b, one, attrs)) outputs.push_back(v.id);
    }
    return outputs;
  };
  def.cost = [flops = op.flops, list_of](const InferArgs& args, const Types& outputs) {
    const TensorList list = list_of(args.attrs, args.inputs.size());
    double elements = 0;
    for (int t = 0; t < list.tensors; ++t) {
      elements += static_cast<double>(args.inputs[t * list.operands].shape.num_elements());
    }
    return CostWithFlops(flops * elements, args, outputs);
  };
  return def;
}

Status ExpectSameShape(const TensorType& a, const TensorType& b, const char* what) {
  OC_RETURN_IF_ERROR(ExpectFloat(a, what));
  OC_RETURN_IF_ERROR(ExpectFloat(b, what));
  if (a.shape == b.shape) return OkStatus();
  return ExpectSame(a, b, what);
}

Status ExpectScalar(const TensorType& type, const char* what) {
  if (type == kScalar) return OkStatus();
  return InvalidArgument(what, " is ", type.ToString(), ", wants ", kScalar.ToString());
}

Val Like(GraphBuilder& b, Val x, double value) {
  const Val never = b.Op("less", {x, x});
  return b.Scale(b.Cast(never, b.type(x).dtype), 0.0, value);
}

Val Minimum(GraphBuilder& b, Val x, Val y) { return b.Op("where", {b.Op("less", {x, y}), x, y}); }

Val Maximum(GraphBuilder& b, Val x, Val y) {
  return b.Op("where", {b.Op("greater", {x, y}), x, y});
}

Val ClippedGradient(GraphBuilder& b, Val p, Val g, Val clip, const Attributes& attrs) {
  const DType dtype = b.type(p).dtype;
  const Val scaled = b.Mul(b.Cast(g, dtype), b.Cast(clip, dtype));
  if (!attrs.Has("clip_value")) return scaled;
  const double limit = attrs.Double("clip_value");
  return Maximum(b, Like(b, scaled, -limit), Minimum(b, Like(b, scaled, limit), scaled));
}

Val ScaledRate(GraphBuilder& b, Val lr, DType dtype, const Attributes& attrs) {
  const double scale = attrs.Double("lr_scale", 1.0);
  const Val rate = b.Cast(lr, dtype);
  return scale == 1 ? rate : b.Scale(rate, scale);
}

Val Lerp(GraphBuilder& b, Val state, Val x, double rate) {
  return b.Add(state, b.Scale(b.Sub(x, state), rate));
}

DType ScalarDType(DType dtype) { return dtype == DType::kF64 ? dtype : DType::kF32; }

Val Corrected(GraphBuilder& b, Val x, Val step, double beta) {
  const DType dtype = b.type(x).dtype;
  // 1 - e^z = -2 t / (1 - t) with t = tanh(z / 2): no difference that cancels where beta is near 1.
  const Val t = b.Op("tanh", {b.Scale(b.Cast(step, dtype), 0.5 * std::log(beta))});
  return b.Div(x, b.Div(b.Scale(t, -2.0), b.Scale(t, -1.0, 1.0)));
}

Val ChunkSquares(GraphBuilder& b, Val x) {
  const int64_t n = b.shape(x).num_elements(), chunks = SumChunks(n);
  const Val wide = b.Cast(x, DType::kF32);
  Val flat = b.Reshape(b.Mul(wide, wide), {n});
  if (chunks > 1 && n < chunks * kSumChunk) {
    flat = b.Op("pad", {flat},
                {{"axis", int64_t{0}}, {"before", int64_t{0}}, {"after", chunks * kSumChunk - n}});
  }
  const Val rows = b.Reshape(flat, {chunks, chunks == 1 ? n : kSumChunk});
  return b.ReduceSum(rows, {1});
}

OpDef Accumulate() {
  OpDef def = StateAndValue("accumulate");
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes&) -> StatusOr<Ids> {
    return Ids{b.Add({in[0]}, b.Cast({in[1]}, b.type({in[0]}).dtype)).id};
  };
  return def;
}

OpDef Lerp() {
  OpDef def = StateAndValue("lerp");
  def.attrs = {{"rate", 0.1, /*required=*/true}};
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes& attrs) -> StatusOr<Ids> {
    const Val state = {in[0]};
    const Val x = b.Cast({in[1]}, b.type(state).dtype);
    return Ids{Lerp(b, state, x, attrs.Double("rate")).id};
  };
  return def;
}

OpDef Ema() {
  return MakeListOp({.name = "ema",
                     .operands = TwoOperands,
                     .shared = 1,
                     .updates = {0},
                     .flops = 3,
                     .attrs = {{"decay", 0.999, /*required=*/true}},
                     .infer = InferEma,
                     .decompose = DecomposeEma,
                     .parts = OpDef::Parts::kElements});
}

OpDef SumSquares() {
  return MakeListOp({.name = "sum_squares",
                     .version = 2,
                     .operands = OneOperand,
                     .shared = 0,
                     .updates = {},
                     .flops = 2,
                     .attrs = {},
                     .infer = InferSumSquares,
                     .decompose = [](GraphBuilder& b, const Vals& in,
                                     const Attributes&) { return Vals{ChunkSquares(b, in[0])}; },
                     .parts = OpDef::Parts::kChunks});
}

OpDef SumPartials() {
  OpDef def;
  def.name = "sum_partials";
  def.lists = OpDef::Lists::kSum;
  def.operands = OneOperand;
  def.max_inputs = -1;
  def.infer = [](const InferArgs& args) -> StatusOr<Types> {
    for (const TensorType& x : args.inputs) {
      OC_RETURN_IF_ERROR(ExpectRank(x, 1, "partial sums"));
      if (x.dtype != DType::kF32) {
        return InvalidArgument("partial sums are ", x.ToString(), ", wants f32");
      }
    }
    return Types{kScalar};
  };
  def.accumulable = 1;
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes&) -> StatusOr<Ids> {
    Val sum;
    for (int id : in) {
      const Val one = b.ReduceSum({id}, {});
      sum = sum ? b.Add(sum, one) : one;
    }
    return Ids{sum.id};
  };
  return def;
}

OpDef ClipFactor() {
  OpDef def;
  def.name = "clip_factor";
  def.attrs = {{"max_norm", 1.0, /*required=*/true}};
  def.infer = [](const InferArgs& args) -> StatusOr<Types> {
    OC_RETURN_IF_ERROR(ExpectScalar(args.inputs[0], "the sum of squares"));
    if (!(args.attrs.Double("max_norm") > 0)) {
      return InvalidArgument("max_norm is ", args.attrs.Double("max_norm"),
                             ", wants a positive number");
    }
    return Types{kScalar};
  };
  def.decompose = [](GraphBuilder& b, const Ids& in, const Attributes& attrs) -> StatusOr<Ids> {
    if (std::isinf(attrs.Double("max_norm"))) return Ids{Like(b, {in[0]}, 1.0).id};
    const Val norm = b.Scale(b.Op("sqrt", {{in[0]}}), 1.0, 1e-6);
    const Val ratio = b.Scale(b.Op("reciprocal", {norm}), attrs.Double("max_norm"));
    const Val one = b.Scale(ratio, 0.0, 1.0);
    return Ids{Minimum(b, ratio, one).id};
  };
  return def;
}

}  // namespace oc::ops

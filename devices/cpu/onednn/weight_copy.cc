#include "openclaw/devices/cpu/onednn/weight_copy.h"

#include <utility>

#include "openclaw/devices/host/worker_pool.h"

namespace oc::cpu {

using onednn::Call;
using onednn::Context;
using onednn::Dims;
using onednn::Layout;
using onednn::WeightForm;
using Kind = onednn::ConvolutionSpec::Kind;

Dims WeightDims(const ConvGeometry& g) {
  const int64_t kh = g.window.h.kernel, kw = g.window.w.kernel;
  if (g.groups == 1) return {g.out, g.in_group, kh, kw};
  return {g.groups, g.out / g.groups, g.in_group, kh, kw};
}

StatusOr<Layout> PlainWeights(const ConvGeometry& g) {
  const int64_t kh = g.window.h.kernel, kw = g.window.w.kernel;
  const int64_t filter = g.in_group * kh * kw;
  const DType dtype = g.kind == Kind::kGradWeight ? g.sum : g.dtype;
  if (g.groups == 1) {
    return Layout::Strided(dtype, WeightDims(g), {filter, kh * kw, kw, 1});
  }
  return Layout::Strided(dtype, WeightDims(g),
                         {filter * (g.out / g.groups), filter, kh * kw, kw, 1});
}

namespace {

constexpr int64_t kBlock = 16;  // channels
constexpr int64_t kNineTaps = 9;
constexpr int64_t kAlignment = 64;

int64_t Align(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
FloatKind KindOf(DType dtype) { return dtype == DType::kF32 ? kFloat32 : kBFloat16; }

int64_t WidthOf(WeightForm form) {
  return form == WeightForm::kColumns16 ? 16 : form == WeightForm::kColumns32 ? 32 : 64;
}

// The form of `blocked`, where own loops know it.
StatusOr<std::optional<WeightForm>> FormOf(const ConvGeometry& g, const Layout& blocked) {
  const std::optional<WeightForm> none;
  if (ActiveIsa() == Isa::kNone || g.groups != 1 || g.in % kBlock != 0 || g.out % kBlock != 0) {
    return none;
  }
  std::vector<WeightForm> forms = {WeightForm::kColumnBlocks};
  DType dtype = DType::kF32;
  if (g.kind == Kind::kGradWeight) {
    if (g.taps() != 1 && g.taps() != kNineTaps) return none;
  } else {
    dtype = g.dtype;
    forms = {WeightForm::kRowBlocks};
    for (const WeightForm columns :
         {WeightForm::kColumns16, WeightForm::kColumns32, WeightForm::kColumns64}) {
      if (g.out % WidthOf(columns) == 0) forms.push_back(columns);
    }
  }
  for (const WeightForm form : forms) {
    OC_ASSIGN_OR_RETURN(const Layout layout, Layout::Blocked(form, dtype, WeightDims(g)));
    if (layout == blocked) return std::optional<WeightForm>(form);
  }
  return none;
}

}  // namespace

StatusOr<WeightCopy> WeightCopy::Create(const Context& context, const ConvGeometry& g,
                                        const Layout& plain, const Layout& blocked, int threads) {
  WeightCopy copy(g, threads);
  OC_ASSIGN_OR_RETURN(copy.form_, FormOf(g, blocked));
  if (copy.form_.has_value()) return copy;
  // Blocks of the library's forms hold 16 to 64 output channels: a part has to begin with one.
  if (g.groups == 1 && threads > 1) {
    for (const int64_t grain : {64, 48}) {
      if (g.out < grain * threads) continue;
      if (copy.AddParts(context, plain, blocked, grain).ok()) return copy;
      copy.calls_.clear();
    }
  }
  OC_RETURN_IF_ERROR(copy.AddCall(context, plain, blocked));
  return copy;
}

Status WeightCopy::AddParts(const Context& context, const Layout& plain, const Layout& blocked,
                            int64_t grain) {
  for (int worker = 0; worker < threads_; ++worker) {
    const WorkRange r = SplitWork(g_.out, grain, threads_, worker);
    if (r.begin == r.end) break;
    const Dims dims = {r.end - r.begin, g_.in_group, g_.window.h.kernel, g_.window.w.kernel};
    OC_ASSIGN_OR_RETURN(Layout plain_part, plain.Part(dims, {r.begin, 0, 0, 0}));
    OC_ASSIGN_OR_RETURN(Layout blocked_part, blocked.Part(dims, {r.begin, 0, 0, 0}));
    OC_RETURN_IF_ERROR(AddCall(context, plain_part, blocked_part));
  }
  return OkStatus();
}

Status WeightCopy::AddCall(const Context& context, const Layout& plain, const Layout& blocked) {
  auto call = g_.kind == Kind::kGradWeight ? MakeReorder(context, blocked, plain, g_.accumulate)
                                           : MakeReorder(context, plain, blocked);
  OC_RETURN_IF_ERROR(call.status());
  calls_.push_back(std::move(call).value());
  return OkStatus();
}

int64_t WeightCopy::scratch_bytes() const {
  int64_t total = 0;
  for (const auto& call : calls_) total += Align(call->scratch_bytes());
  return total;
}

Status WeightCopy::RunCall(int worker, std::byte* from, std::byte* to, std::byte* scratch) const {
  if (worker >= static_cast<int>(calls_.size())) return OkStatus();
  for (int i = 0; i < worker; ++i) scratch += Align(calls_[i]->scratch_bytes());
  void* operands[] = {from, to};
  return calls_[worker]->Run(operands, scratch);
}

Status WeightCopy::ToBlocked(int worker, const std::byte* plain, std::byte* blocked,
                             std::byte* scratch) const {
  if (!form_.has_value()) {
    // The library's interface knows no constant operands.
    return RunCall(worker, const_cast<std::byte*>(plain), blocked, scratch);
  }
  const WorkRange r = SplitWork(g_.out / kBlock, 1, threads_, worker);
  const FloatKind kind = KindOf(g_.dtype);
  const WeightLoops& loops = GetWeightLoops();
  if (*form_ == WeightForm::kRowBlocks) {
    loops.block[kind](plain, blocked, g_.in, g_.taps(), r.begin, r.end);
  } else {
    loops.columns[kind](plain, blocked, g_.in, g_.taps(), WidthOf(*form_), r.begin, r.end);
  }
  return OkStatus();
}

Status WeightCopy::ToPlain(int worker, const PartialSums& sums, std::byte* plain,
                           std::byte* scratch) const {
  if (!form_.has_value()) {
    auto* const from = reinterpret_cast<std::byte*>(const_cast<float*>(sums.first));
    return RunCall(worker, from, plain, scratch);
  }
  const WorkRange r = SplitWork(g_.out / kBlock, 1, threads_, worker);
  GetWeightLoops().collect[KindOf(g_.sum)](sums, plain, g_.in, g_.taps(), r.begin, r.end,
                                           g_.accumulate);
  return OkStatus();
}

}  // namespace oc::cpu

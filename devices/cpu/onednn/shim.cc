#include "openclaw/devices/cpu/onednn/shim.h"

#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <string>

#include "openclaw/devices/cpu/onednn/openmp_scope.h"

namespace oc::onednn {
namespace {

#define OC_ONEDNN_STRING2(x) #x
#define OC_ONEDNN_STRING(x) OC_ONEDNN_STRING2(x)

// The one place where the library's exceptions and codes become a Status.
Status FromCode(dnnl_status_t code, const char* what) {
  switch (code) {
    case dnnl_success:
      return OkStatus();
    case dnnl_unimplemented:
      return Unimplemented(what, ": oneDNN ", Version(), " lacks it");
    case dnnl_out_of_memory:
      return ResourceExhausted(what, ": oneDNN is out of memory");
    case dnnl_invalid_arguments:
      return InvalidArgument(what, ": oneDNN refuses the arguments");
    default:
      return Internal(what, ": oneDNN status ", static_cast<int>(code));
  }
}

template <typename F>
auto Guarded(const char* what, const F& f) -> decltype(f()) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    Status status = FromCode(e.status, what);
    return status.ok() ? Internal(what, ": ", e.what()) : status;
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(what, ": out of memory");
  }
}

StatusOr<dnnl::memory::data_type> TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return dnnl::memory::data_type::f32;
    case DType::kBF16:
      return dnnl::memory::data_type::bf16;
    case DType::kF16:
      return dnnl::memory::data_type::f16;
    case DType::kI32:
      return dnnl::memory::data_type::s32;
    default:
      return Unimplemented("oneDNN: dtype ", Name(dtype));
  }
}

}  // namespace

struct Context::Impl {
  dnnl::engine engine;
};
struct Layout::Impl {
  dnnl::memory::desc md;
};

namespace {

Layout Wrap(dnnl::memory::desc md) {
  return Layout(std::make_shared<const Layout::Impl>(Layout::Impl{std::move(md)}));
}

struct Operand {
  int role;
  dnnl::memory::desc md;
};

class PrimitiveCall : public Call {
 public:
  PrimitiveCall(const dnnl::engine& engine, dnnl::primitive primitive, std::string info,
                const std::vector<Operand>& operands, const dnnl::memory::desc& scratchpad)
      : stream_(engine),
        primitive_(std::move(primitive)),
        info_(std::move(info)),
        scratch_bytes_(static_cast<int64_t>(scratchpad.get_size())) {
    for (const Operand& operand : operands) {
      layouts_.push_back(Wrap(operand.md));
      Add(engine, operand.role, operand.md);
    }
    if (scratch_bytes_ > 0) Add(engine, DNNL_ARG_SCRATCHPAD, scratchpad);
  }

  int64_t scratch_bytes() const override { return scratch_bytes_; }
  const Layout& layout(int operand) const override { return layouts_[operand]; }
  const char* info() const override { return info_.c_str(); }

  Status Run(void* const* operands, void* scratch) override {
    const size_t count = layouts_.size();
    // Of the smallest products setting what is set already would be a tenth of the time.
    for (size_t i = 0; i < args_.size(); ++i) {
      void* const data = i < count ? operands[i] : scratch;
      if (data_[i] == data) continue;
      OC_RETURN_IF_ERROR(
          FromCode(dnnl_memory_set_data_handle(args_[i].memory, data), "set oneDNN operand"));
      data_[i] = data;
    }
    return FromCode(dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                           static_cast<int>(args_.size()), args_.data()),
                    "run oneDNN primitive");
  }

 private:
  void Add(const dnnl::engine& engine, int role, const dnnl::memory::desc& md) {
    memories_.emplace_back(md, engine, static_cast<void*>(nullptr));  // set by Run
    args_.push_back({role, memories_.back().get()});
    data_.push_back(nullptr);
  }

  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::string info_;
  int64_t scratch_bytes_;
  std::vector<Layout> layouts_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> args_;
  std::vector<void*> data_;  // what the memories stand for
};

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

template <typename Desc>
std::unique_ptr<Call> NewCall(const Context& context, const Desc& desc, dnnl::primitive primitive,
                              const std::vector<Operand>& operands) {
  return std::make_unique<PrimitiveCall>(context.impl().engine, std::move(primitive),
                                         desc.impl_info_str(), operands, desc.scratchpad_desc());
}

void AppendRelu(dnnl::post_ops& ops) {
#if DNNL_VERSION_MAJOR >= 3
  ops.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#else
  ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#endif
}

dnnl::matmul::primitive_desc ProductDesc(const dnnl::engine& engine, const ProductSpec& spec,
                                         const dnnl::primitive_attr& attr) {
  const auto& a = spec.a.impl().md;
  const auto& b = spec.b.impl().md;
  const auto& c = spec.c.impl().md;
#if DNNL_VERSION_MAJOR >= 3
  if (spec.bias.empty()) return {engine, a, b, c, attr};
  return {engine, a, b, spec.bias.impl().md, c, attr};
#else
  if (spec.bias.empty()) return {dnnl::matmul::desc(a, b, c), attr, engine};
  return {dnnl::matmul::desc(a, b, spec.bias.impl().md, c), attr, engine};
#endif
}

// Geometry in the library's terms.
struct Geometry {
  Dims stride, dilation, before, after;
};

dnnl::convolution_forward::primitive_desc ForwardDesc(const dnnl::engine& engine,
                                                      const ConvolutionSpec& spec,
                                                      const Geometry& g,
                                                      const dnnl::primitive_attr& attr) {
  constexpr auto kKind = dnnl::prop_kind::forward_training;
  constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
  const auto& x = spec.x.impl().md;
  const auto& w = (spec.hint_w.empty() ? spec.w : spec.hint_w).impl().md;
  const auto& y = spec.y.impl().md;
  const bool bias = !spec.bias.empty() && spec.kind == ConvolutionSpec::Kind::kForward;
#if DNNL_VERSION_MAJOR >= 3
  if (bias) {
    return {engine, kKind,    kAlgorithm, x,        w,       spec.bias.impl().md,
            y,      g.stride, g.dilation, g.before, g.after, attr};
  }
  return {engine, kKind, kAlgorithm, x, w, y, g.stride, g.dilation, g.before, g.after, attr};
#else
  using Desc = dnnl::convolution_forward::desc;
  if (bias) {
    return {Desc(kKind, kAlgorithm, x, w, spec.bias.impl().md, y, g.stride, g.dilation, g.before,
                 g.after),
            attr, engine};
  }
  return {Desc(kKind, kAlgorithm, x, w, y, g.stride, g.dilation, g.before, g.after), attr, engine};
#endif
}

// Backward descriptors want a forward one as a hint.
template <typename Backward>
typename Backward::primitive_desc BackwardDesc(
    const dnnl::engine& engine, const ConvolutionSpec& spec, const Geometry& g,
    const dnnl::primitive_attr& attr, const dnnl::convolution_forward::primitive_desc& hint) {
  constexpr auto kAlgorithm = dnnl::algorithm::convolution_direct;
  const auto& x = spec.x.impl().md;
  const auto& w = spec.w.impl().md;
  const auto& y = spec.y.impl().md;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kAlgorithm, x, w, y, g.stride, g.dilation, g.before, g.after, hint, attr};
#else
  return {typename Backward::desc(kAlgorithm, x, w, y, g.stride, g.dilation, g.before, g.after),
          attr, engine, hint};
#endif
}

}  // namespace

StatusOr<std::shared_ptr<const Context>> Context::Create() {
  return Guarded("create oneDNN engine", []() -> StatusOr<std::shared_ptr<const Context>> {
    if (dnnl::engine::get_count(dnnl::engine::kind::cpu) == 0) {
      return FailedPrecondition("oneDNN ", Version(), " offers no CPU engine");
    }
    auto impl = std::make_shared<const Impl>(Impl{dnnl::engine(dnnl::engine::kind::cpu, 0)});
    return std::make_shared<const Context>(std::move(impl));
  });
}

StatusOr<Layout> Layout::Strided(DType dtype, const Dims& dims, const Dims& strides) {
  OC_ASSIGN_OR_RETURN(const auto type, TypeOf(dtype));
  return Guarded("describe a tensor", [&]() -> StatusOr<Layout> {
    return Wrap(dnnl::memory::desc(dims, type, strides));
  });
}

StatusOr<Layout> Layout::Blocked(WeightForm form, DType dtype, const Dims& dims) {
  using Tag = dnnl::memory::format_tag;
  OC_ASSIGN_OR_RETURN(const auto type, TypeOf(dtype));
  const bool halves = dtype == DType::kBF16;
  const auto tag = [&] {
    switch (form) {
      case WeightForm::kRowBlocks:
        return halves ? Tag::ABcd8a16b2a : Tag::ABcd16a16b;
      case WeightForm::kColumnBlocks:
        return halves ? Tag::undef : Tag::ABcd16b16a;
      case WeightForm::kColumns16:
        return halves ? Tag::AcdB16a2b : Tag::Acdb16a;
      case WeightForm::kColumns32:
        return halves ? Tag::AcdB32a2b : Tag::Acdb32a;
      case WeightForm::kColumns64:
        return halves ? Tag::AcdB64a2b : Tag::Acdb64a;
    }
    return Tag::undef;
  }();
  return Guarded("describe weights",
                 [&]() -> StatusOr<Layout> { return Wrap(dnnl::memory::desc(dims, type, tag)); });
}

StatusOr<Layout> Layout::Any(DType dtype, const Dims& dims) {
  OC_ASSIGN_OR_RETURN(const auto type, TypeOf(dtype));
  return Guarded("describe a tensor", [&]() -> StatusOr<Layout> {
    return Wrap(dnnl::memory::desc(dims, type, dnnl::memory::format_tag::any));
  });
}

int64_t Layout::bytes() const { return static_cast<int64_t>(impl_->md.get_size()); }

StatusOr<Layout> Layout::Part(const Dims& dims, const Dims& offsets) const {
  return Guarded("describe part of a tensor", [&]() -> StatusOr<Layout> {
    return Wrap(impl_->md.submemory_desc(dims, offsets));
  });
}

bool Layout::operator==(const Layout& other) const {
  if (impl_ == nullptr || other.impl_ == nullptr) return impl_ == other.impl_;
  return impl_->md == other.impl_->md;
}

StatusOr<std::unique_ptr<Call>> MakeProduct(const Context& context, const ProductSpec& spec) {
  OneOpenMpThread one_thread;
  return Guarded("prepare a product", [&]() -> StatusOr<std::unique_ptr<Call>> {
    dnnl::primitive_attr attr = UserScratchpad();
    dnnl::post_ops ops;
    if (spec.accumulate) ops.append_sum(1.0f);
    if (spec.relu) AppendRelu(ops);
    attr.set_post_ops(ops);
    auto desc = ProductDesc(context.impl().engine, spec, attr);
    std::vector<Operand> operands = {{DNNL_ARG_SRC, desc.src_desc()},
                                     {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                                     {DNNL_ARG_DST, desc.dst_desc()}};
    if (!spec.bias.empty()) operands.push_back({DNNL_ARG_BIAS, spec.bias.impl().md});
    return NewCall(context, desc, dnnl::matmul(desc), operands);
  });
}

StatusOr<std::unique_ptr<Call>> MakeConvolution(const Context& context,
                                                const ConvolutionSpec& spec) {
  OneOpenMpThread one_thread;
  return Guarded("prepare a convolution", [&]() -> StatusOr<std::unique_ptr<Call>> {
    const dnnl::engine& engine = context.impl().engine;
    const dnnl::primitive_attr attr = UserScratchpad();
    Geometry g{spec.stride, spec.dilation, spec.pad_before, spec.pad_after};
    for (int64_t& d : g.dilation) --d;  // the library counts the gaps
    auto forward = ForwardDesc(engine, spec, g, attr);
    if (spec.kind == ConvolutionSpec::Kind::kForward) {
      std::vector<Operand> operands = {{DNNL_ARG_SRC, forward.src_desc()},
                                       {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                                       {DNNL_ARG_DST, forward.dst_desc()}};
      if (!spec.bias.empty()) operands.push_back({DNNL_ARG_BIAS, spec.bias.impl().md});
      return NewCall(context, forward, dnnl::convolution_forward(forward), operands);
    }
    if (spec.kind == ConvolutionSpec::Kind::kGradInput) {
      auto desc = BackwardDesc<dnnl::convolution_backward_data>(engine, spec, g, attr, forward);
      return NewCall(context, desc, dnnl::convolution_backward_data(desc),
                     {{DNNL_ARG_DIFF_SRC, desc.diff_src_desc()},
                      {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                      {DNNL_ARG_DIFF_DST, desc.diff_dst_desc()}});
    }
    auto desc = BackwardDesc<dnnl::convolution_backward_weights>(engine, spec, g, attr, forward);
    return NewCall(context, desc, dnnl::convolution_backward_weights(desc),
                   {{DNNL_ARG_SRC, desc.src_desc()},
                    {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()},
                    {DNNL_ARG_DIFF_DST, desc.diff_dst_desc()}});
  });
}

StatusOr<std::unique_ptr<Call>> MakeReorder(const Context& context, const Layout& from,
                                            const Layout& to, bool accumulate) {
  OneOpenMpThread one_thread;
  return Guarded("prepare a reorder", [&]() -> StatusOr<std::unique_ptr<Call>> {
    const dnnl::engine& engine = context.impl().engine;
    dnnl::primitive_attr attr = UserScratchpad();
    if (accumulate) {
      dnnl::post_ops ops;
      ops.append_sum(1.0f);
      attr.set_post_ops(ops);
    }
    dnnl::reorder::primitive_desc desc(engine, from.impl().md, engine, to.impl().md, attr);
    return NewCall(context, desc, dnnl::reorder(desc),
                   {{DNNL_ARG_FROM, from.impl().md}, {DNNL_ARG_TO, to.impl().md}});
  });
}

Status Sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
             int64_t lda, const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  return FromCode(dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1.0f, a,
                             lda, b, ldb, beta, c, ldc),
                  "run oneDNN sgemm");
}

const char* Version() {
  return OC_ONEDNN_STRING(DNNL_VERSION_MAJOR) "." OC_ONEDNN_STRING(
      DNNL_VERSION_MINOR) "." OC_ONEDNN_STRING(DNNL_VERSION_PATCH);
}

}  // namespace oc::onednn

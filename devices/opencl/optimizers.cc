// Optimizers. A list of tensors is one op: its kernels follow each other without the host.
#include <cmath>
#include <limits>

#include "openclaw/devices/opencl/plan.h"
#include "openclaw/graph/sum_chunks.h"

namespace oc::opencl {
namespace {

// One tensor of an op: its operands and outputs count from its own first.
class OneTensor {
 public:
  OneTensor(const OpRequest& r, const TensorList& list, int tensor)
      : r_(r),
        first_in_(tensor * list.operands),
        first_out_(tensor * static_cast<int>(r.outputs.size()) / list.tensors) {}
  Operand In(int i) const { return opencl::In(first_in_ + i); }
  Operand Out(int i) const { return opencl::Out(first_out_ + i); }
  const TensorType& type(int i) const { return r_.inputs[static_cast<size_t>(first_in_ + i)]; }
  int64_t elements() const { return type(0).shape.num_elements(); }

 private:
  const OpRequest& r_;
  int first_in_, first_out_;
};

// The list's tensors, and what they share.
class Tensors {
 public:
  explicit Tensors(const OpRequest& r) : r_(r), list_(ListOf(*r.def, r.attrs, r.inputs.size())) {}
  Operand Shared(int i) const { return opencl::In(list_.tensors * list_.operands + i); }
  std::vector<OneTensor> all() const {
    std::vector<OneTensor> tensors;
    for (int t = 0; t < list_.tensors; ++t) tensors.emplace_back(r_, list_, t);
    return tensors;
  }

 private:
  const OpRequest& r_;
  TensorList list_;
};

double RateScale(const OpRequest& r) { return r.attrs.Double("lr_scale", 1.0); }
double ClipLimit(const OpRequest& r) {
  return r.attrs.Double("clip_value", std::numeric_limits<double>::infinity());
}

// A kernel for the types of a parameter or state (P) and of a gradient (G).
StatusOr<KernelStep*> Update(OpPlan& plan, const char* kernel, const TensorType& state,
                             const TensorType& gradient) {
  OC_ASSIGN_OR_RETURN(const std::string p, TypeName(state.dtype));
  OC_ASSIGN_OR_RETURN(const std::string g, TypeName(gradient.dtype));
  return &plan.Kernel("optimizers", kernel).Define("P", p).Define("G", g);
}

Status Sgd(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const Tensors tensors(r);
  const bool has_buffer = r.attrs.Double("momentum") != 0;
  for (const OneTensor& t : tensors.all()) {
    OC_ASSIGN_OR_RETURN(KernelStep * step, Update(plan, "sgd", t.type(0), t.type(1)));
    step->Add(t.In(0))
        .Add(t.In(1))
        .Add(has_buffer ? t.In(2) : Operand{})
        .Add(tensors.Shared(0))
        .Add(tensors.Shared(1))
        .Add(t.Out(0))
        .Add(has_buffer ? t.Out(1) : Operand{})
        .Int(t.elements())
        .Float(ClipLimit(r))
        .Float(RateScale(r))
        .Float(r.attrs.Double("momentum"))
        .Float(r.attrs.Double("weight_decay"))
        .Int32(r.attrs.Bool("nesterov") ? 1 : 0)
        .Int32(has_buffer ? 1 : 0)
        .Items(t.elements());
  }
  return OkStatus();
}

// 1 - beta^step of both betas.
Operand Corrections(OpPlan& plan, Operand step, double beta1, double beta2) {
  const Operand corrections = plan.Reserve(2);
  plan.Kernel("optimizers", "corrections")
      .Add(step)
      .Add(corrections)
      .Float(std::log(beta1))
      .Float(std::log(beta2))
      .Items(1);
  return corrections;
}

Status AdamWith(const OpRequest& r, OpPlan& plan, bool decoupled) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const Tensors tensors(r);
  const double beta1 = r.attrs.Double("beta1", 0.9), beta2 = r.attrs.Double("beta2", 0.999);
  const double decay = r.attrs.Double("weight_decay");
  const Operand corrections = Corrections(plan, tensors.Shared(1), beta1, beta2);
  for (const OneTensor& t : tensors.all()) {
    OC_ASSIGN_OR_RETURN(KernelStep * step, Update(plan, "adam", t.type(0), t.type(1)));
    for (int i = 0; i < 4; ++i) step->Add(t.In(i));
    step->Add(tensors.Shared(0)).Add(tensors.Shared(2)).Add(corrections);
    for (int i = 0; i < 3; ++i) step->Add(t.Out(i));
    step->Int(t.elements())
        .Float(ClipLimit(r))
        .Float(RateScale(r))
        .Float(beta1)
        .Float(1 - beta1)
        .Float(beta2)
        .Float(1 - beta2)
        .Float(r.attrs.Double("eps", 1e-8))
        .Float(decoupled ? 0 : decay)
        .Float(decoupled ? decay : 0)
        .Items(t.elements());
  }
  return OkStatus();
}
Status Adam(const OpRequest& r, const Limits&, OpPlan& plan) { return AdamWith(r, plan, false); }
Status AdamW(const OpRequest& r, const Limits&, OpPlan& plan) { return AdamWith(r, plan, true); }

Status Lion(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const Tensors tensors(r);
  const double beta1 = r.attrs.Double("beta1", 0.9), beta2 = r.attrs.Double("beta2", 0.99);
  for (const OneTensor& t : tensors.all()) {
    OC_ASSIGN_OR_RETURN(KernelStep * step, Update(plan, "lion", t.type(0), t.type(1)));
    for (int i = 0; i < 3; ++i) step->Add(t.In(i));
    step->Add(tensors.Shared(0))
        .Add(tensors.Shared(1))
        .Add(t.Out(0))
        .Add(t.Out(1))
        .Int(t.elements())
        .Float(ClipLimit(r))
        .Float(RateScale(r))
        .Float(beta1)
        .Float(1 - beta1)
        .Float(beta2)
        .Float(1 - beta2)
        .Float(r.attrs.Double("weight_decay"))
        .Items(t.elements());
  }
  return OkStatus();
}

Status LambMoments(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const Tensors tensors(r);
  const double beta1 = r.attrs.Double("beta1", 0.9), beta2 = r.attrs.Double("beta2", 0.999);
  const Operand corrections = Corrections(plan, tensors.Shared(0), beta1, beta2);
  for (const OneTensor& t : tensors.all()) {
    OC_ASSIGN_OR_RETURN(KernelStep * step, Update(plan, "lamb_moments", t.type(0), t.type(1)));
    for (int i = 0; i < 4; ++i) step->Add(t.In(i));
    step->Add(tensors.Shared(1)).Add(corrections);
    for (int i = 0; i < 4; ++i) step->Add(t.Out(i));
    step->Int(t.elements())
        .Int(kSumChunk)
        .Float(ClipLimit(r))
        .Float(beta1)
        .Float(1 - beta1)
        .Float(beta2)
        .Float(1 - beta2)
        .Float(r.attrs.Double("eps", 1e-6))
        .Float(r.attrs.Double("weight_decay"))
        .Groups(SumChunks(t.elements()), kRow);
  }
  return OkStatus();
}

Status LambStep(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const Tensors tensors(r);
  const double beta1 = r.attrs.Double("beta1", 0.9), beta2 = r.attrs.Double("beta2", 0.999);
  const Operand corrections = Corrections(plan, tensors.Shared(1), beta1, beta2);
  for (const OneTensor& t : tensors.all()) {
    const Operand rate = plan.Reserve(1);
    plan.Kernel("optimizers", "lamb_rate")
        .Add(t.In(3))
        .Add(t.In(4))
        .Add(tensors.Shared(0))
        .Add(rate)
        .Int(t.type(3).shape.num_elements())
        .Float(RateScale(r))
        .Items(1);
    OC_ASSIGN_OR_RETURN(KernelStep * step, Update(plan, "lamb_step", t.type(0), t.type(0)));
    for (int i = 0; i < 3; ++i) step->Add(t.In(i));
    step->Add(corrections)
        .Add(rate)
        .Add(t.Out(0))
        .Int(t.elements())
        .Float(r.attrs.Double("eps", 1e-6))
        .Float(r.attrs.Double("weight_decay"))
        .Items(t.elements());
  }
  return OkStatus();
}

Status MuonMomentum(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const Tensors tensors(r);
  const double momentum = r.attrs.Double("momentum", 0.95);
  for (const OneTensor& t : tensors.all()) {
    OC_ASSIGN_OR_RETURN(KernelStep * step, Update(plan, "muon_momentum", t.type(1), t.type(0)));
    step->Add(t.In(0))
        .Add(t.In(1))
        .Add(tensors.Shared(0))
        .Add(t.Out(0))
        .Add(t.Out(1))
        .Int(t.elements())
        .Float(ClipLimit(r))
        .Float(momentum)
        .Float(1 - momentum)
        .Int32(r.attrs.Bool("nesterov", true) ? 1 : 0)
        .Items(t.elements());
  }
  return OkStatus();
}

Status DecayedStep(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const Tensors tensors(r);
  for (const OneTensor& t : tensors.all()) {
    OC_ASSIGN_OR_RETURN(KernelStep * step, Update(plan, "decayed_step", t.type(0), t.type(1)));
    step->Add(t.In(0))
        .Add(t.In(1))
        .Add(tensors.Shared(0))
        .Add(t.Out(0))
        .Int(t.elements())
        .Float(RateScale(r))
        .Float(r.attrs.Double("factor", 1.0))
        .Float(r.attrs.Double("weight_decay"))
        .Items(t.elements());
  }
  return OkStatus();
}

// One tensor's adafactor. Its second moment is estimated from rows and columns of its matrices, or
// kept whole (`column`).
class AdafactorTensor {
 public:
  AdafactorTensor(const OpRequest& r, const Tensors& tensors, const OneTensor& t, OpPlan& plan)
      : r_(r), tensors_(tensors), t_(t), plan_(plan), n_(t.elements()) {
    if (factored_) {
      columns_ = t.type(0).shape[-1].size();
      rows_ = t.type(0).shape[-2].size();
      matrices_ = n_ / (rows_ * columns_);
    }
  }
  Status Add() {
    OC_ASSIGN_OR_RETURN(gradient_, TypeName(t_.type(1).dtype));
    const int64_t chunks = SumChunks(n_);
    factors_ = plan_.Reserve(4);
    Plain("fresh_factors")
        .Add(Step())
        .Add(factors_)
        .Float(r_.attrs.Double("beta2_decay", -0.8))
        .Items(1);
    if (factored_) {
      AddMeans();
    } else {
      OfGradient("take_up")
          .Add(t_.In(2))
          .Add(t_.In(1))
          .Add(Clip())
          .Add(factors_)
          .Add(t_.Out(1))
          .Int(n_)
          .Float(ClipLimit(r_))
          .Items(n_);
      column_ = t_.Out(1);
    }
    const Operand p_sums = plan_.Reserve(chunks), step_sums = plan_.Reserve(chunks);
    Estimated("squares")
        .Add(p_sums)
        .Add(step_sums)
        .Int(n_)
        .Int(kSumChunk)
        .Int(rows_)
        .Int(columns_)
        .Float(ClipLimit(r_))
        .Float(Least())
        .Groups(chunks, kRow);
    Plain("rates")
        .Add(tensors_.Shared(0))
        .Add(Step())
        .Add(p_sums)
        .Add(step_sums)
        .Add(factors_)
        .Int(chunks)
        .Float(static_cast<double>(n_))
        .Float(RateScale(r_))
        .Float(r_.attrs.Double("eps2", 1e-3))
        .Float(r_.attrs.Double("d", 1.0))
        .Float(r_.attrs.Double("weight_decay"))
        .Items(1);
    Estimated("apply")
        .Add(factors_)
        .Add(t_.Out(0))
        .Int(n_)
        .Int(rows_)
        .Int(columns_)
        .Float(ClipLimit(r_))
        .Float(Least())
        .Items(n_);
    return OkStatus();
  }

 private:
  Operand Step() const { return tensors_.Shared(1); }
  Operand Clip() const { return tensors_.Shared(2); }
  double Eps1() const { return r_.attrs.Double("eps1", 0x1p-23); }
  double Least() const { return Eps1() * Eps1(); }
  KernelStep& Plain(const char* kernel) { return plan_.Kernel("adafactor", kernel); }
  KernelStep& OfGradient(const char* kernel) { return Plain(kernel).Define("G", gradient_); }
  // With p, g, what the estimate is made of, and clip.
  KernelStep& Estimated(const char* kernel) {
    KernelStep& step = OfGradient(kernel);
    if (factored_) step.Define("FACTORED", "");
    return step.Add(t_.In(0)).Add(t_.In(1)).Add(row_).Add(column_).Add(scales_).Add(Clip());
  }
  void AddMeans() {
    row_ = t_.Out(1);
    column_ = t_.Out(2);
    OfGradient("rows")
        .Add(t_.In(1))
        .Add(t_.In(2))
        .Add(Clip())
        .Add(factors_)
        .Add(row_)
        .Int(columns_)
        .Float(ClipLimit(r_))
        .Groups(matrices_ * rows_, kRow);
    constexpr int64_t kBandRows = 128;
    const int64_t bands = (rows_ + kBandRows - 1) / kBandRows;
    const int64_t items = matrices_ * bands * columns_;
    const Operand sums = plan_.Reserve(items);
    OfGradient("column_bands")
        .Add(t_.In(1))
        .Add(Clip())
        .Add(sums)
        .Int(rows_)
        .Int(columns_)
        .Int(kBandRows)
        .Int(bands)
        .Int(items)
        .Float(ClipLimit(r_))
        .Items(items);
    Plain("columns")
        .Add(sums)
        .Add(t_.In(3))
        .Add(factors_)
        .Add(column_)
        .Int(rows_)
        .Int(columns_)
        .Int(bands)
        .Int(matrices_ * columns_)
        .Items(matrices_ * columns_);
    scales_ = plan_.Reserve(matrices_);
    Plain("matrix_scales").Add(row_).Add(scales_).Int(rows_).Float(Eps1()).Groups(matrices_, kRow);
  }

  const OpRequest& r_;
  const Tensors& tensors_;
  const OneTensor& t_;
  OpPlan& plan_;
  const int64_t n_;
  const bool factored_ = r_.attrs.Bool("factored", true);
  int64_t rows_ = 1, columns_ = 1, matrices_ = 1;
  std::string gradient_;
  Operand factors_, row_, column_, scales_;
};

Status Adafactor(const OpRequest& r, const Limits&, OpPlan& plan) {
  OC_RETURN_IF_ERROR(WantFloats(r));
  const Tensors tensors(r);
  const std::vector<OneTensor> all = tensors.all();
  for (const OneTensor& t : all) {
    if (t.type(0).dtype != DType::kF32) {
      return Unimplemented("no kernel of adafactor for ", Name(t.type(0).dtype), "; there is f32");
    }
    if (t.elements() == 0) continue;
    OC_RETURN_IF_ERROR(AdafactorTensor(r, tensors, t, plan).Add());
  }
  return OkStatus();
}

}  // namespace

void RegisterOptimizers(PlanRegistry& registry) {
  registry["sgd"] = {Sgd};
  registry["adam"] = {Adam};
  registry["adamw"] = {AdamW};
  registry["lion"] = {Lion};
  registry["lamb_moments"] = {LambMoments};
  registry["lamb_step"] = {LambStep};
  registry["adafactor"] = {Adafactor};
  registry["muon_momentum"] = {MuonMomentum};
  registry["decayed_step"] = {DecayedStep};
}

}  // namespace oc::opencl

#include <algorithm>
#include <cmath>

#include "openclaw/devices/reference/floats.h"
#include "openclaw/devices/reference/nn.h"
#include "openclaw/graph/ops/heads.h"

namespace oc::reference {
namespace {

template <typename T>
Status Rope(const OpRequest& request, const KernelArgs& args) {
  const ops::HeadLayout layout = *ops::ReadHeads(request.inputs[0], request.attrs);
  const int64_t batch = request.inputs[0].shape[0].size(), time = request.inputs[0].shape[1].size();
  const double base = request.attrs.Double("base", 10000.0);
  const double sign = request.attrs.Bool("inverse", false) ? -1 : 1;
  const int64_t half = layout.width / 2;
  const T* x = args.in<T>(0);
  T* y = args.out<T>(0);
  for (int64_t row = 0; row < batch * time; ++row) {
    const auto t = static_cast<double>(row % time);
    const int64_t first = row * layout.packed();
    for (int64_t head = 0; head < layout.heads + layout.kv_heads; ++head) {
      for (int64_t i = 0; i < half; ++i) {
        const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(layout.width);
        const double angle = sign * t * std::pow(base, exponent);
        const int64_t at = first + head * layout.width + i;
        const double a = Load(x, at), b = Load(x, at + half);
        Store(y, at, a * std::cos(angle) - b * std::sin(angle));
        Store(y, at + half, b * std::cos(angle) + a * std::sin(angle));
      }
    }
    for (int64_t i = layout.Value(0); i < layout.packed(); ++i) y[first + i] = x[first + i];
  }
  return OkStatus();
}

struct Sizes {
  Sizes(const TensorType& qkv, const Attributes& attrs)
      : layout(*ops::ReadHeads(qkv, attrs)),
        batch(qkv.shape[0].size()),
        time(qkv.shape[1].size()),
        scale(ops::AttentionScale(layout, attrs)),
        causal(attrs.Bool("causal", true)) {}

  // Elements of qkv, y and lse.
  int64_t Q(int64_t b, int64_t t, int64_t head) const { return Row(b, t) + layout.Query(head); }
  int64_t K(int64_t b, int64_t t, int64_t head) const {
    return Row(b, t) + layout.Key(layout.KvHead(head));
  }
  int64_t V(int64_t b, int64_t t, int64_t head) const {
    return Row(b, t) + layout.Value(layout.KvHead(head));
  }
  int64_t Y(int64_t b, int64_t t, int64_t head) const {
    return ((b * time + t) * layout.heads + head) * layout.width;
  }
  int64_t Lse(int64_t b, int64_t t, int64_t head) const {
    return (b * layout.heads + head) * time + t;
  }
  // Positions 0..Keys(t)-1 are seen from t.
  int64_t Keys(int64_t t) const { return causal ? t + 1 : time; }

  ops::HeadLayout layout;
  int64_t batch, time;
  double scale;
  bool causal;

 private:
  int64_t Row(int64_t b, int64_t t) const { return (b * time + t) * layout.packed(); }
};

template <typename T>
double Dot(const T* a, const T* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += Load(a, i) * Load(b, i);
  return sum;
}

// A kernel with scratch memory of doubles.
template <typename Derived>
class ScratchKernel : public HostKernel {
 public:
  explicit ScratchKernel(const OpRequest& request) : request_(request) {}
  const char* implementation() const override { return "reference"; }
  int64_t workspace_bytes() const override {
    return static_cast<const Derived*>(this)->ScratchElements() *
           static_cast<int64_t>(sizeof(double));
  }

  static StatusOr<std::unique_ptr<HostKernel>> Create(const OpRequest& request) {
    return std::unique_ptr<HostKernel>(std::make_unique<Derived>(request));
  }

 protected:
  OpRequest request_;
};

template <typename T>
class Attention : public ScratchKernel<Attention<T>> {
 public:
  explicit Attention(const OpRequest& request)
      : ScratchKernel<Attention<T>>(request), s_(request.inputs[0], request.attrs) {}
  int64_t ScratchElements() const { return s_.time; }  // probabilities of one row

  Status Run(const KernelArgs& args) override {
    for (int64_t b = 0; b < s_.batch; ++b) {
      for (int64_t head = 0; head < s_.layout.heads; ++head) {
        for (int64_t t = 0; t < s_.time; ++t) Row(args, b, head, t);
      }
    }
    return OkStatus();
  }

 private:
  void Row(const KernelArgs& args, int64_t b, int64_t head, int64_t t) const {
    const T* qkv = args.in<T>(0);
    auto* p = reinterpret_cast<double*>(args.workspace);
    const int64_t keys = s_.Keys(t);
    double largest = -INFINITY, sum = 0;
    for (int64_t k = 0; k < keys; ++k) {
      p[k] = s_.scale * Dot(qkv + s_.Q(b, t, head), qkv + s_.K(b, k, head), s_.layout.width);
      largest = std::max(largest, p[k]);
    }
    for (int64_t k = 0; k < keys; ++k) sum += std::exp(p[k] - largest);
    const double lse = largest + std::log(sum);
    for (int64_t k = 0; k < keys; ++k) p[k] = std::exp(p[k] - lse);
    for (int64_t d = 0; d < s_.layout.width; ++d) {
      double y = 0;
      for (int64_t k = 0; k < keys; ++k) y += p[k] * Load(qkv, s_.V(b, k, head) + d);
      Store(args.out<T>(0), s_.Y(b, t, head) + d, y);
    }
    Store(args.out<StatisticsOf<T>>(1), s_.Lse(b, t, head), lse);
  }

  Sizes s_;
};

// With p the probabilities and dp = dy . v: ds = p * (dp - sum over keys of p * dp), the gradient
// of the scaled scores. The sum equals dy . y; it is taken from p here, so that rounding of y does
// not enter.
template <typename T>
class AttentionGrad : public ScratchKernel<AttentionGrad<T>> {
 public:
  explicit AttentionGrad(const OpRequest& request)
      : ScratchKernel<AttentionGrad<T>>(request), s_(request.inputs[1], request.attrs) {}
  // p and ds of one batch element: [heads, T, T] each.
  int64_t ScratchElements() const { return 2 * s_.layout.heads * s_.time * s_.time; }

  Status Run(const KernelArgs& args) override {
    for (int64_t b = 0; b < s_.batch; ++b) {
      for (int64_t head = 0; head < s_.layout.heads; ++head) {
        for (int64_t t = 0; t < s_.time; ++t) Scores(args, b, head, t);
      }
      for (int64_t head = 0; head < s_.layout.heads; ++head) Queries(args, b, head);
      for (int64_t head = 0; head < s_.layout.kv_heads; ++head) KeysAndValues(args, b, head);
    }
    return OkStatus();
  }

 private:
  double* P(const KernelArgs& args, int64_t head, int64_t t) const {
    return reinterpret_cast<double*>(args.workspace) + (head * s_.time + t) * s_.time;
  }
  double* Ds(const KernelArgs& args, int64_t head, int64_t t) const {
    return P(args, s_.layout.heads + head, t);
  }

  void Scores(const KernelArgs& args, int64_t b, int64_t head, int64_t t) const {
    const T* dy = args.in<T>(0) + s_.Y(b, t, head);
    const T* qkv = args.in<T>(1);
    const double lse = Load(args.in<StatisticsOf<T>>(3), s_.Lse(b, t, head));
    double* p = P(args, head, t);
    double* ds = Ds(args, head, t);
    const int64_t keys = s_.Keys(t), width = s_.layout.width;
    double delta = 0;
    for (int64_t k = 0; k < keys; ++k) {
      p[k] = std::exp(s_.scale * Dot(qkv + s_.Q(b, t, head), qkv + s_.K(b, k, head), width) - lse);
      ds[k] = Dot(dy, qkv + s_.V(b, k, head), width);
      delta += p[k] * ds[k];
    }
    for (int64_t k = 0; k < keys; ++k) ds[k] = p[k] * (ds[k] - delta);
  }

  void Queries(const KernelArgs& args, int64_t b, int64_t head) const {
    for (int64_t t = 0; t < s_.time; ++t) {
      for (int64_t d = 0; d < s_.layout.width; ++d) {
        double dq = 0;
        for (int64_t k = 0; k < s_.Keys(t); ++k) {
          dq += Ds(args, head, t)[k] * Load(args.in<T>(1), s_.K(b, k, head) + d);
        }
        Store(args.out<T>(0), s_.Q(b, t, head) + d, s_.scale * dq);
      }
    }
  }

  // A key-value head gathers from all query heads that read it.
  void KeysAndValues(const KernelArgs& args, int64_t b, int64_t kv_head) const {
    const int64_t shared = s_.layout.heads / s_.layout.kv_heads;
    const int64_t first = kv_head * shared;
    for (int64_t k = 0; k < s_.time; ++k) {
      for (int64_t d = 0; d < s_.layout.width; ++d) {
        double dk = 0, dv = 0;
        for (int64_t head = first; head < first + shared; ++head) {
          for (int64_t t = s_.causal ? k : 0; t < s_.time; ++t) {
            dk += Ds(args, head, t)[k] * Load(args.in<T>(1), s_.Q(b, t, head) + d);
            dv += P(args, head, t)[k] * Load(args.in<T>(0), s_.Y(b, t, head) + d);
          }
        }
        Store(args.out<T>(0), s_.K(b, k, first) + d, s_.scale * dk);
        Store(args.out<T>(0), s_.V(b, k, first) + d, dv);
      }
    }
  }

  Sizes s_;
};

template <template <typename> class Kernel>
KernelFactory ScratchKernelFor(int operand) {
  return [operand](const OpRequest& request, int) -> StatusOr<std::unique_ptr<HostKernel>> {
    StatusOr<std::unique_ptr<HostKernel>> kernel = Unimplemented("not created");
    OC_RETURN_IF_ERROR(ForFloat(request.inputs[operand].dtype, [&]<typename T>() {
      kernel = Kernel<T>::Create(request);
      return kernel.status();
    }));
    return kernel;
  };
}

}  // namespace

void RegisterAttention(KernelRegistry& registry) {
  registry.Add("rope", FloatKernel([]<typename T>(const OpRequest& r, const KernelArgs& a) {
                 return Rope<T>(r, a);
               }));
  registry.Add("attention", ScratchKernelFor<Attention>(/*operand=*/0));
  registry.Add("attention_grad", ScratchKernelFor<AttentionGrad>(/*operand=*/1));
}

}  // namespace oc::reference

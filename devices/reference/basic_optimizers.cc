// The optimizers' formulas as they stand in optim/NAME.h.
#include <cmath>
#include <limits>
#include <vector>

#include "openclaw/devices/reference/basic.h"
#include "openclaw/devices/reference/tensor_list.h"

namespace oc::reference {
namespace {

double RateScale(const OpRequest& r) { return r.attrs.Double("lr_scale", 1.0); }

// An element of the gradient: scaled by the clip factor, then kept within +-clip_value. What is no
// number stays none.
class Gradient {
 public:
  Gradient(const OpRequest& request, double clip)
      : clip_(clip),
        limit_(request.attrs.Double("clip_value", std::numeric_limits<double>::infinity())) {}
  double operator()(double g) const {
    const double scaled = clip_ * g;
    return scaled > limit_ ? limit_ : scaled < -limit_ ? -limit_ : scaled;
  }

 private:
  double clip_, limit_;
};

template <typename T>
Status Sgd(const OpRequest& r, const KernelArgs& args) {
  const double momentum = r.attrs.Double("momentum"), decay = r.attrs.Double("weight_decay");
  const bool nesterov = r.attrs.Bool("nesterov");
  return ForEachTensor(r, args, [&](const OneTensor& t) {
    const Gradient gradient(r, t.shared(1));
    const double lr = t.shared(0) * RateScale(r);
    for (int64_t i = 0; i < t.elements(); ++i) {
      const double p = Load(t.in<T>(0), i);
      double g = gradient(t.any(1, i)) + decay * p;
      if (momentum != 0) {
        const double buffer = momentum * Load(t.in<T>(2), i) + g;
        g = nesterov ? g + momentum * buffer : buffer;
        Store(t.out<T>(1), i, buffer);
      }
      Store(t.out<T>(0), i, p - lr * g);
    }
  });
}

// How the moments of Adam and LAMB go on, and the step that they want.
struct Moments {
  Moments(const OpRequest& r, double step, double default_eps)
      : beta1(r.attrs.Double("beta1", 0.9)),
        beta2(r.attrs.Double("beta2", 0.999)),
        eps(r.attrs.Double("eps", default_eps)),
        correction1(1 - std::pow(beta1, step)),
        correction2(1 - std::pow(beta2, step)) {}
  double First(double m, double g) const { return beta1 * m + (1 - beta1) * g; }
  double Second(double v, double g) const { return beta2 * v + (1 - beta2) * g * g; }
  double Step(double m, double v) const {
    return m / correction1 / (std::sqrt(v / correction2) + eps);
  }
  double beta1, beta2, eps, correction1, correction2;
};

template <typename T>
Status AdamWith(const OpRequest& r, const KernelArgs& args, bool decoupled) {
  const double decay = r.attrs.Double("weight_decay");
  return ForEachTensor(r, args, [&](const OneTensor& t) {
    const double lr = t.shared(0) * RateScale(r);
    const Moments moments(r, t.shared(1), 1e-8);
    const Gradient gradient(r, t.shared(2));
    for (int64_t i = 0; i < t.elements(); ++i) {
      const double p = Load(t.in<T>(0), i);
      const double g = gradient(t.any(1, i)) + (decoupled ? 0 : decay * p);
      const double m = moments.First(Load(t.in<T>(2), i), g);
      const double v = moments.Second(Load(t.in<T>(3), i), g);
      const double rest = decoupled ? (1 - lr * decay) * p : p;
      Store(t.out<T>(0), i, rest - lr * moments.Step(m, v));
      Store(t.out<T>(1), i, m);
      Store(t.out<T>(2), i, v);
    }
  });
}

template <typename T>
Status Adam(const OpRequest& r, const KernelArgs& args) {
  return AdamWith<T>(r, args, false);
}
template <typename T>
Status AdamW(const OpRequest& r, const KernelArgs& args) {
  return AdamWith<T>(r, args, true);
}

template <typename T>
Status Lion(const OpRequest& r, const KernelArgs& args) {
  const double beta1 = r.attrs.Double("beta1", 0.9), beta2 = r.attrs.Double("beta2", 0.99);
  const double decay = r.attrs.Double("weight_decay");
  return ForEachTensor(r, args, [&](const OneTensor& t) {
    const double lr = t.shared(0) * RateScale(r);
    const Gradient gradient(r, t.shared(1));
    for (int64_t i = 0; i < t.elements(); ++i) {
      const double p = Load(t.in<T>(0), i), m = Load(t.in<T>(2), i);
      const double g = gradient(t.any(1, i));
      const double mixed = beta1 * m + (1 - beta1) * g;
      const double sign = (mixed > 0 ? 1.0 : 0.0) - (mixed < 0 ? 1.0 : 0.0);
      Store(t.out<T>(0), i, (1 - lr * decay) * p - lr * sign);
      Store(t.out<T>(1), i, beta2 * m + (1 - beta2) * g);
    }
  });
}

template <typename T>
Status LambMoments(const OpRequest& r, const KernelArgs& args) {
  const double decay = r.attrs.Double("weight_decay");
  return ForEachTensor(r, args, [&](const OneTensor& t) {
    const Moments moments(r, t.shared(0), 1e-6);
    const Gradient gradient(r, t.shared(1));
    for (int64_t i = 0; i < t.elements(); ++i) {
      const double g = gradient(t.any(1, i));
      Store(t.out<T>(0), i, moments.First(Load(t.in<T>(2), i), g));
      Store(t.out<T>(1), i, moments.Second(Load(t.in<T>(3), i), g));
    }
    // Of the moments as they are kept: lamb_step sees no others.
    StoreChunkSums(t.out<float>(2), t.elements(), [&](int64_t i) {
      const double p = Load(t.in<T>(0), i);
      return p * p;
    });
    StoreChunkSums(t.out<float>(3), t.elements(), [&](int64_t i) {
      const double step =
          moments.Step(Load(t.out<T>(0), i), Load(t.out<T>(1), i)) + decay * Load(t.in<T>(0), i);
      return step * step;
    });
  });
}

template <typename T>
Status LambStep(const OpRequest& r, const KernelArgs& args) {
  const double decay = r.attrs.Double("weight_decay");
  return ForEachTensor(r, args, [&](const OneTensor& t) {
    const Moments moments(r, t.shared(1), 1e-6);
    const double p_squares = TotalOf(t.in<float>(3), t.type(3));
    const double step_squares = TotalOf(t.in<float>(4), t.type(4));
    const bool some = p_squares > 0 && step_squares > 0;
    const double trust = some ? std::sqrt(p_squares / step_squares) : 1;
    const double lr = t.shared(0) * RateScale(r) * trust;
    for (int64_t i = 0; i < t.elements(); ++i) {
      const double p = Load(t.in<T>(0), i);
      const double step = moments.Step(Load(t.in<T>(1), i), Load(t.in<T>(2), i)) + decay * p;
      Store(t.out<T>(0), i, p - lr * step);
    }
  });
}

// The root of the mean square of value(i).
template <typename F>
double RootMeanSquare(int64_t n, const F& value) {
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += value(i) * value(i);
  return std::sqrt(total / static_cast<double>(n));
}

// Tensors of rows and columns, `batch` of them, and their factored second moment.
template <typename T>
class Factors {
 public:
  Factors(const OneTensor& t, double fresh)
      : t_(t),
        rows_(t.type(0).shape[-2].size()),
        columns_(t.type(0).shape[-1].size()),
        fresh_(fresh) {}

  void TakeUp(const std::vector<double>& g) {
    const int64_t batch = Batch();
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t r = 0; r < rows_; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < columns_; ++c) sum += Square(g[(b * rows_ + r) * columns_ + c]);
        Lerp(2, 1, b * rows_ + r, sum / static_cast<double>(columns_));
      }
      for (int64_t c = 0; c < columns_; ++c) {
        double sum = 0;
        for (int64_t r = 0; r < rows_; ++r) sum += Square(g[(b * rows_ + r) * columns_ + c]);
        Lerp(3, 2, b * columns_ + c, sum / static_cast<double>(rows_));
      }
    }
  }
  std::vector<double> Estimate(double eps1) const {
    std::vector<double> estimate;
    for (int64_t b = 0; b < Batch(); ++b) {
      double mean = 0;
      for (int64_t r = 0; r < rows_; ++r) mean += Load(t_.out<T>(1), b * rows_ + r);
      mean = std::max(mean / static_cast<double>(rows_), eps1);
      for (int64_t r = 0; r < rows_; ++r) {
        for (int64_t c = 0; c < columns_; ++c) {
          estimate.push_back(Load(t_.out<T>(1), b * rows_ + r) *
                             Load(t_.out<T>(2), b * columns_ + c) / mean);
        }
      }
    }
    return estimate;
  }

 private:
  int64_t Batch() const { return rows_ * columns_ == 0 ? 0 : t_.elements() / (rows_ * columns_); }
  static double Square(double x) { return x * x; }
  void Lerp(int in, int out, int64_t i, double x) {
    const double state = Load(t_.in<T>(in), i);
    Store(t_.out<T>(out), i, (1 - fresh_) * state + fresh_ * x);
  }

  const OneTensor& t_;
  const int64_t rows_, columns_;
  const double fresh_;
};

template <typename T>
void AdafactorOne(const OpRequest& r, const OneTensor& t, bool factored) {
  const int64_t n = t.elements();
  if (n == 0) return;
  const double lr = t.shared(0) * RateScale(r), step = t.shared(1);
  const double eps1 = r.attrs.Double("eps1", 0x1p-23), eps2 = r.attrs.Double("eps2", 1e-3);
  const double fresh = std::pow(step, r.attrs.Double("beta2_decay", -0.8));
  const double rho = std::min(lr, 1 / std::sqrt(step));
  const Gradient gradient(r, t.shared(2));
  std::vector<double> g;
  for (int64_t i = 0; i < n; ++i) g.push_back(gradient(t.any(1, i)));
  const double size = RootMeanSquare(n, [&](int64_t i) { return Load(t.in<T>(0), i); });
  const double alpha = std::max(eps2, size) * rho;
  std::vector<double> estimate;
  if (factored) {
    Factors<T> factors(t, fresh);
    factors.TakeUp(g);
    estimate = factors.Estimate(eps1);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      const double v = Load(t.in<T>(2), i);
      Store(t.out<T>(1), i, (1 - fresh) * v + fresh * g[i] * g[i]);
      estimate.push_back(Load(t.out<T>(1), i));
    }
  }
  const auto update = [&](int64_t i) {
    return g[i] / std::sqrt(std::max(estimate[i], eps1 * eps1));
  };
  const double damping = std::max(1.0, RootMeanSquare(n, update) / r.attrs.Double("d", 1.0));
  const double keep = 1 - lr * r.attrs.Double("weight_decay");
  for (int64_t i = 0; i < n; ++i) {
    Store(t.out<T>(0), i, keep * Load(t.in<T>(0), i) - alpha / damping * update(i));
  }
}

template <typename T>
Status Adafactor(const OpRequest& r, const KernelArgs& args) {
  const bool factored = r.attrs.Bool("factored", true);
  return ForEachTensor(r, args, [&](const OneTensor& t) { AdafactorOne<T>(r, t, factored); });
}

template <typename T>
Status MuonMomentum(const OpRequest& r, const KernelArgs& args) {
  const double momentum = r.attrs.Double("momentum", 0.95);
  const bool nesterov = r.attrs.Bool("nesterov", true);
  return ForEachTensor(r, args, [&](const OneTensor& t) {
    const Gradient gradient(r, t.shared(0));
    for (int64_t i = 0; i < t.elements(); ++i) {
      const double g = gradient(t.any(0, i)), before = Load(t.in<T>(1), i);
      const double m = before + (1 - momentum) * (g - before);
      Store(t.out<T>(0), i, nesterov ? g + momentum * (m - g) : m);
      Store(t.out<T>(1), i, m);
    }
  });
}

template <typename T>
Status DecayedStep(const OpRequest& r, const KernelArgs& args) {
  const double factor = r.attrs.Double("factor", 1.0), decay = r.attrs.Double("weight_decay");
  return ForEachTensor(r, args, [&](const OneTensor& t) {
    const double lr = t.shared(0) * RateScale(r);
    for (int64_t i = 0; i < t.elements(); ++i) {
      Store(t.out<T>(0), i, (1 - lr * decay) * Load(t.in<T>(0), i) - lr * factor * t.any(1, i));
    }
  });
}

}  // namespace

void RegisterOptimizers(KernelRegistry& registry) {
#define OC_ADD_(op, Function, operand)                                                            \
  registry.Add(op, FloatKernel([]<typename T>(const OpRequest& r,                                 \
                                              const KernelArgs& a) { return Function<T>(r, a); }, \
                               operand))
  OC_ADD_("sgd", Sgd, 0);
  OC_ADD_("adam", Adam, 0);
  OC_ADD_("adamw", AdamW, 0);
  OC_ADD_("lion", Lion, 0);
  OC_ADD_("lamb_moments", LambMoments, 0);
  OC_ADD_("lamb_step", LambStep, 0);
  OC_ADD_("adafactor", Adafactor, 0);
  OC_ADD_("muon_momentum", MuonMomentum, 1);
  OC_ADD_("decayed_step", DecayedStep, 0);
#undef OC_ADD_
}

}  // namespace oc::reference

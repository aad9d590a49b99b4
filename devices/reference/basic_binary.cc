#include "openclaw/devices/reference/basic.h"
#include "openclaw/devices/reference/dispatch.h"

namespace oc::reference {

void RegisterBasic(KernelRegistry& registry) {
  RegisterBinary(registry);
  RegisterUnary(registry);
  RegisterMovement(registry);
  RegisterReduce(registry);
  RegisterProduct(registry);
  RegisterSoftmax(registry);
  RegisterUpdate(registry);
  RegisterOptimizers(registry);
  RegisterDropout(registry);
}

namespace {

// b repeats where it is a suffix of a.
template <typename F>
Status Arithmetic(const OpRequest& request, const KernelArgs& args, F f) {
  return ForNumber(request.inputs[0].dtype, [&]<typename T>() {
    const int64_t n = request.inputs[0].shape.num_elements();
    const int64_t period = request.inputs[1].shape.num_elements();
    for (int64_t i = 0; i < n; ++i) {
      const WideOf<T> a = LoadWide(args.in<T>(0), i), b = LoadWide(args.in<T>(1), i % period);
      StoreWide(args.out<T>(0), i, f(a, b));
    }
    return OkStatus();
  });
}

template <typename F>
Status Comparison(const OpRequest& request, const KernelArgs& args, F f) {
  return ForAny(request.inputs[0].dtype, [&]<typename T>() {
    const int64_t n = request.inputs[0].shape.num_elements();
    const int64_t period = request.inputs[1].shape.num_elements();
    for (int64_t i = 0; i < n; ++i) {
      args.out<bool>(0)[i] = f(LoadWide(args.in<T>(0), i), LoadWide(args.in<T>(1), i % period));
    }
    return OkStatus();
  });
}

Status Where(const OpRequest& request, const KernelArgs& args) {
  return ForAny(request.inputs[1].dtype, [&]<typename T>() {
    const int64_t n = request.outputs[0].shape.num_elements();
    for (int64_t i = 0; i < n; ++i) {
      args.out<T>(0)[i] = args.in<bool>(0)[i] ? args.in<T>(1)[i] : args.in<T>(2)[i];
    }
    return OkStatus();
  });
}

template <typename F>
void AddArithmetic(KernelRegistry& registry, const char* op, F) {
  registry.Add(op, StatelessKernel([](const OpRequest& r,
                                      const KernelArgs& a) { return Arithmetic(r, a, F{}); },
                                   "reference"));
}

template <typename F>
void AddComparison(KernelRegistry& registry, const char* op, F) {
  registry.Add(op, StatelessKernel([](const OpRequest& r,
                                      const KernelArgs& a) { return Comparison(r, a, F{}); },
                                   "reference"));
}

}  // namespace

void RegisterBinary(KernelRegistry& registry) {
  AddArithmetic(registry, "add", [](auto a, auto b) { return a + b; });
  AddArithmetic(registry, "sub", [](auto a, auto b) { return a - b; });
  AddArithmetic(registry, "mul", [](auto a, auto b) { return a * b; });
  AddArithmetic(registry, "div", [](auto a, auto b) { return a / b; });
  AddComparison(registry, "equal", [](auto a, auto b) { return a == b; });
  AddComparison(registry, "less", [](auto a, auto b) { return a < b; });
  AddComparison(registry, "greater", [](auto a, auto b) { return a > b; });
  registry.Add("where", StatelessKernel(Where, "reference"));
}

}  // namespace oc::reference

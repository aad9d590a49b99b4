// matmul, linear and linear's gradients.
#include <utility>

#include "openclaw/devices/cpu/onednn/onednn.h"
#include "openclaw/devices/cpu/onednn/split_product.h"
#include "openclaw/devices/cpu/widened.h"

namespace oc::cpu {
namespace {

using onednn::Context;
using onednn::Product;
using onednn::SplitProduct;

// `a` and `b` say which inputs of the op the product's operands are.
class ProductKernel : public HostKernel {
 public:
  ProductKernel(std::unique_ptr<SplitProduct> product, int a, int b, int bias)
      : product_(std::move(product)), a_(a), b_(b), bias_(bias) {}
  const char* implementation() const override { return product_->implementation(); }
  int64_t workspace_bytes() const override { return product_->workspace_bytes(); }
  Status Run(const KernelArgs& args) override {
    return product_->Run(args.pool, args.inputs[a_], args.inputs[b_],
                         bias_ < 0 ? nullptr : args.inputs[bias_], args.outputs[0], args.workspace);
  }

 private:
  std::unique_ptr<SplitProduct> product_;
  int a_, b_, bias_;
};

StatusOr<std::unique_ptr<HostKernel>> NewKernel(const Context& context, const Product& product,
                                                int threads, int a, int b, int bias = -1) {
  if ((product.dtype != DType::kF32 && product.dtype != DType::kBF16) ||
      (product.sum_type() != product.dtype && product.sum_type() != DType::kF32)) {
    return Unimplemented("oneDNN products are of f32 and bf16, not of ", Name(product.dtype),
                         " into ", Name(product.sum_type()));
  }
  OC_ASSIGN_OR_RETURN(auto split, SplitProduct::Create(context, product, threads));
  return std::unique_ptr<HostKernel>(std::make_unique<ProductKernel>(std::move(split), a, b, bias));
}

// All dimensions but the last `trailing`.
int64_t Leading(const Shape& shape, int trailing) {
  int64_t n = 1;
  for (int i = 0; i < shape.rank() - trailing; ++i) n *= shape[i].size();
  return n;
}

StatusOr<std::unique_ptr<HostKernel>> Matmul(const Context& context, const OpRequest& request,
                                             int threads) {
  const Shape& a = request.inputs[0].shape;
  const Shape& b = request.inputs[1].shape;
  const Shape& y = request.outputs[0].shape;
  Product p;
  p.dtype = request.inputs[0].dtype;
  p.sum = request.outputs[0].dtype;
  p.transpose_a = request.attrs.Bool("transpose_a");
  p.transpose_b = request.attrs.Bool("transpose_b");
  p.batch = Leading(y, 2);
  p.m = y[-2].size();
  p.n = y[-1].size();
  p.k = a[p.transpose_a ? -2 : -1].size();
  p.share_a = a.rank() == 2;
  p.share_b = b.rank() == 2;
  if (p.share_b && !p.transpose_a && !p.share_a) {  // one product with all the rows
    p.m *= p.batch;
    p.batch = 1;
  }
  return NewKernel(context, p, threads, 0, 1);
}

StatusOr<std::unique_ptr<HostKernel>> Linear(const Context& context, const OpRequest& request,
                                             int threads) {
  const Shape& x = request.inputs[0].shape;
  Product p;
  p.dtype = request.inputs[0].dtype;
  p.sum = request.outputs[0].dtype;
  p.m = Leading(x, 1);
  p.n = request.inputs[1].shape[0].size();
  p.k = x[-1].size();
  p.transpose_b = true;
  p.bias = request.inputs.size() > 2;
  p.relu = request.attrs.String("activation", "none") == "relu";
  return NewKernel(context, p, threads, 0, 1, p.bias ? 2 : -1);
}

StatusOr<std::unique_ptr<HostKernel>> LinearGradInput(const Context& context,
                                                      const OpRequest& request, int threads) {
  const Shape& dy = request.inputs[0].shape;
  Product p;
  p.dtype = request.inputs[0].dtype;
  p.sum = request.outputs[0].dtype;
  p.m = Leading(dy, 1);
  p.n = request.inputs[1].shape[1].size();
  p.k = dy[-1].size();
  return NewKernel(context, p, threads, 0, 1);
}

StatusOr<std::unique_ptr<HostKernel>> LinearGradWeight(const Context& context,
                                                       const OpRequest& request, int threads) {
  const Shape& dy = request.inputs[0].shape;
  const Shape& x = request.inputs[1].shape;
  Product p;
  p.dtype = request.inputs[0].dtype;
  p.sum = request.outputs[0].dtype;
  p.m = dy[-1].size();
  p.n = x[-1].size();
  p.k = Leading(dy, 1);
  p.transpose_a = true;
  p.accumulate = (request.accumulate & 1) != 0;
  return NewKernel(context, p, threads, 0, 1);
}

}  // namespace

void RegisterOneDnnProducts(KernelRegistry& registry,
                            std::shared_ptr<const onednn::Context> context) {
  using Factory = StatusOr<std::unique_ptr<HostKernel>> (*)(const Context&, const OpRequest&, int);
  const auto add = [&](const char* op, Factory factory, uint32_t accumulable = 0) {
    registry.Add(op, WithF16([context, factory](const OpRequest& request, int threads) {
                   return factory(*context, request, threads);
                 }),
                 accumulable, /*sum_types=*/true);
  };
  add("matmul", Matmul);
  add("linear", Linear);
  add("linear_grad_input", LinearGradInput);
  add("linear_grad_weight", LinearGradWeight, 1);
}

}  // namespace oc::cpu

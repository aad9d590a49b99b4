// Products and convolutions in the sizes where the cpu leaf takes another way than for small ones
// (columns or rows split, patches as rows of a product), against the reference kernels.
#include <gtest/gtest.h>

#include <cmath>

#include "openclaw/core/rng.h"
#include "openclaw/devices/cpu/kernels.h"
#include "openclaw/devices/reference/reference.h"
#include "openclaw/graph/op.h"

namespace oc {
namespace {

Tensor Random(const TensorType& type, uint64_t stream) {
  Tensor t(type);
  const Philox rng(3);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    t.set(i, 2.0 * UniformFloat(rng.Word(stream, static_cast<uint64_t>(i))) - 1.0);
  }
  return t;
}

struct Case {
  std::string op;
  std::vector<TensorType> inputs;
  Attributes attrs;
  uint32_t accumulate = 0;
};

StatusOr<Tensor> Compute(const KernelRegistry& registry, const Case& c, int threads) {
  const std::shared_ptr<const OpRegistry> ops = BuiltinOps();
  OpRequest request;
  request.def = ops->Find(c.op);
  request.attrs = c.attrs;
  request.inputs = c.inputs;
  request.accumulate = c.accumulate;
  OC_ASSIGN_OR_RETURN(request.outputs, request.def->infer({request.inputs, request.attrs}));
  OC_ASSIGN_OR_RETURN(auto kernel, registry.Find(c.op)->create(request, threads));
  std::vector<Tensor> inputs;
  std::vector<const std::byte*> in;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(Random(c.inputs[i], i));
    in.push_back(inputs.back().bytes().data());
  }
  Tensor output = Random(request.outputs[0], 99);  // what is not overwritten shows
  // A workspace of just the bytes asked for, full of what no sum survives.
  Tensor workspace({DType::kU8, {std::max<int64_t>(1, kernel->workspace_bytes())}});
  std::fill(workspace.bytes().begin(), workspace.bytes().end(), std::byte{0xff});
  std::byte* out[] = {output.bytes().data()};
  WorkerPool pool(threads, {});
  pool.BindCaller();
  OC_RETURN_IF_ERROR(kernel->Run({in.data(), out, workspace.bytes().data(), pool}));
  return output;
}

void ExpectAsReference(const Case& c) {
  KernelRegistry cpu;
  ASSERT_TRUE(cpu::RegisterOneDnn(cpu).ok());
  const auto expected = Compute(*ReferenceKernels(), c, 1);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const int threads : {1, 2, 3}) {
    SCOPED_TRACE(absl::StrCat(c.op, " ", c.inputs[0].ToString(), " ", c.inputs[1].ToString(), " ",
                              c.attrs.ToString(), ", threads ", threads));
    const auto actual = Compute(cpu, c, threads);
    if (absl::IsUnimplemented(actual.status())) continue;  // bf16 on an old processor
    ASSERT_TRUE(actual.ok()) << actual.status();
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < expected->num_elements(); ++i) {
      difference += std::pow(expected->at(i) - actual->at(i), 2);
      norm += std::pow(expected->at(i), 2);
    }
    const double tolerance = c.inputs[0].dtype == DType::kF32 ? 1e-6 : 8e-3;
    EXPECT_LE(std::sqrt(difference / norm), tolerance);
  }
}

void ExpectLinear(DType type, int64_t rows, int64_t in, int64_t out) {
  const TensorType x{type, {rows, in}}, w{type, {out, in}}, dy{type, {rows, out}};
  ExpectAsReference({"linear", {x, w}, {}});
  ExpectAsReference({"linear", {x, w, {type, {out}}}, {{"activation", std::string("relu")}}});
  ExpectAsReference({"linear_grad_input", {dy, w}, {}});
  ExpectAsReference({"linear_grad_weight", {dy, x}, {}});
  ExpectAsReference({"linear_grad_weight", {dy, x}, {}, 1});
}

TEST(OneDnn, LinearSplitByColumnsAndByRows) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    ExpectLinear(type, 24, 40, 650);
    ExpectLinear(type, 200, 33, 20);
    ExpectLinear(type, 130, 600, 10);
    // Columns split, with more of them than are computed at once, and a rest.
    ExpectLinear(type, 200, 300, 2200);
    ExpectLinear(type, 1100, 40, 1200);  // and rows of the weights' gradient
    ExpectLinear(type, 300, 60, 1024);   // whose lines lie 4 KiB apart
    ExpectLinear(type, 60, 300, 520);    // of short sums
  }
}

// Tiles of own loops with and without rests of rows, columns and depth, and sums over more than one
// panel.
TEST(OneDnn, SmallLinear) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    ExpectLinear(type, 64, 84, 10);
    ExpectLinear(type, 9, 33, 50);
    ExpectLinear(type, 3, 5, 7);
    ExpectLinear(type, 10, 17, 16);
    ExpectLinear(type, 16, 600, 20);
    ExpectLinear(type, 1, 300, 129);
    // Few columns: sums along the depth.
    ExpectLinear(type, 7, 518, 10);
    ExpectLinear(type, 8, 640, 1);
    ExpectLinear(type, 5, 1200, 3);
  }
}

void ExpectStacks(DType type, int64_t stack, int64_t m, int64_t n, int64_t k) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const Shape a = ta ? Shape{stack, k, m} : Shape{stack, m, k};
      const Shape b = tb ? Shape{stack, n, k} : Shape{stack, k, n};
      const Attributes attrs = {{"transpose_a", ta}, {"transpose_b", tb}};
      ExpectAsReference({"matmul", {{type, a}, {type, b}}, attrs});
      ExpectAsReference({"matmul", {{type, {a[1], a[2]}}, {type, b}}, attrs});
      ExpectAsReference({"matmul", {{type, a}, {type, {b[1], b[2]}}}, attrs});
    }
  }
}

TEST(OneDnn, StacksOfProducts) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    ExpectStacks(type, 4, 40, 56, 24);
    ExpectStacks(type, 2, 90, 70, 60);  // beyond own loops; with three workers not split by stack
    ExpectStacks(type, 1, 60, 200, 70);
  }
}

struct Conv {
  int64_t batch, height, width, in, out, kernel, stride, dilation;
  std::vector<int64_t> padding;
  int64_t groups = 1;
};

void ExpectConvolution(DType type, const Conv& c) {
  const int64_t span = c.dilation * (c.kernel - 1) + 1;
  const int64_t h = (c.height + c.padding[0] + c.padding[2] - span) / c.stride + 1;
  const int64_t w = (c.width + c.padding[1] + c.padding[3] - span) / c.stride + 1;
  const TensorType x{type, {c.batch, c.height, c.width, c.in}};
  const TensorType weight{type, {c.out, c.in / c.groups, c.kernel, c.kernel}};
  const TensorType y{type, {c.batch, h, w, c.out}};
  const Attributes attrs = {{"stride", std::vector<int64_t>{c.stride, c.stride}},
                            {"dilation", std::vector<int64_t>{c.dilation, c.dilation}},
                            {"padding", c.padding},
                            {"groups", c.groups}};
  ExpectAsReference({"conv2d", {x, weight}, attrs});
  ExpectAsReference({"conv2d", {x, weight, {type, {c.out}}}, attrs});
  Attributes grad = attrs;
  grad.Set("input_shape", x.shape);
  ExpectAsReference({"conv2d_grad_input", {y, weight}, grad});
  grad = attrs;
  grad.Set("weight_shape", weight.shape);
  ExpectAsReference({"conv2d_grad_weight", {y, x}, grad});
  ExpectAsReference({"conv2d_grad_weight", {y, x}, grad, 1});
}

TEST(OneDnn, Convolutions) {
  const std::vector<int64_t> same = {1, 1, 1, 1}, none = {0, 0, 0, 0};
  const std::vector<Conv> cases = {
      {3, 5, 6, 40, 33, 3, 1, 1, same},  // small images, stride 1
      {2, 9, 7, 32, 48, 3, 2, 1, same},  // strided
      {3, 6, 6, 48, 32, 1, 1, 1, none},  // a product as it lies
      {3, 7, 7, 32, 40, 1, 2, 1, none},  // one tap, strided: few channels, and many
      {3, 7, 8, 128, 40, 1, 2, 1, none},
      {2, 11, 12, 144, 160, 3, 1, 1, same},      // weights in blocks of 16 by 16
      {2, 9, 8, 32, 32, 3, 1, 2, {2, 2, 2, 2}},  // dilated
      {2, 7, 9, 32, 32, 3, 2, 2, {3, 0, 1, 2}},  // all at once, unlike padding
      {2, 5, 5, 32, 32, 2, 1, 1, {1, 1, 0, 0}},  // an even kernel
      {2, 4, 4, 32, 32, 3, 1, 1, {3, 3, 3, 3}},  // padding beyond the kernel's reach
      {3, 4, 4, 192, 64, 3, 1, 1, same},         // one product a tap
      {2, 5, 7, 136, 72, 3, 2, 1, {2, 0, 1, 2}},
      {2, 2, 4, 128, 64, 3, 1, 2, {2, 2, 2, 2}},  // taps that no pixel has
      {1, 6, 6, 32, 32, 3, 1, 1, same},           // fewer images than workers
      {4, 12, 12, 3, 64, 3, 1, 1, same},          // few channels in
      {3, 12, 12, 130, 129, 3, 1, 1, same},       // weights copied in parts
      {5, 8, 8, 70, 40, 3, 2, 1, same},           // gradients of images folded: small and strided
      {33, 7, 8, 66, 24, 3, 2, 1, same},          // in pieces of images and channels
      {3, 7, 7, 64, 32, 3, 2, 2, {2, 1, 1, 2}},   // dilated, unlike padding
      {2, 3, 3, 256, 512, 3, 1, 1, same},         // many channels
      {3, 7, 7, 128, 256, 3, 1, 1, same},         // bf16's
      {2, 8, 8, 130, 260, 3, 2, 1, same},
      {2, 8, 8, 16, 24, 3, 1, 1, same, 4},           // groups
      {2, 8, 8, 16, 16, 3, 2, 1, {0, 1, 1, 0}, 16},  // one channel a group
  };
  for (const Conv& c : cases) {
    for (const DType type : {DType::kF32, DType::kBF16}) ExpectConvolution(type, c);
  }
}

}  // namespace
}  // namespace oc

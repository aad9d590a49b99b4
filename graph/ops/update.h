// What the ops of a step's update share: ops that take lists of tensors, and pieces of their
// decompositions.
#pragma once

#include "openclaw/graph/ops/ops.h"

namespace oc::ops {

// The rule and the decomposition of an op that takes lists, for one tensor: its operands, then what
// all share.
using InferOne = StatusOr<std::vector<TensorType>> (*)(const InferArgs& args);
using DecomposeOne = std::vector<Val> (*)(GraphBuilder& b, const std::vector<Val>& in,
                                          const Attributes& attrs);

struct ListOp {
  const char* name;
  int version = 1;
  int (*operands)(const Attributes& attrs);
  int shared;
  std::vector<int> updates;  // OpDef::updates
  double flops;              // an element of the first operand
  std::vector<AttrSpec> attrs;
  InferOne infer;
  DecomposeOne decompose;
  OpDef::Parts parts = OpDef::Parts::kWhole;
};
// With OpDef::Lists::kEach.
OpDef MakeListOp(const ListOp& op);

// Settings of every optimizer: the group's factor of the learning rate, and the largest magnitude
// of a gradient's element once the norm is clipped (inf: any).
inline const AttrSpec kLrScale = {"lr_scale", 1.0};
inline const AttrSpec kClipValue = {"clip_value", 1.0};

// A float tensor of the same shape, of any float dtype: gradients may be narrower than what they
// change.
Status ExpectSameShape(const TensorType& a, const TensorType& b, const char* what);
// f32[], as what changes from step to step is.
Status ExpectScalar(const TensorType& type, const char* what);

// `value` everywhere, in the type of x.
Val Like(GraphBuilder& b, Val x, double value);
Val Minimum(GraphBuilder& b, Val x, Val y);  // y where x is no number
Val Maximum(GraphBuilder& b, Val x, Val y);
// g times clip, within +-clip_value, in p's dtype.
Val ClippedGradient(GraphBuilder& b, Val p, Val g, Val clip, const Attributes& attrs);
// The scalar in the dtype, times lr_scale.
Val ScaledRate(GraphBuilder& b, Val lr, DType dtype, const Attributes& attrs);
// state + rate (x - state).
Val Lerp(GraphBuilder& b, Val state, Val x, double rate);
// f64 for what is f64, else f32: of scalars, whose error all elements share.
DType ScalarDType(DType dtype);
// x / (1 - beta^step).
Val Corrected(GraphBuilder& b, Val x, Val step, double beta);
// The sums of squares of x's chunks (graph/sum_chunks.h), f32.
Val ChunkSquares(GraphBuilder& b, Val x);

}  // namespace oc::ops

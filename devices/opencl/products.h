// What products share with convolutions.
#pragma once

#include "openclaw/devices/opencl/plan.h"

namespace oc::opencl {

// Products are of floats. Narrow operands are widened before, and results narrowed after, in the
// workspace: sums of halves in half would be worth little, whatever the device has.

// The operand's n elements as floats: itself where it is f32.
Operand AsFloats(OpPlan& plan, const TensorType& type, Operand operand);
// Where the product of output 0 goes.
Operand ProductOf(OpPlan& plan, const OpRequest& r);
// What Product's beta is where output 0 is added to.
float BetaOf(const OpRequest& r);
// y = activation(c + bias), output 0 of the plan from ProductOf's c; `bias` may be none. Nothing
// where there is nothing to do.
void AddFinish(OpPlan& plan, const OpRequest& r, Operand c, int64_t columns, Operand bias,
               bool relu);

// `count` floats further.
inline Operand Further(Operand operand, int64_t count) {
  operand.offset += count * static_cast<int64_t>(sizeof(float));
  return operand;
}

}  // namespace oc::opencl

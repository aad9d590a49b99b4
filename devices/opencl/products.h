// What products share with convolutions.
#pragma once

#include "openclaw/devices/opencl/plan.h"

namespace oc::opencl {

// y[rows, columns] = activation(y + bias), in place; nothing where there is neither.
void AddFinish(OpPlan& plan, Operand y, int64_t rows, int64_t columns, bool has_bias, Operand bias,
               bool relu);

}  // namespace oc::opencl

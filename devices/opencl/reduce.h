// Reductions that other ops use too.
#pragma once

#include "openclaw/devices/opencl/plan.h"
#include "openclaw/devices/opencl/walk.h"

namespace oc::opencl {

struct Reduction {
  std::string type = "float", result = "float";  // of elements, and of what comes out
  std::string start = "0";                       // of the sum
  std::string combine = "(a) + (b)";             // of a and b
  std::string pre = "(x)";
  double scale = 1;  // of the result, where it is a float
  bool accumulate = false;
};

// One result for each element of `kept`, over the elements of `inner`; one group each, or two
// stages where there are few results of many elements. kUnimplemented beyond eight dimensions.
Status AddReduction(OpPlan& plan, const Reduction& what, Operand x, Operand y, Walk kept,
                    Walk inner);
// Over n elements of `type` that lie together, into a float.
void AddSum(OpPlan& plan, Operand x, int64_t n, Operand y, bool accumulate,
            const std::string& type = "float", const std::string& pre = "(x)");

}  // namespace oc::opencl

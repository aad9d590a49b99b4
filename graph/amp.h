// Mixed precision as a rewriting of the forward graph, before it is differentiated: casts around
// ops by their class, whose gradient rules then give a backward in the same types.
//
//   OC_ASSIGN_OR_RETURN(Graph forward, ApplyAmp(bound, {AmpLevel::kO2, DType::kBF16}));
//   OC_ASSIGN_OR_RETURN(Graph joint, Differentiate(forward, {.loss_scale = true}));
//   OC_RETURN_IF_ERROR(WidenGradientSums(joint));
//
// The levels (those of Micikevicius et al., "Mixed precision training", 2018, as NVIDIA's Apex
// numbers them):
//   O0  f32, unchanged
//   O1  ops of class half compute in it, of class full and statistics in f32; residual sums stay
//   f32 O2  parameters are f32 and are cast to half once a step; activations are half; statistics
//   of
//       norms, the losses and the sums of gradients are f32
//   O3  parameters and optimizer states are half as well
#pragma once

#include <optional>
#include <string>

#include "openclaw/core/config.h"
#include "openclaw/graph/graph.h"

namespace oc {

enum class AmpClass {
  kHalf,        // gains by it and stands it: products, convolutions, attention
  kFull,        // loses digits or leaves the range of half types: exponentials, sums
  kStatistics,  // takes half operands but keeps what it sums in f32 itself: full at O1 only
  kFollow,      // takes the widest type among its operands: element-wise, movement
  kKeep,        // has the types that its rule says: gradients, updates, counts
};
const char* Name(AmpClass amp_class);

// The class of an op by name (graph/passes/amp_classes.cc is the list); kFollow for one that the
// list does not know, as a user's own op.
AmpClass AmpClassOf(const std::string& op);
// Whether the list knows the op.
bool HasAmpClass(const std::string& op);

struct AmpOptions {
  AmpLevel level = AmpLevel::kO0;
  DType half = DType::kBF16;  // or kF16
  // Named outputs keep their types. Without, those of half ops are left so: training takes none.
  bool keep_outputs = true;
};

// `forward`: a bound forward graph. The loss and what is accumulated keep their types. Casts of
// parameters get Phase::kPrologue. kUnimplemented: a level that is not built; kInvalidArgument: a
// half type that is none.
StatusOr<Graph> ApplyAmp(const Graph& forward, const AmpOptions& options);

// For a joint graph: contributions of half types to gradients become f32, so that micro-batches and
// replicas are added in f32.
Status WidenGradientSums(Graph& joint);

// The half type that a graph computes in; none in a graph without one.
std::optional<DType> HalfTypeOf(const Graph& graph);

// The same graph, node for node, with every value of type `from` in `to` (casts between them are
// copies): what a VCU runs whose device lacks `from`. kInvalidArgument where a parameter or state
// has that type: it is kept in one type by all.
StatusOr<Graph> WithHalfType(const Graph& graph, DType from, DType to);

}  // namespace oc

// Which op costs planning and lowering ask for.
//
//   for (const CostRequest& r : MissingCosts(joint, &update, "cpu/avx512/1t", table)) Measure(r);
#pragma once

#include <string>
#include <vector>

#include "openclaw/core/cluster.h"
#include "openclaw/core/cost_table.h"
#include "openclaw/graph/graph.h"

namespace oc {

struct CostRequest {
  const OpDef* def = nullptr;
  Attributes attrs;
  std::vector<TensorType> inputs, outputs;
  uint32_t accumulate = 0;
  std::string key;  // with the kind
};

// A call as costs know it.
struct CostedCall {
  const OpDef* def = nullptr;
  const Attributes& attrs;
  const std::vector<TensorType>& inputs;
  uint32_t accumulate = 0;
};
// The cost of a call on VCUs of `kind`. That of a list of tensors (OpDef::Lists) is put together
// from its tensors' own: their seconds, less what each call takes besides (found from lists of one
// and of two tensors of one element), and their workspaces; that of a part of a tensor
// (OpDef::parts) from parts of the sizes that MissingCosts asks for. kFailedPrecondition names the
// cost that nobody has measured.
StatusOr<CostEntry> CostOf(const CostedCall& call, const std::string& kind, const CostTable& table);
// Whether such a VCU has a kernel of its own that takes lists of tensors like the call's.
bool TakesLists(const CostedCall& call, const std::string& kind, const CostTable& table);
// Whether such a VCU has a kernel of its own for the call, as far as the table knows.
bool HasOwnKernel(const CostedCall& call, const std::string& kind, const CostTable& table);
// Of a node of the graph, or one that FuseNodes made.
bool HasOwnKernel(const Graph& graph, const Node& node, const std::string& kind,
                  const CostTable& table);
// The workspace of a list whose parts take so much.
int64_t ListWorkspace(int64_t a, int64_t b);

// Everything that lowering the graphs (bound) for a VCU of `kind` may need and `table` lacks, each
// key once, in graph order: every node and what could be fused of nodes (graph/fuse.h), its
// accumulating variant where it ends in an accumulator, and the additions that stand in for one;
// with `parts` also of parts of tensors, as a VCU that holds a shard runs them. `update` may be
// null.
std::vector<CostRequest> MissingCosts(const Graph& graph, const Graph* update,
                                      const std::string& kind, const CostTable& table,
                                      bool parts = false);

// Costs of a kind of VCU that are no op's; entries where the device works apart from the host. The
// first: from the last op of a command to the host's notice of its end. The second: a copy of so
// many bytes between device and host, for one of kCopyBytes.
std::string CommandKey(const std::string& kind);
std::string CopyKey(int64_t bytes, const std::string& kind);
inline constexpr int64_t kCopyBytes[2] = {4 << 10, 4 << 20};
// Seconds of copies between the device and its host; without points where the host touches the
// memory in place.
LinkCurve HostLink(const std::string& kind, const CostTable& costs);
// Of the folder that states are offloaded to (parallel.offload.path): kFileBytes read or written.
std::string FileKey(bool write);
inline constexpr int64_t kFileBytes = 16 << 20;

// The request of one node.
CostRequest RequestOf(const Graph& graph, const Node& node, uint32_t accumulate,
                      const std::string& kind);

}  // namespace oc

// Measures what ops cost on a slice of a device, by rehearsing a step.
//
//   const std::vector<CostRequest> missing = MissingCosts(joint, &update, slice.kind(), known);
//   OC_ASSIGN_OR_RETURN(CostTable found, MeasureCosts(slice, missing, {joint, &update, known},
//   {}));
#pragma once

#include <memory>
#include <vector>

#include "openclaw/core/cost_table.h"
#include "openclaw/core/dtype.h"
#include "openclaw/devices/device.h"
#include "openclaw/partitioner/costs.h"

namespace oc {

struct ProfileOptions {
  // false: only what Prepare tells (workspaces, which variants exist); seconds stay 0, and no
  // memory is taken.
  bool measure = true;
  bool parts = false;  // ProfileGraphs: of parts of tensors too (MissingCosts)
  // ProfileGraphs: entries that are there are compared with what Prepare says now; those that
  // another build of the kernels left are measured anew.
  bool check_known = false;
  double seconds = 3;  // about how long the measured rounds may take
  int min_rounds = 3;
  int max_rounds = 15;
  double timeout_seconds = 60;  // of one op, and of the exchange between processes
  // ProfileGraphs: what the update takes on the hosts of VCUs whose memory is apart, too.
  bool hosts = false;
  // ProfileGraphs: what reading and writing a file in this folder takes; empty: none.
  std::string folder;
  // ProfileGraphs: what each VCU of the cluster computes in, as a plan has it; empty: what it has.
  std::vector<DType> compute_types;
  // ProfileGraphs: which VCUs measure, the same in all processes; empty: all.
  std::function<bool(const VcuSpec&)> only;
};

// What requests are of, and what is known of the rest.
struct MeasuredGraphs {
  const Graph& graph;             // bound
  const Graph* update = nullptr;  // may be null
  const CostTable& known;
};

// What reading and writing files in the folder takes, as FileKey names it; the first process of a
// host and its disk decide. Errors of File.
StatusOr<CostTable> MeasureFile(const std::string& folder);

// Measures the requests in rounds; each cost is a median over them. A round rehearses a step on one
// VCU: the ops run in a step's order on the memory that lowering gives them, so that each finds in
// the caches what it will find there; of layers that repeat, two run. What such a step does not
// use, and everything where the slice's memory does not hold the step, runs one after the other:
// each reads what the one before it wrote, other operands are not warm. On a device whose calls
// return before the work is done, ops are timed by themselves, without the wait for the host, and
// all are then brought to the pace of the whole, which is run again without waiting. Errors of the
// device;
// kDeadlineExceeded where one op takes longer than the timeout.
StatusOr<CostTable> MeasureCosts(Slice& slice, const std::vector<CostRequest>& requests,
                                 const MeasuredGraphs& graphs, const ProfileOptions& options);

// The op of a request; null where the slice has no kernel of this variant: one that adds to the
// outputs asked for, or that takes a list of tensors.
StatusOr<std::unique_ptr<PreparedOp>> PrepareVariant(Slice& slice, const CostRequest& request);

}  // namespace oc

// One VCU's side of lowering: emits commands on symbolic buffers, then gives the buffers offsets
// and the commands their waits. Internal to partitioner/program.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "openclaw/partitioner/program/arena.h"
#include "openclaw/partitioner/program/lower.h"
#include "openclaw/partitioner/program/merge_calls.h"
#include "openclaw/partitioner/program/shards.h"
#include "openclaw/partitioner/program/stage_analysis.h"

namespace oc {

// A message: value root `value` of micro-batch `micro_batch` from one VCU to another.
struct Message {
  int value = kNone;
  int micro_batch = 0;
  int from = 0, to = 0;
  int send_action = 0;  // index in the sender's order, after which it is sent
  int need_action = 0;  // index in the receiver's order, before which it is needed
  int post_action = 0;  // before which the receive is posted: lanes keep the order of the sends
  int64_t tag = 0;
};

// An action of the schedule, or the counting of a micro-batch's labels.
struct WorkItem {
  int stage = 0;
  Part part = Part::kForward;
  int micro_batch = 0;
};

// What all VCUs share.
struct LoweringContext {
  const LowerInput& input;
  const LowerOptions& options;
  std::vector<const Graph*> graphs;  // per VCU: the input graph, in the VCU's compute type
  StageAnalysis analysis;
  StageAnalysis update_analysis;            // where there is an update graph
  std::vector<std::string> update_homes;    // by value of the update graph (update_homes.h)
  std::vector<std::vector<WorkItem>> work;  // per VCU
  std::vector<Message> messages;
  Shards shards;
  const std::vector<ProgramGroup>* groups = nullptr;  // of the Program
  std::vector<std::string> metrics;  // the metrics range holds one f32 each, then the stop flag
  int metrics_group = kNone;
  std::vector<int> count_vcus;
  int count_group = kNone;
  // Variable name -> VCUs that hold it, ascending; the first owns it.
  std::map<std::string, std::vector<int>> holders;
};

class VcuLowering {
 public:
  VcuLowering(const LoweringContext& context, int vcu);
  StatusOr<VcuProgram> Run();

 private:
  // What a slot stands for. Values are per micro-batch, the rest is once a VCU.
  enum class RefKind {
    kValue,
    kStepValue,  // of the prologue
    kUpdateValue,
    kVariable,
    kScalar,
    kAccumulator,
    kMetric,
    kWorkspace,
    // This VCU's part of a tensor of a bucket.
    kVariablePart,
    kSumPart,     // of an accumulator
    kCastPart,    // of what the prologue makes of a parameter
    kChunksPart,  // of the sums of a gradient's chunks
    kChunks,      // all of them
    kGathered,    // all of a parameter that is divided
    // This VCU's piece of a bucket, by bucket.
    kReduced,  // of a round, as it was reduced
    kTakenUp,  // the sum over the rounds
  };
  struct Ref {
    RefKind kind = RefKind::kValue;
    int id = kNone;    // value root, accumulator, metric, workspace number
    std::string name;  // variable, scalar
    bool operator<(const Ref& o) const {
      return std::tie(kind, id, name) < std::tie(o.kind, o.id, o.name);
    }
  };
  struct Template {  // a segment with its slots' meanings
    Segment segment;
    std::vector<SizedCall> calls;  // before they have their workspaces
    std::vector<Ref> refs;
    int index = kNone;  // in the program's segments
  };
  struct SymbolicRange {
    int buffer = kNone;
    int64_t offset = 0;
    int64_t bytes = 0;
    Arena arena = Arena::kState;  // where there is no buffer
  };
  // Parameters whose states lie outside of the device's memory, as neighbours, and are updated
  // together.
  struct StateBucket {
    std::vector<std::string> states;
    std::set<std::string> homes;  // the parameters
    Range range;                  // of all states
    bool brought = false;         // what the update reads of it was sent for
    int buffer = kNone;           // of the states, where the device updates
  };
  // What of a node this VCU runs where the node's tensor is divided.
  struct NodePart {
    Place place;
    TensorPart part;
    int64_t elements = 0;  // of the whole tensor
    bool cut() const { return part.size() != elements; }
  };
  // What happens between the nodes of one part of a stage: (index in the part's nodes, bucket).
  struct Events {
    std::vector<std::pair<int, int>> uses;  // before the node: windowed buckets, as first used
    std::vector<std::pair<int, int>> ends;  // behind the nodes: what each round reduces
  };
  struct Reduced {
    int bucket = kNone;
    SymbolicRange piece;
  };
  // Values that go to the host together, and come back together.
  struct AwayGroup {
    std::vector<int> roots;
    int last_forward = 0;  // positions among the stage's nodes (saved_values.h)
    int first_backward = 0;
  };
  struct Pending {
    Command command;
    std::vector<SymbolicRange> slots, reads, writes;
    int64_t tick = 0;
  };

  // Building segments.
  // Gives the segment its calls and its number.
  Status FinishSegment(bool update, Template& out);
  Status BuildSegment(const Graph& graph, const StageAnalysis& analysis, const std::string& name,
                      const std::vector<int>& nodes, bool update, Template& out);
  Status AddNode(const Graph& graph, const StageAnalysis& analysis, const Node& node, bool update,
                 Template& out);
  Status AddCombines(const Graph& graph, const StageAnalysis& analysis, const Node& node,
                     bool update, Template& out, const std::set<int>& done = {});
  Ref SumRef(const Graph& graph, int accumulator) const;
  bool Holds(const Ref& sum) const;
  void MarkHeld(const Ref& sum);
  int SlotOf(Template& t, const Ref& ref, int64_t bytes, const std::string& name);
  Ref RefOf(const Graph& graph, const StageAnalysis& analysis, int value, bool update) const;
  Ref PartRefOf(const Graph& graph, const StageAnalysis& analysis, int value, bool update) const;
  // nullopt: the node is run as it is. An empty part: not here.
  std::optional<NodePart> PartOfNode(const Graph& graph, const Node& node, bool update) const;
  Ref ReducedRef(const std::string& name) const;
  // The kind that runs the segment: the VCU's, or its host's.
  const std::string& KindOf(const Segment& segment) const;
  StatusOr<CostEntry> Cost(const Call& call, const Segment& segment) const;
  // Gives the calls their workspaces; those of an update are merged first (merge_calls.h).
  Status AddCalls(std::vector<SizedCall> calls, bool update, Template& out);
  std::vector<int> NormNodes(const Graph& update) const;
  std::vector<int> ChunkNodes(const Graph& update) const;
  Status AddCombine(const char* op, const Ref& target, const Ref& source, const TensorType& type,
                    const Graph& graph, const Node& node, Template& out);

  // Emitting commands.
  int NewBuffer(int64_t bytes, MemoryUse use = MemoryUse::kOther, Arena arena = Arena::kStep);
  int Lane(LaneSpec spec);
  SymbolicRange Resolve(const Ref& ref, int micro_batch, int64_t bytes);
  SymbolicRange ResolveOnHost(const Ref& ref, int64_t bytes);
  SymbolicRange Whole(int buffer) const;
  void Touch(const SymbolicRange& range);
  int Emit(Command command, std::vector<SymbolicRange> reads, std::vector<SymbolicRange> writes);
  void EmitCompute(const Template& t, const std::string& name, int micro_batch);
  void EmitFeed(const std::string& name, int micro_batch, SymbolicRange to);
  void EmitFeedsFor(const WorkItem& item);
  void EmitReceives(int action);
  void EmitSends(int action);
  void EmitSnapshots(const WorkItem& item);
  Status EmitPrologue();
  Status EmitWork();
  // Item `k` of the VCU's work.
  Status EmitItem(size_t k, const std::vector<std::pair<int, int>>& finals);
  Status EmitParts(const WorkItem& item, std::optional<size_t> k,
                   const std::vector<std::pair<int, int>>& finals);
  // The nodes of an item, or some of them that follow each other.
  Status EmitNodes(const WorkItem& item, const std::vector<int>& nodes, const std::string& suffix);
  Status EmitCount();
  // A sum of f32 over a group, in place.
  void EmitSmallSum(const std::string& name, int group, const SymbolicRange& range);
  SymbolicRange MetricsRange() const;
  Status EmitNorm(const Graph& update);
  Status EmitUpdate();
  bool GathersUpdated(int bucket) const;
  void EmitUpdatedGather(int bucket);
  Status EmitUpdateAndGather(const Graph& update, const std::vector<int>& nodes);
  // The update's nodes in one command, which leaves them out where a gradient is not finite.
  Status EmitUpdateOf(const Graph& update, const std::vector<int>& nodes, const std::string& name,
                      bool on_host);

  // What moves in buckets (emit_buckets.cc).
  int MemberOf(int bucket) const;  // this VCU's place among the bucket's, or kNone
  TensorPart PartHere(const Place& place) const;
  SymbolicRange PieceOf(int bucket, const SymbolicRange& whole, DType dtype) const;
  SymbolicRange TensorIn(const Place& place, const SymbolicRange& whole, DType dtype) const;
  int SumBuffer(int bucket);
  int GatherBuffer(int bucket);
  // The sums of the chunks of a part of a gradient.
  SymbolicRange ChunkRange(const Place& place, const TensorPart& part);
  SymbolicRange ResolveInBucket(const Ref& ref);
  void EmitCollective(int bucket, CollectiveOp op, const std::string& name, DType dtype,
                      const SymbolicRange& read, const SymbolicRange& data);
  void EmitReduction(int bucket, CollectiveOp op);
  void EmitGather(int bucket);
  void EmitGathersOnce(bool of_prologue);
  void GatherAhead(int stage, const std::vector<std::pair<int, int>>& uses);
  void EmitZeros(const SymbolicRange& range);
  void ReduceRound(int bucket, bool absent);
  void ReduceOnce(int bucket);
  Status FinishReductions();
  Status TakeUp(size_t keep);
  const Events& EventsOf(int stage, Part part);
  std::vector<std::vector<std::pair<int, int>>> FindFinals() const;
  Status MeetUntil(int stage, const Round* round);

  // What backward needs of forward, outside of the device's memory (offload_activations.cc).
  const std::vector<AwayGroup>& AwayGroups(int stage);
  std::vector<int> CutsOf(const WorkItem& item);
  bool IsAwayLong(size_t k, const AwayGroup& group);
  void TakeActivations(size_t k, int begin, int end);
  void BringActivations(size_t k, int end);
  void BringFirstActivations(size_t k);

  // States outside of the device's memory (offload.cc).
  const VcuOffload& offload() const;
  Status PlanStateBuckets();
  std::vector<int> UpdateNodesOf(const Graph& update, const std::set<std::string>* homes,
                                 std::set<int>& done) const;
  int EmitCopy(const std::string& name, SymbolicRange from, SymbolicRange to);
  void EmitCopies(const std::string& name,
                  const std::vector<std::pair<SymbolicRange, SymbolicRange>>& moves);
  void BringBucket(size_t b);
  void ReturnBucket(size_t b);
  void BringScalars();
  void BringFirstBuckets();
  Status EmitUpdateInBuckets(const Graph& update);

  // Set-up and completion.
  Status PlaceState();
  void PlaceBlocks();
  StatusOr<StateEntry> EntryOf(const Value& value, const Variable& v, bool model) const;
  void PlaceAccumulators();
  void NoteGradients();
  int64_t PlaceBuffers(Arena arena, int64_t begin);
  Status Finish(VcuProgram& program);

  const LoweringContext& context_;
  const int vcu_;
  const Graph& graph_;  // in this VCU's compute type
  VcuProgram program_;
  std::vector<ArenaItem> items_;      // buffers, of the step arena or of the host's
  std::vector<Arena> buffer_arenas_;  // by buffer
  std::vector<Pending> pending_;
  std::map<std::pair<int, int>, int> values_;  // (root, micro-batch) -> buffer
  std::map<int, int> step_values_, update_values_, host_update_values_;
  std::map<std::pair<std::string, int>, int> scalars_;  // (name, micro-batch or kNone)
  std::map<int, SymbolicRange> accumulators_;           // those of no bucket
  std::map<std::string, Range> variables_;
  // By bucket. Where this VCU's piece of the parameters is, or the whole bucket of them: in the
  // state arena, in the bucket's order.
  std::map<int, SymbolicRange> blocks_;
  std::map<int, int> sum_buffers_, gathered_, cast_parts_, taken_up_;
  std::set<int> reduced_;             // whose only reduction was emitted
  std::map<int, int> chunk_buffers_;  // of the sums of a group's gradients' chunks, by group
  std::map<int, int> scratch_;        // of a group's collectives, by group
  std::vector<Reduced> rounds_;       // reduced, to be taken up
  SymbolicRange taking_up_;           // what the present take-up reads
  std::map<int, int> ahead_;          // by stage: the bucket that the next round finds gathered
  std::map<int, size_t> met_;         // by stage: rounds that are done
  std::map<std::pair<int, Part>, int> numbers_;  // of work done, by stage and part
  std::map<std::pair<int, Part>, Events> events_;
  std::vector<SymbolicRange> gradient_ranges_;  // of program_.gradients
  std::map<std::string, Template> templates_;   // by stage, part and variant
  std::vector<bool> initialized_;               // accumulators that hold something
  int metrics_buffer_ = kNone;
  int64_t tick_ = 0;
  int workspaces_ = 0;
  std::vector<int> sent_buffers_;               // still being sent while the next work runs
  std::map<int, std::vector<AwayGroup>> away_;  // by stage
  std::map<std::pair<int, int>, int> taken_;    // (root, micro-batch) -> buffer of the host
  std::vector<StateBucket> buckets_;
  std::map<std::string, Range> offloaded_;          // states, by name
  std::map<std::string, Range> host_copies_;        // parameters, where the host updates
  std::map<std::string, SymbolicRange> brought_;    // states, in the step arena
  std::map<int, SymbolicRange> host_accumulators_;  // gradients, where the host updates
  std::map<std::string, int> host_scalars_;
  int host_metrics_buffer_ = kNone;
};

// The squared norm of all gradients (optim/optimizer.h).
inline constexpr char kNormMetric[] = "grad_norm_sq";

// Fills in every command's waits: for each pair with conflicting ranges on different lanes that the
// lanes and earlier waits do not order, the later one waits.
void DeriveWaits(VcuProgram& program);

}  // namespace oc

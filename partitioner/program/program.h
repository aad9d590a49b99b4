// The Program: for each VCU, the commands of one step. One Program has three readers: the verifier
// (verify.h), the simulator (simulate.h) and the executor (runtime/). Device-independent: what a
// Compute runs is a segment, a list of ops on slots, and the slots are arena ranges.
//
// (Huawei's collective library is also called HCCL, as such a command language has been called;
// here the word is Program.)
//
// Invariants: commands of one lane run in order, lanes run concurrently; a command starts when
// those of its `waits` (earlier in its VCU's list) have ended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "openclaw/graph/graph.h"
#include "openclaw/partitioner/program/memory.h"

namespace oc {

enum class Arena : int32_t {
  kState = 0,  // parameters, optimizer states, running statistics
  kStep = 1,   // what one step needs
  kHost = 2,   // what is offloaded to memory of the host; only copies, feeds and the host touch it
  kFile = 3,   // and to a file: only copies
};
const char* Name(Arena arena);

struct Range {
  Arena arena = Arena::kStep;
  int64_t offset = 0;
  int64_t bytes = 0;
  bool operator==(const Range&) const = default;
};

enum class CommandKind : int32_t {
  kCompute = 0,     // run `segment` with `slots` bound
  kSend = 1,        // reads[0] to VCU `peer`
  kRecv = 2,        // writes[0] from VCU `peer`
  kCollective = 3,  // `op` over group `group`; writes[0] is the data, writes[1] scratch
  kCopy = 4,        // reads[0] to writes[0], which may be in another arena
  // The host writes input `name` of `micro_batch` to writes[0]; kZeros: zeros.
  kFeed = 5,
  kSnapshot = 6,  // the host takes reads[0] as result `name` of `micro_batch`
};
const char* Name(CommandKind kind);

// The name of a feed that the executor answers itself.
inline constexpr char kZeros[] = "zeros";

enum class CollectiveOp : int32_t {
  kAllReduce = 0,      // the sum of writes[0], in place, on all; reads[0] is writes[0]
  kReduceScatter = 1,  // each member's piece of it is the sum there, the rest is unspecified
  kAllGather = 2,      // writes[0] of the members' pieces; reads[0] is the own one, wherever it is
};
const char* Name(CollectiveOp op);

enum class LaneKind : int32_t {
  kCompute = 0,
  kSend = 1,
  kRecv = 2,
  kGroup = 3,
  kCopy = 4,
  kHost = 5,
  kFile = 6,
  kHostCompute = 7
};

struct LaneSpec {
  LaneKind kind = LaneKind::kCompute;
  // kSend, kRecv: the peer; kGroup: the group; kCopy, kFile: 0 brings to the device, 1 takes away.
  int index = 0;
  bool operator==(const LaneSpec&) const = default;
};
std::string ToString(const LaneSpec& lane);

// What a message or buffer is, for matching and for people.
struct Command {
  CommandKind kind = CommandKind::kCompute;
  int lane = 0;      // index in VcuProgram::lanes
  std::string name;  // "F0", "blocks.0.out", "images"
  int micro_batch = kNone;
  int peer = kNone;
  int group = kNone;
  // kCollective. The members' pieces are the elements [pieces[i], pieces[i + 1]) of the data;
  // empty: as comm/ divides it (of kAllReduce alone). What has the same pieces is summed in the
  // same order, whatever the op.
  CollectiveOp op = CollectiveOp::kAllReduce;
  std::vector<int64_t> pieces;
  int bucket = kNone;  // in Program::buckets, where it moves one
  // kCollective: what is moved. kSend, kRecv: the type of the elements in memory and on the wire,
  // which differ where a VCU computes in another type than the graph's.
  DType dtype = DType::kF32, wire = DType::kF32;
  int64_t tag = 0;  // kSend, kRecv: equal on both ends
  int segment = kNone;
  std::vector<Range> slots;   // kCompute: one a slot of the segment
  std::vector<Range> reads;   // disjoint, sorted
  std::vector<Range> writes;  // disjoint, sorted (kCollective: data, scratch)
  std::vector<int> waits;     // earlier commands of other lanes, by index
  // A metric (Program::metrics) that must be finite, else the command is skipped; it is the same on
  // all VCUs once their sum is known, so all skip or none. Empty: always.
  std::string predicate;
};
// Bytes of `r` as the messages of `c` carry them.
int64_t WireBytes(const Command& c, const Range& r);

// One op of a segment.
struct Call {
  const OpDef* def = nullptr;  // owned by the graph's registry
  Attributes attrs;
  std::vector<TensorType> input_types, output_types;
  std::vector<int> inputs, outputs;  // slots
  int workspace = kNone;             // slot
  uint32_t accumulate = 0;           // outputs added to
  Phase phase = Phase::kForward;
  std::string scope;
  std::string cost_key;  // without "on kind"
};

struct Slot {
  std::string name;  // of the value
  int64_t bytes = 0;
};

struct Segment {
  std::string name;  // "stage 0 forward"
  std::vector<Slot> slots;
  std::vector<Call> calls;
  bool on_host = false;  // runs on the host's slice, on memory of kHost
};

// Where state lies: elements [begin, end) of the flattened tensor, in `range`.
struct StateEntry {
  std::string name;
  TensorType type;  // of the whole tensor
  int64_t begin = 0, end = 0;
  Range range;
  // An equal copy for updates on the host: who writes one writes the other. Empty: none.
  Range host_copy = {Arena::kHost, 0, 0};
  bool is_parameter = false;
  bool is_model_state = false;  // running statistics; else the optimizer's
  Initializer init;
  bool owner = false;  // this VCU stores it in checkpoints: the first of its holders
  bool whole() const { return begin == 0 && end == type.shape.num_elements(); }
};

struct VcuProgram {
  std::string name;
  std::vector<LaneSpec> lanes;  // lane 0 computes
  std::vector<Segment> segments;
  std::vector<Command> commands;
  std::vector<StateEntry> state;
  // Gradients: reduced values after the collectives. Where they are divided, this VCU's part.
  std::vector<StateEntry> gradients;
  Range metrics;            // one f32 for each of Program::metrics
  Range host_metrics;       // their copy, where the host updates
  int64_t state_bytes = 0;  // arena sizes
  int64_t step_bytes = 0;
  int64_t host_bytes = 0;
  int64_t file_bytes = 0;
  int64_t ArenaBytes(Arena arena) const;
  // Of both arenas, when the step's holds most; adds up to their sizes.
  MemoryBreakdown memory;
  int64_t activation_bytes = 0;  // the most that activations take at any time
};

struct ProgramGroup {
  std::vector<int> vcus;  // ascending
  std::string name;       // "gradients of stage 0"
};

// Tensors that are reduced, and gathered, together: one behind the other in a buffer, each at a
// multiple of kBucketAlignment elements; the gaps mean nothing.
struct ProgramBucket {
  int group = kNone;                    // kNone: one holder, nothing moves
  std::vector<std::string> names;       // parameters or running statistics
  std::vector<std::string> sums;        // their gradients, or what the statistics take up
  std::vector<int64_t> offsets, sizes;  // of each, in elements
  int64_t elements = 0;                 // of the buffer
  std::vector<int64_t> pieces;          // bounds of the members' pieces in it
  bool divided = false;                 // the holders keep their pieces of the parameters alone
};
inline constexpr int64_t kBucketAlignment = 64;

struct Program {
  int64_t epoch = 0;
  std::vector<VcuProgram> vcus;
  std::vector<ProgramGroup> groups;
  std::vector<ProgramBucket> buckets;
  // The metrics' places in the range that every VCU snapshots as "metrics": f32 each.
  std::vector<std::string> metrics;
  std::shared_ptr<const OpRegistry> ops;  // keeps the calls' definitions alive
};

// The same text for the same Program: printed, compared, hashed. `vcu` kNone: all.
std::string ToText(const Program& program, int vcu = kNone);
// 64 bits over the whole of it.
uint64_t Fingerprint(const Program& program);

// Ranges of one set that touch or overlap are merged; sorted.
std::vector<Range> MergeRanges(std::vector<Range> ranges);
// Whether two merged lists share a byte.
bool Overlap(const std::vector<Range>& a, const std::vector<Range>& b);

}  // namespace oc

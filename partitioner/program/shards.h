// What lowering knows of buckets before it looks at any VCU: which tensors move together, over
// whom, and what of them each keeps. Internal to partitioner/program.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "openclaw/partitioner/program/buckets.h"
#include "openclaw/partitioner/program/stage_analysis.h"

namespace oc {

struct LoweringContext;

// What the stages read of a parameter.
enum class ReadAs : int {
  kVariable = 0,  // itself alone
  kCast = 1,      // one value of the prologue that goes element by element, in one type everywhere
  kOther = 2,     // anything else: who reads it holds it whole
};

struct BucketUse {
  std::vector<int> vcus;          // who holds the tensors, ascending: the members of the pieces
  std::vector<int> accumulators;  // of the joint graph, one a tensor; none in inference
  int stage = kNone;              // where all are read and summed; kNone: on several
  // Plan::shard as far as these tensors take part. 0: all is held by all. 1: one reduction, at the
  // end of the last backward. 2, 3: one in each round of backwards.
  int shard = 0;
  ReadAs read = ReadAs::kVariable;
  DType parameter = DType::kF32, sum = DType::kF32, gathered = DType::kF32;
  bool windowed = false;  // gathered for each use and then released; else once a step
  bool divided() const { return shard > 0 && (read == ReadAs::kCast || windowed); }
};

struct Place {
  int bucket = kNone;
  int tensor = kNone;  // in it
};

// One turn of a stage in which its replicas reduce or gather: replicas that have no such action
// take part with nothing of their own.
struct Round {
  Part part = Part::kForward;
  int number = 0;  // of its part
  bool operator==(const Round&) const = default;
};

struct Shards {
  std::vector<ProgramBucket> buckets;
  std::vector<BucketUse> uses;              // one a bucket
  std::map<std::string, Place> parameters;  // by name, running statistics too
  std::map<int, Place> sums;                // by accumulator
  std::map<int, Place> casts;               // of kCast: by value of the joint graph
  std::map<int, Place> chunks;              // by value of the update: sums of a gradient's chunks
  std::vector<std::vector<Round>> rounds;   // by stage; empty: the replicas go on by themselves
};

// Fills c.shards, and program.groups and program.buckets. kUnimplemented: the update takes another
// norm than one that sums chunks; replicas of a stage take forwards and backwards in unlike orders.
Status FindShards(LoweringContext& c, Program& program);

// The group's number, or kNone for fewer than two VCUs.
int AddGroup(Program& program, const std::vector<int>& vcus, const std::string& name);

}  // namespace oc

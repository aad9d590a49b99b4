// What lowering knows of a graph before it looks at any VCU: which nodes each stage runs in which
// part of a step, where values live, and what crosses between stages.
#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

#include "openclaw/partitioner/plan.h"

namespace oc {

// Parts of a step, in the order in which one micro-batch goes through them.
enum class Part : int { kCount = 0, kForward = 1, kBackward = 2 };
inline constexpr int kParts = 3;

struct StageAnalysis {
  std::vector<int> stage;                                   // of a node; kNone: of the prologue
  std::vector<Part> part;                                   // of a node
  std::vector<std::array<std::vector<int>, kParts>> nodes;  // [stage][part]: nodes in order
  std::vector<int> prologue;  // nodes in order: each VCU runs those that its stages read
  // Where a value's bytes are: itself, or the value whose memory it shares (views, reuse).
  std::vector<int> root;
  // Value -> stages other than its own that read it, ascending.
  std::vector<std::vector<int>> readers;
  // Value -> the first part in which stage `readers[v][i]` reads it.
  std::vector<std::vector<Part>> reader_parts;
  // Value -> the accumulators (index) that it is added to.
  std::vector<std::vector<int>> accumulators;
  // The value's only use is one accumulator: its producer may write there.
  std::vector<bool> accumulator_only;
  std::set<int> fetched;  // values taken by snapshots
  // Of a root: backward reads what forward, or a repetition of it, has put there.
  std::vector<bool> activation;
};

// kUnimplemented: a value of a device's own form would cross stages.
StatusOr<StageAnalysis> AnalyzeStages(const Graph& graph, const Plan& plan,
                                      const std::vector<std::string>& fetch);

// For graphs without stages (the update graph): everything is one part of one stage.
StageAnalysis AnalyzeUpdate(const Graph& update);

// Of the nodes `among`, in order, those that the wanted values (by id) are computed by.
std::vector<int> NodesFor(const Graph& graph, const std::vector<int>& among,
                          std::vector<bool> wanted);

}  // namespace oc

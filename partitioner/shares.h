// How the micro-batches of a step are shared out over replicas of unlike speed. All are of one
// size, so a share is a number of them; the gradient is that of the mean over the global batch
// whatever the shares.
#pragma once

#include <vector>

namespace oc {

// seconds[r]: what replica r needs for one micro-batch, above 0. The shares that end soonest: each
// micro-batch goes to the replica that would end it first, which is optimal for equal jobs.
// `least`: what each takes at least; `micro_batches` must be at least that times the replicas. Ties
// go to the first.
std::vector<int> FastestShares(const std::vector<double>& seconds, int micro_batches,
                               int least = 0);
// As even as possible; the first take one more.
std::vector<int> EvenShares(int replicas, int micro_batches);

// Every way to share them out, shares of nothing included: what a search is compared with.
std::vector<std::vector<int>> AllShares(int replicas, int micro_batches);

// When the last replica ends.
double ShareSeconds(const std::vector<double>& seconds, const std::vector<int>& shares);

// The smallest number of micro-batches, at most `most`, whose fastest shares lose at most
// `loss` (a fraction) against shares that need not be whole numbers; else the one that loses least.
int MicroBatchesFor(const std::vector<double>& seconds, double loss, int most);

// owner[g] for shares of consecutive micro-batches.
std::vector<int> ConsecutiveOwners(const std::vector<int>& vcus, const std::vector<int>& shares);
// The same shares, taken in turn as the replicas would become free: in a pipeline the stages behind
// then begin earlier.
std::vector<int> AlternatingOwners(const std::vector<int>& vcus, const std::vector<int>& shares,
                                   const std::vector<double>& seconds);

}  // namespace oc

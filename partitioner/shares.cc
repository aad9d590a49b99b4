#include "openclaw/partitioner/shares.h"

#include <algorithm>
#include <numeric>

namespace oc {

std::vector<int> FastestShares(const std::vector<double>& seconds, int micro_batches, int least) {
  const int n = static_cast<int>(seconds.size());
  std::vector<int> shares(n, least);
  int left = micro_batches - least * n;
  // What all could end by then is below the optimum: begin there, and deal out the few that are
  // left one by one.
  double rate = 0;
  for (double s : seconds) rate += 1 / s;
  const double bound = micro_batches / rate;
  for (int r = 0; r < n && left > 0; ++r) {
    const int whole = std::min(left + shares[r], static_cast<int>(bound / seconds[r]));
    if (whole <= shares[r]) continue;
    left -= whole - shares[r];
    shares[r] = whole;
  }
  for (; left > 0; --left) {
    int best = 0;
    for (int r = 1; r < n; ++r) {
      if ((shares[r] + 1) * seconds[r] < (shares[best] + 1) * seconds[best]) best = r;
    }
    ++shares[best];
  }
  return shares;
}

std::vector<int> EvenShares(int replicas, int micro_batches) {
  std::vector<int> shares;
  for (int r = 0; r < replicas; ++r) {
    shares.push_back(micro_batches / replicas + (r < micro_batches % replicas ? 1 : 0));
  }
  return shares;
}

std::vector<std::vector<int>> AllShares(int replicas, int micro_batches) {
  if (replicas == 1) return {{micro_batches}};
  std::vector<std::vector<int>> all;
  for (int first = 0; first <= micro_batches; ++first) {
    for (std::vector<int>& rest : AllShares(replicas - 1, micro_batches - first)) {
      rest.insert(rest.begin(), first);
      all.push_back(std::move(rest));
    }
  }
  return all;
}

double ShareSeconds(const std::vector<double>& seconds, const std::vector<int>& shares) {
  double last = 0;
  for (size_t r = 0; r < seconds.size(); ++r) last = std::max(last, seconds[r] * shares[r]);
  return last;
}

int MicroBatchesFor(const std::vector<double>& seconds, double loss, int most) {
  double rate = 0;
  for (double s : seconds) rate += 1 / s;
  int best = static_cast<int>(seconds.size());
  double best_used = 0;
  for (int m = best; m <= most; ++m) {
    const double used = m / rate / ShareSeconds(seconds, FastestShares(seconds, m));
    if (used > best_used + 1e-9) {
      best_used = used;
      best = m;
    }
    if (used >= 1 - loss) break;
  }
  return best;
}

std::vector<int> ConsecutiveOwners(const std::vector<int>& vcus, const std::vector<int>& shares) {
  std::vector<int> owner;
  for (size_t r = 0; r < vcus.size(); ++r) owner.insert(owner.end(), shares[r], vcus[r]);
  return owner;
}

std::vector<int> AlternatingOwners(const std::vector<int>& vcus, const std::vector<int>& shares,
                                   const std::vector<double>& seconds) {
  const int total = std::accumulate(shares.begin(), shares.end(), 0);
  std::vector<int> owner, taken(vcus.size(), 0);
  for (int g = 0; g < total; ++g) {
    int next = -1;
    for (int r = 0; r < static_cast<int>(vcus.size()); ++r) {
      if (taken[r] == shares[r]) continue;
      // Free at taken * seconds; where several are, the one that ends first.
      const auto key = [&](int i) {
        return std::pair(taken[i] * seconds[i], (taken[i] + 1) * seconds[i]);
      };
      if (next < 0 || key(r) < key(next)) next = r;
    }
    ++taken[next];
    owner.push_back(vcus[next]);
  }
  return owner;
}

}  // namespace oc

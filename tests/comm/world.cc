#include "world.h"

#include <memory>
#include <thread>
#include <vector>

#include "openclaw/comm/inproc/inproc.h"

namespace oc {

void RunOnThreads(std::span<const std::unique_ptr<Transport>> ends,
                  const std::function<void(Transport&)>& body) {
  std::vector<std::thread> threads;
  for (const auto& end : ends) threads.emplace_back([&body, &end] { body(*end); });
  for (std::thread& t : threads) t.join();
}

void RunInproc(int ranks, const std::function<void(Transport&)>& body) {
  const InprocHub hub(ranks);
  std::vector<std::unique_ptr<Transport>> ends;
  for (int r = 0; r < ranks; ++r) ends.push_back(hub.Endpoint(r));
  RunOnThreads(ends, body);
}

}  // namespace oc

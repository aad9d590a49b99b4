#include "world.h"

namespace oc {
namespace {
class InprocWorld : public TestWorld {
 public:
  bool across_processes() const override { return false; }
  void Run(int ranks, const std::function<void(Transport&)>& body) override {
    RunInproc(ranks, body);
  }
};
}  // namespace

TestWorld& World() {
  static InprocWorld world;
  return world;
}

}  // namespace oc

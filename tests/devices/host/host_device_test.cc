#include "openclaw/devices/host/host_device.h"

#include <gtest/gtest.h>

#include "openclaw/devices/reference/reference.h"

#include "../../runtime/count_allocations.h"

namespace oc {
namespace {

// A slice of a host device with the given kernels, and one buffer whose float i holds i.
class Bench {
 public:
  explicit Bench(std::shared_ptr<const KernelRegistry> kernels)
      : device_(MakeHostDevice({.info = {.name = "host:0", .leaf = "host", .threads = 1},
                                .dtypes = {DType::kF32},
                                .kernels = {std::move(kernels)}})),
        slice_(*device_->CreateSlice({})),
        buffer_(*slice_->Allocate(4 * kFloats)) {
    const std::span<std::byte> bytes = slice_->HostView({buffer_.get(), 0, 4 * kFloats});
    floats_ = {reinterpret_cast<float*>(bytes.data()), kFloats};
    for (size_t i = 0; i < kFloats; ++i) floats_[i] = static_cast<float>(i);
  }
  Slice& slice() { return *slice_; }
  std::span<float> floats() { return floats_; }
  // Float `at` of the buffer and those that follow it.
  BufferRange Floats(int64_t at, int64_t count) { return {buffer_.get(), 4 * at, 4 * count}; }
  // Floats `at` and on, one a range.
  std::vector<BufferRange> Each(int64_t at, int count) {
    std::vector<BufferRange> ranges;
    for (int i = 0; i < count; ++i) ranges.push_back(Floats(at + i, 1));
    return ranges;
  }

  static constexpr size_t kFloats = 4096;

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Slice> slice_;
  std::unique_ptr<Buffer> buffer_;
  std::span<float> floats_;
};

const TensorType kOne = {DType::kF32, {1}};

OpRequest Concat(int inputs) {
  return {.def = BuiltinOps()->Find("concat"),
          .attrs = {{"axis", int64_t{0}}},
          .inputs = std::vector<TensorType>(inputs, kOne),
          .outputs = {{DType::kF32, {inputs}}}};
}

TEST(HostQueue, TakesAnyNumberOfInputs) {
  Bench bench(ReferenceKernels());
  // Created before anything is known of the ops that it will run.
  auto queue = bench.slice().CreateQueue("early");
  ASSERT_TRUE(queue.ok()) << queue.status();
  for (int inputs : {1, 64, 65, 1000, 3}) {
    auto op = bench.slice().Prepare(Concat(inputs));
    ASSERT_TRUE(op.ok()) << op.status();
    const std::vector<BufferRange> from = bench.Each(7, inputs);
    const BufferRange to = bench.Floats(2000, inputs);
    ASSERT_EQ((*queue)->Enqueue(**op, from, {&to, 1}, {}), OkStatus());
    for (int i = 0; i < inputs; ++i) {
      ASSERT_EQ(bench.floats()[2000 + i], static_cast<float>(7 + i)) << inputs << " inputs";
    }
    std::fill(bench.floats().begin() + 2000, bench.floats().end(), -1.0f);
  }
}

// Output i is the input plus i.
Status CountUp(const OpRequest& request, const KernelArgs& args) {
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    *args.out<float>(static_cast<int>(i)) = *args.in<float>(0) + static_cast<float>(i);
  }
  return OkStatus();
}

TEST(HostQueue, TakesAnyNumberOfOutputs) {
  OpDef def;
  def.name = "count_up";
  auto kernels = std::make_shared<KernelRegistry>();
  kernels->Add("count_up", StatelessKernel(CountUp, "test"));
  Bench bench(kernels);
  auto queue = bench.slice().CreateQueue("early");
  ASSERT_TRUE(queue.ok()) << queue.status();
  for (int outputs : {1, 65, 1000}) {
    auto op = bench.slice().Prepare(
        {.def = &def, .inputs = {kOne}, .outputs = std::vector<TensorType>(outputs, kOne)});
    ASSERT_TRUE(op.ok()) << op.status();
    const BufferRange from = bench.Floats(5, 1);
    ASSERT_EQ((*queue)->Enqueue(**op, {&from, 1}, bench.Each(2000, outputs), {}), OkStatus());
    for (int i = 0; i < outputs; ++i) {
      ASSERT_EQ(bench.floats()[2000 + i], static_cast<float>(5 + i)) << outputs << " outputs";
    }
  }
}

// Also the first time, where the op was prepared before the queue was made, as executors do.
TEST(HostQueue, AllocatesNothingForOpsPreparedBeforeIt) {
  Bench bench(ReferenceKernels());
  auto op = bench.slice().Prepare(Concat(1000));
  ASSERT_TRUE(op.ok()) << op.status();
  auto queue = bench.slice().CreateQueue("late");
  ASSERT_TRUE(queue.ok()) << queue.status();
  const std::vector<BufferRange> from = bench.Each(0, 1000);
  const BufferRange to = bench.Floats(2000, 1000);
  const int64_t before = oc::testing::Allocations();
  const Status status = (*queue)->Enqueue(**op, from, {&to, 1}, {});
  EXPECT_EQ(oc::testing::Allocations() - before, 0);
  EXPECT_EQ(status, OkStatus());
  EXPECT_EQ(bench.floats()[2999], 999.0f);
}

}  // namespace
}  // namespace oc

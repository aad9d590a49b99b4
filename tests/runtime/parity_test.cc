// Devices compared with each other: one that computes an op slightly wrong is found out, and so is
// one that lacks an op or fails in it.
#include "openclaw/runtime/parity/parity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "openclaw/devices/host/host_device.h"
#include "openclaw/devices/reference/reference.h"
#include "openclaw/runtime/cluster.h"

namespace oc::parity {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The reference kernel, then the last element of output 0 is off by a small part of itself.
class WrongKernel : public HostKernel {
 public:
  WrongKernel(std::unique_ptr<HostKernel> right, TensorType output, double off)
      : right_(std::move(right)), output_(std::move(output)), off_(off) {}
  int64_t workspace_bytes() const override { return right_->workspace_bytes(); }
  const char* implementation() const override { return "own"; }
  Status Run(const KernelArgs& args) override {
    OC_RETURN_IF_ERROR(right_->Run(args));
    const int64_t last = output_.shape.num_elements() - 1;
    if (last < 0) return OkStatus();
    const double value = LoadElement(output_.dtype, args.outputs[0], last);
    StoreElement(output_.dtype, args.outputs[0], last, value * (1 + off_));
    return OkStatus();
  }

 private:
  std::unique_ptr<HostKernel> right_;
  TensorType output_;
  double off_;
};

KernelFactory OffBy(double off) {
  return [off](const OpRequest& request, int) -> StatusOr<std::unique_ptr<HostKernel>> {
    OC_ASSIGN_OR_RETURN(auto right, CreateKernel({ReferenceKernels()}, request, 1, "other"));
    return std::unique_ptr<HostKernel>(
        std::make_unique<WrongKernel>(std::move(right), request.outputs[0], off));
  };
}

Status Fail(const OpRequest& request, const KernelArgs&) {
  return absl::UnavailableError(absl::StrCat("device lost in ", request.def->name));
}

// The built-in leaves, and `other`: the reference device with another kernel for one op, or none.
DeviceRegistry WithOther(const std::string& op, const KernelFactory& kernel) {
  auto kernels = std::make_shared<KernelRegistry>();
  const auto reference = ReferenceKernels();
  for (const auto& [name, entry] : reference->entries()) {
    if (name != op) kernels->Add(name, entry.create, entry.accumulable);
  }
  if (kernel != nullptr) kernels->Add(op, kernel);
  DeviceRegistry registry = BuiltinLeaves();
  registry.Add({"other", [kernels]() -> StatusOr<std::vector<std::unique_ptr<Device>>> {
                  HostDeviceOptions options;
                  options.info = {.name = "other:0", .leaf = "other", .model = "own"};
                  options.info.memory_bytes = int64_t{1} << 30;
                  options.dtypes = {DType::kF32, DType::kF64, DType::kI32, DType::kI64};
                  options.kernels = {kernels};
                  std::vector<std::unique_ptr<Device>> devices;
                  devices.push_back(MakeHostDevice(std::move(options)));
                  return devices;
                }});
  return registry;
}

// Compares the device with the reference device, in these ops.
Report Compare(const DeviceRegistry& registry, std::vector<std::string> ops, int64_t steps = 0) {
  auto report = CompareDevices(registry, {.leaves = {"reference", "other"},
                                          .ops = std::move(ops),
                                          .largest_case = 200,
                                          .training_steps = steps});
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *std::move(report) : Report();
}

std::vector<std::string> Exceeding(const Report& report) {
  std::vector<std::string> names;
  for (const OpRow& r : report.pairs.at(0).ops) {
    if (r.deviation.of_allowed <= 1) continue;
    names.push_back(absl::StrCat(r.op, " ", Name(r.dtype), r.backward ? " backward" : ""));
  }
  return names;
}

TEST(Parity, TheSameArithmeticIsEqualToTheBit) {
  const Report report = Compare(WithOther("", nullptr), {"gelu", "linear", "layer_norm"}, 3);
  EXPECT_TRUE(report.ok());
  ASSERT_EQ(report.pairs.size(), 1u);
  const Pair& pair = report.pairs[0];
  EXPECT_EQ(pair.a, "reference:0");
  EXPECT_EQ(pair.b, "other:0");
  EXPECT_EQ(pair.ops.size(), 3u * 4 * 2);  // dtypes, forward and backward
  for (const OpRow& r : pair.ops) {
    EXPECT_EQ(r.deviation.largest, 0) << r.op;
    EXPECT_GT(r.cases, 2) << r.op;
    EXPECT_THAT(r.on_reference_code, ::testing::ElementsAre("other"));
  }
  ASSERT_EQ(pair.training.size(), 2u);
  EXPECT_EQ(pair.training[1].model, "gpt");
  EXPECT_EQ(pair.training[1].losses.of_allowed, 0);
  EXPECT_THAT(pair.lacks, IsEmpty());
}

// However small the cases must be.
TEST(Parity, EveryOpIsCompared) {
  const Report report = Compare(WithOther("", nullptr), {});
  std::set<std::string> compared;
  for (const OpRow& r : report.pairs.at(0).ops) compared.insert(r.op);
  for (const std::string& op : BuiltinOps()->names()) EXPECT_TRUE(compared.count(op)) << op;
}

TEST(Parity, AnOpThatIsSlightlyWrongIsNamedFirst) {
  const Report report = Compare(WithOther("gelu", OffBy(1e-3)), {"add", "gelu", "tanh"});
  EXPECT_FALSE(report.ok());
  ASSERT_FALSE(report.pairs.at(0).ops.empty());
  const OpRow& worst = report.pairs[0].ops[0];
  EXPECT_EQ(worst.op, "gelu");
  EXPECT_FALSE(worst.backward);
  // Half precision does not see it.
  EXPECT_THAT(Exceeding(report), ::testing::UnorderedElementsAre("gelu f32", "gelu f64"));
  EXPECT_NEAR(worst.deviation.largest, 1e-3, 1e-4);
  EXPECT_THAT(ToText(report), AllOf(HasSubstr("gelu f64"), HasSubstr("2 beyond what is allowed"),
                                    HasSubstr("NOT within")));
}

TEST(Parity, AWrongGradientShowsInTheOpThatNeedsIt) {
  const Report report = Compare(WithOther("tanh_grad", OffBy(1e-3)), {"tanh", "exp"});
  EXPECT_THAT(Exceeding(report),
              ::testing::UnorderedElementsAre("tanh f32 backward", "tanh f64 backward"));
}

TEST(Parity, AWrongWeightGradientShowsInTraining) {
  const Report report = Compare(WithOther("linear_grad_weight", OffBy(0.05)), {"add"}, 5);
  EXPECT_THAT(Exceeding(report), IsEmpty());
  EXPECT_FALSE(report.ok());
  ASSERT_EQ(report.pairs.at(0).training.size(), 2u);
  EXPECT_GT(report.pairs[0].training[0].parameters.of_allowed, 1);
  EXPECT_THAT(report.pairs[0].training[0].parameters.where, HasSubstr("weight"));
}

TEST(Parity, WhatADeviceLacksIsListedWithTheReason) {
  const Report report = Compare(WithOther("tanh_grad", nullptr), {"tanh", "tanh_grad"}, 1);
  EXPECT_TRUE(report.ok());
  const auto lack = [](const std::string& what) {
    return AllOf(Field(&Lack::device, "other:0"), Field(&Lack::what, what),
                 Field(&Lack::reason, "no kernel"));
  };
  EXPECT_THAT(report.pairs.at(0).lacks,
              AllOf(Contains(lack("tanh_grad f32")), Contains(lack("tanh f64 backward"))));
  const auto json = nlohmann::json::parse(ToJson(report));
  EXPECT_EQ(json["pairs"][0]["lacks"].size(), report.pairs[0].lacks.size());
}

TEST(Parity, AnOpThatFailsExceeds) {
  const Report report = Compare(WithOther("tanh", StatelessKernel(&Fail, "own")), {"tanh"});
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(report.pairs.at(0).ops.at(0).deviation.error,
              AllOf(HasSubstr("other:0"), HasSubstr("device lost in tanh")));
  const auto json = nlohmann::json::parse(ToJson(report));
  EXPECT_TRUE(json["pairs"][0]["ops"][0]["of_allowed"].is_null());
  EXPECT_TRUE(json["pairs"][0]["ops"][0]["exceeded"].get<bool>());
}

TEST(Parity, WhatIsAskedForMustBeThere) {
  DeviceRegistry registry = BuiltinLeaves();
  registry.Add({"gone", [] {
                  return StatusOr<std::vector<std::unique_ptr<Device>>>(
                      FailedPrecondition("no driver"));
                }});
  auto report = CompareDevices(
      registry, {.leaves = {"reference", "sim", "gone"}, .ops = {"add"}, .training_steps = 0});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->pairs.at(0).ok());
  EXPECT_FALSE(report->ok());
  EXPECT_THAT(ToText(*report), HasSubstr("left out: gone: no driver"));

  // Unasked, it is left out, and so is `sim`.
  report = CompareDevices(registry, {.ops = {"add"}, .training_steps = 0});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->ok());
  EXPECT_EQ(report->pairs.size(), 1u);

  EXPECT_EQ(CompareDevices(registry, {.leaves = {"reference"}}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(CompareDevices(registry, {.leaves = {"referense"}}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CompareDevices(registry, {.ops = {"gelou"}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace oc::parity

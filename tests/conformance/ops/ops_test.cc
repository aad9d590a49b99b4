// Runs every case on a leaf's device: each result against the reference device's, also with
// misaligned operands, in place and adding to the output, and each gradient against finite
// differences. Prints how many ops × dtypes each device passed and which it lacks.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>

#include "../leaves/leaves.h"
#include "harness.h"
#include "openclaw/devices/export.h"
#include "openclaw/devices/reference/reference.h"
#include "openclaw/graph/sum_chunks.h"

namespace oc::parity {
namespace {

// A slice that ops run on.
struct Target {
  std::string name;
  bool is_reference = false;  // the oracle itself: compared with its own results in f64
  std::unique_ptr<Device> device;
  std::unique_ptr<Slice> slice;
  std::unique_ptr<OpRunner> runner;
  // "op dtype" -> whether all its cases passed; unsupported: -> reason.
  std::map<std::string, bool> passed;
  std::map<std::string, std::string> unsupported;
  std::set<std::string> on_reference_code;
};

StatusOr<Target> MakeTarget(const DeviceLeaf& leaf, int threads) {
  Target target;
  OC_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Device>> devices, leaf.discover());
  if (devices.empty()) return FailedPrecondition("leaf ", leaf.name, " finds no device");
  target.name = absl::StrCat(leaf.name, "_", threads, "t");
  target.is_reference = leaf.name == "reference";
  target.device = std::move(devices[0]);
  OC_ASSIGN_OR_RETURN(target.slice, target.device->CreateSlice({.threads = threads}));
  target.runner = std::make_unique<OpRunner>(*target.slice, BuiltinOps());
  return target;
}

// The same numbers as f64, for what the reference device is compared with: inputs in the case's
// dtype.
std::vector<Tensor> Widened(const OpCase& c, const std::vector<Tensor>& tensors,
                            DType activations) {
  std::vector<Tensor> result;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    const bool fixed = i < c.inputs.size() && c.inputs[i].dtype.has_value();
    if (t.dtype() != activations || fixed) {
      result.push_back(t);
      continue;
    }
    Tensor wide({DType::kF64, t.shape()});
    for (int64_t j = 0; j < t.num_elements(); ++j) wide.set(j, t.at(j));
    result.push_back(wide);
  }
  return result;
}

Tensor Cast(const Tensor& t, const TensorType& type) {
  Tensor result(type);
  for (int64_t i = 0; i < t.num_elements(); ++i) result.set(i, t.at(i));
  return result;
}

// What is counted: sums in a wider type than the operands' are a variant of their own.
std::string KeyOf(const OpCase& c, DType dtype) {
  const bool wide = c.attrs.Has("dtype") && TakesSumType(*BuiltinOps()->Find(c.op));
  return absl::StrCat(c.op, " ", Name(dtype), wide ? " into f32" : "");
}

class CaseRun {
 public:
  CaseRun(Target& target, OpRunner& reference, const OpCase& c, DType dtype)
      : target_(target),
        reference_(reference),
        c_(c),
        dtype_(dtype),
        def_(reference.ops().Find(c.op)) {}

  // Empty, or what is wrong.
  std::string Run() {
    auto inputs = MakeInputs(c_, dtype_, reference_);
    if (!inputs.ok()) return inputs.status().ToString();
    inputs_ = std::move(inputs).value();
    if (c_.error) return CheckError();
    auto expected = Expected();
    if (!expected.ok()) return absl::StrCat("reference: ", expected.status().ToString());
    expected_ = std::move(expected).value();

    std::string error = Compare("", {});
    if (!error.empty() || unsupported_) return error;
    error = Compare("misaligned: ", {.misalign = 24});
    if (error.empty() && !def_->reuse.empty()) error = Compare("in place: ", {.in_place = true});
    for (uint32_t bit = 0; error.empty() && bit < expected_.size(); ++bit) {
      if (HasOutput(def_->accumulable, bit)) error = CompareAccumulating(bit);
    }
    if (error.empty() && def_->lists == OpDef::Lists::kEach) error = CompareTensors();
    return error;
  }
  bool unsupported() const { return unsupported_; }

 private:
  // The reference device's outputs; for itself, those that it computes in f64.
  StatusOr<std::vector<Tensor>> Expected() {
    const bool widen = target_.is_reference && IsFloat(dtype_) && !c_.attrs.Has("dtype");
    OC_ASSIGN_OR_RETURN(std::vector<Tensor> own, reference_.Run(c_.op, c_.attrs, inputs_));
    if (!widen) return own;
    auto result = reference_.Run(c_.op, c_.attrs, Widened(c_, inputs_, dtype_));
    // Statistics of narrow activations are f32; of wide ones, wide.
    if (absl::IsInvalidArgument(result.status())) {
      result =
          reference_.Run(c_.op, c_.attrs, Widened(c_, Widened(c_, inputs_, dtype_), DType::kF32));
    }
    OC_ASSIGN_OR_RETURN(std::vector<Tensor> wide, std::move(result));
    for (size_t i = 0; i < own.size(); ++i) wide[i] = Cast(wide[i], own[i].type());
    return wide;
  }

  std::string CheckError() {
    auto outputs = target_.runner->Run(c_.op, c_.attrs, inputs_);
    if (absl::IsUnimplemented(outputs.status()) && *c_.error != absl::StatusCode::kUnimplemented) {
      return Unsupported(outputs.status());
    }
    if (outputs.status().code() == *c_.error) return "";
    return absl::StrCat("ends with ", outputs.status().ToString(), ", wants ",
                        absl::StatusCodeToString(*c_.error));
  }

  std::string Unsupported(const Status& status) {
    unsupported_ = true;
    const std::string key = KeyOf(c_, dtype_);
    target_.unsupported.emplace(key, absl::StrCat(c_.name, ": ", std::string(status.message())));
    return "";
  }

  std::string Compare(const char* what, const OpRunner::Options& options) {
    std::string implementation;
    auto outputs = target_.runner->Run(c_.op, c_.attrs, inputs_, options, &implementation);
    if (absl::IsUnimplemented(outputs.status())) return Unsupported(outputs.status());
    if (!outputs.ok()) return absl::StrCat(what, outputs.status().ToString());
    if (implementation == "reference") {
      target_.on_reference_code.insert(absl::StrCat(c_.op, " ", Name(dtype_)));
    }
    return Differences(what, *outputs, expected_);
  }

  std::string CompareAccumulating(uint32_t bit) {
    OpRequest request{.def = def_, .attrs = c_.attrs, .accumulate = 1u << bit};
    for (const Tensor& t : inputs_) request.inputs.push_back(t.type());
    for (const Tensor& t : expected_) request.outputs.push_back(t.type());
    auto support = target_.slice->Support(request);
    if (!support.ok()) return support.status().ToString();
    if (!support->supported) return "";
    OpRunner::Options options{.accumulate = 1u << bit};
    std::vector<Tensor> sums;
    for (size_t i = 0; i < expected_.size(); ++i) {
      Tensor initial(expected_[i].type());
      Tensor sum(expected_[i].type());
      for (int64_t j = 0; j < initial.num_elements(); ++j) {
        if (i == bit) initial.set(j, static_cast<double>(j % 7) - 3.0);
        sum.set(j, initial.at(j) + expected_[i].at(j));
      }
      options.initial.push_back(initial);
      sums.push_back(sum);
    }
    auto outputs = target_.runner->Run(c_.op, c_.attrs, inputs_, options);
    if (absl::IsUnimplemented(outputs.status())) return "";
    if (!outputs.ok()) return absl::StrCat("accumulating: ", outputs.status().ToString());
    return Differences("accumulating: ", *outputs, sums);
  }

  // Of a list of tensors each comes out as it does alone; of one tensor of several chunks, the
  // parts of whole chunks do as in the whole. To the last bit.
  std::string CompareTensors() {
    const TensorList list = ListOf(*def_, c_.attrs, inputs_.size());
    auto whole = target_.runner->Run(c_.op, c_.attrs, inputs_);
    if (!whole.ok()) return whole.status().ToString();
    const size_t outputs = whole->size() / static_cast<size_t>(list.tensors);
    for (int t = 0; list.tensors > 1 && t < list.tensors; ++t) {
      auto alone = target_.runner->Run(c_.op, c_.attrs, PartOf(list, t, 0, -1));
      if (!alone.ok()) return absl::StrCat("tensor ", t, ": ", alone.status().ToString());
      for (size_t o = 0; o < outputs; ++o) {
        const std::string difference =
            Difference((*alone)[o], (*whole)[static_cast<size_t>(t) * outputs + o], 0);
        if (!difference.empty()) return absl::StrCat("tensor ", t, " alone: ", difference);
      }
    }
    // Adafactor's sums are of the whole tensor.
    const int64_t n = inputs_[0].num_elements();
    if (list.tensors > 1 || n <= kSumChunk || c_.op == "adafactor") return "";
    std::vector<int64_t> done(outputs, 0);
    for (const auto& [begin, end] : {std::pair{int64_t{0}, kSumChunk}, {kSumChunk, n}}) {
      auto part = target_.runner->Run(c_.op, c_.attrs, PartOf(list, 0, begin, end));
      if (!part.ok()) return absl::StrCat("a part: ", part.status().ToString());
      for (size_t o = 0; o < outputs; ++o) {
        const int64_t size = (*part)[o].num_elements();
        const std::string difference =
            Difference((*part)[o], Elements((*whole)[o], done[o], done[o] + size), 0);
        if (!difference.empty()) return absl::StrCat("output ", o, " of a part: ", difference);
        done[o] += size;
      }
    }
    return "";
  }

  // Elements begin..end-1 as a tensor of one dimension.
  static Tensor Elements(const Tensor& t, int64_t begin, int64_t end) {
    Tensor part({t.dtype(), {end - begin}});
    for (int64_t i = begin; i < end; ++i) part.set(i - begin, t.at(i));
    return part;
  }
  // The inputs of tensor t alone; with an end, of its elements begin..end-1. Operands of another
  // size, such as sums, stay whole.
  std::vector<Tensor> PartOf(const TensorList& list, int t, int64_t begin, int64_t end) const {
    std::vector<Tensor> part;
    for (int i = 0; i < list.operands; ++i) {
      const Tensor& operand = inputs_[static_cast<size_t>(t * list.operands + i)];
      const bool divides = end >= 0 && operand.num_elements() == inputs_[0].num_elements();
      part.push_back(divides ? Elements(operand, begin, end) : operand);
    }
    part.insert(part.end(), inputs_.end() - list.shared, inputs_.end());
    return part;
  }

  std::string Differences(const char* what, const std::vector<Tensor>& actual,
                          const std::vector<Tensor>& expected) {
    for (size_t i = 0; i < expected.size(); ++i) {
      if (!Compares(c_, static_cast<int>(i))) continue;
      const double tolerance = c_.tolerance * Tolerance(expected[i].dtype(), dtype_);
      const std::string difference = Difference(actual[i], expected[i], tolerance);
      if (!difference.empty()) return absl::StrCat(what, "output ", i, ": ", difference);
    }
    return "";
  }

  Target& target_;
  OpRunner& reference_;
  const OpCase& c_;
  DType dtype_;
  const OpDef* def_;
  std::vector<Tensor> inputs_, expected_;
  bool unsupported_ = false;
};

// A test made of a function.
class FunctionTest : public ::testing::Test {
 public:
  explicit FunctionTest(std::function<void()> body) : body_(std::move(body)) {}
  void TestBody() override { body_(); }

 private:
  std::function<void()> body_;
};

void Register(const std::string& suite, const std::string& name, std::function<void()> body) {
  ::testing::RegisterTest(
      suite.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
      [body = std::move(body)]() -> ::testing::Test* { return new FunctionTest(body); });
}

using CasesByOp = std::map<std::string, std::vector<OpCase>>;

void RunCases(Target& target, OpRunner& reference, const std::vector<OpCase>& cases) {
  for (const OpCase& c : cases) {
    for (DType dtype : c.dtypes) {
      CaseRun run(target, reference, c, dtype);
      const std::string error = run.Run();
      EXPECT_EQ(error, "") << CaseName(c, dtype) << " on " << target.name;
      const std::string key = KeyOf(c, dtype);
      auto [it, inserted] = target.passed.emplace(key, true);
      it->second = it->second && error.empty() && !run.unsupported();
      if (target.is_reference) {
        EXPECT_FALSE(run.unsupported()) << CaseName(c, dtype) << ": " << target.unsupported[key];
      }
    }
  }
}

// Finite differences evaluate an op often, and its gradient rule is the same at any size.
constexpr int64_t kLargestProbed = 4000;

void RunGradients(OpRunner& reference, const std::vector<OpCase>& cases) {
  for (const OpCase& c : cases) {
    const OpDef* def = reference.ops().Find(c.op);
    const bool floats = std::count(c.dtypes.begin(), c.dtypes.end(), DType::kF64) != 0;
    if (def->gradient == nullptr || !c.gradient || !floats || c.error ||
        NumElements(c) > kLargestProbed)
      continue;
    EXPECT_EQ(GradientError(c, reference), "") << CaseName(c, DType::kF64);
  }
}

void RunDecompositions(OpRunner& reference, const std::vector<OpCase>& cases) {
  for (const OpCase& c : cases) {
    if (reference.ops().Find(c.op)->decompose == nullptr || c.error) continue;
    EXPECT_EQ(DecompositionError(c, c.dtypes[0], reference), "") << CaseName(c, c.dtypes[0]);
  }
}

void PrintCounts(const Target& target) {
  int passed = 0;
  for (const auto& [key, ok] : target.passed) passed += ok ? 1 : 0;
  std::printf("%s: %d of %d ops × dtypes passed, %d lack a variant, %d on reference code\n",
              target.name.c_str(), passed, static_cast<int>(target.passed.size()),
              static_cast<int>(target.unsupported.size()),
              static_cast<int>(target.on_reference_code.size()));
  for (const auto& [key, reason] : target.unsupported) {
    std::printf("  unsupported %s: %s\n", key.c_str(), reason.c_str());
  }
}

// What needs to hold of the ops themselves, on whatever device.
void RegisterReferenceChecks(OpRunner& reference, const CasesByOp& by_op) {
  for (const auto& [op, cases] : by_op) {
    Register("gradient", op, [&reference, &cases = cases] { RunGradients(reference, cases); });
    Register("decomposition", op,
             [&reference, &cases = cases] { RunDecompositions(reference, cases); });
  }
  Register("coverage", "every_op_has_cases", [&] {
    for (const std::string& op : reference.ops().names()) EXPECT_TRUE(by_op.count(op)) << op;
  });
}

int Main() {
  auto oracle = MakeTarget(ThroughTable<&DiscoverReference>("reference"), 1);
  if (!oracle.ok()) {
    std::fprintf(stderr, "%s\n", oracle.status().ToString().c_str());
    return 1;
  }
  std::vector<Target> targets;
  for (const LeafUnderTest& under_test : LeavesUnderTest()) {
    for (int threads : under_test.threads) {
      auto target = MakeTarget(under_test.leaf, threads);
      if (!target.ok()) {
        std::fprintf(stderr, "%s\n", target.status().ToString().c_str());
        return 1;
      }
      targets.push_back(std::move(target).value());
    }
  }
  // What CTest calls skipped; the leaf said why.
  constexpr int kSkipped = 77;
  if (targets.empty()) return kSkipped;
  CasesByOp by_op;
  for (OpCase& c : AllCases()) by_op[c.op].push_back(std::move(c));
  OpRunner& reference = *oracle->runner;
  for (Target& target : targets) {
    for (const auto& [op, cases] : by_op) {
      Register(target.name, op, [&] { RunCases(target, reference, cases); });
    }
  }
  if (targets[0].is_reference) RegisterReferenceChecks(reference, by_op);
  const int result = RUN_ALL_TESTS();
  for (const Target& target : targets) PrintCounts(target);
  return result;
}

}  // namespace
}  // namespace oc::parity

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return oc::parity::Main();
}

// Dropout. Which elements stay is the product's own counter-based generator, bit for bit as
// core/rng.h has it, in i64 arithmetic of operators: of products the lower 64 bits count, as two's
// complement has them.
#include <cmath>
#include <numeric>

#include "openclaw/devices/ascend/plan.h"

namespace oc::ascend {
namespace {

constexpr int64_t kLow32 = 0xFFFFFFFF;
constexpr int64_t kFactors[2] = {0xD2511F53, 0xCD9E8D57};
constexpr int64_t kWeyl[2] = {0x9E3779B9, 0xBB67AE85};
constexpr int kRounds = 10;

// Philox4x32-10 of many blocks, as a plan.
class PhiloxPlan {
 public:
  // seed, stream: i64[1]; low: i64[n], the lower half of each block's counter.
  PhiloxPlan(Plan& plan, const View& seed, const View& stream, const View& low)
      : plan_(plan), shift32_(plan.Constant(std::vector<int64_t>{32}, {1})), n_(low.elements()) {
    for (int i = 0; i < 2; ++i) {
      state_.push_back(Half(low, i == 1));
      keys_[i] = Keys(Half(seed, i == 1), kWeyl[i]);
    }
    for (int i = 0; i < 2; ++i) state_.push_back(Half(stream, i == 1));
    for (int round = 0; round < kRounds; ++round) Round(round);
  }

  // Word 0 to 3 of each block: i64[n].
  const View& word(int i) const { return state_[static_cast<size_t>(i)]; }

 private:
  View New(int64_t n) { return plan_.Reserve(DType::kI64, {n}); }
  void ShiftAndMask(const View& from, const View& to) {
    plan_.Call(Operator::kRightShift, {from, shift32_, to});
    plan_.Call(Operator::kBitwiseAndScalar, {to, Whole{kLow32}, to});
  }
  View Half(const View& from, bool upper) {
    const View half = New(from.elements());
    if (upper) {
      ShiftAndMask(from, half);
    } else {
      plan_.Call(Operator::kBitwiseAndScalar, {from, Whole{kLow32}, half});
    }
    return half;
  }
  // Of all rounds.
  View Keys(const View& first, int64_t weyl) {
    std::vector<int64_t> steps;
    for (int64_t r = 0; r < kRounds; ++r) steps.push_back(r * weyl & kLow32);
    const View keys = New(kRounds);
    plan_.Add(plan_.Constant(steps, {kRounds}), first, keys);
    plan_.Call(Operator::kBitwiseAndScalar, {keys, Whole{kLow32}, keys});
    return keys;
  }
  // Room for n numbers: words that this round writes and the next but one may overwrite.
  View Room(int round, int slot) {
    auto& room = rooms_[slot < 4 ? round % 2 : 0][slot];
    if (room.dims.empty()) room = New(n_);
    return room;
  }
  View First(const View& room, int64_t n) const { return n == n_ ? room : room.Sliced(0, 0, n); }

  // From words c0..c3: (upper(c2 * f1) ^ c1 ^ k0, lower(c2 * f1), upper(c0 * f0) ^ c3 ^ k1,
  // lower(c0 * f0)). What does not depend on the block is one number until it meets what does.
  void Round(int round) {
    std::vector<View> next(4);
    for (int i = 0; i < 2; ++i) {
      const View& from = state_[i == 0 ? 2 : 0];
      const View& other = state_[i == 0 ? 1 : 3];
      const int64_t n = from.elements(), wide = std::max(n, other.elements());
      const View product = First(Room(round, 4), n), upper = First(Room(round, 5), n);
      const View mixed = First(Room(round, 2 * i), wide), lower = First(Room(round, 2 * i + 1), n);
      plan_.Call(Operator::kMuls, {from, Whole{kFactors[1 - i]}, product});
      ShiftAndMask(product, upper);
      plan_.Call(Operator::kBitwiseAndScalar, {product, Whole{kLow32}, lower});
      plan_.Call(Operator::kBitwiseXorTensor, {upper, other, mixed});
      plan_.Call(Operator::kBitwiseXorTensor, {mixed, keys_[i].Sliced(0, round, 1), mixed});
      next[static_cast<size_t>(2 * i)] = mixed;
      next[static_cast<size_t>(2 * i + 1)] = lower;
    }
    state_ = std::move(next);
  }

  Plan& plan_;
  const View shift32_;
  const int64_t n_;
  std::vector<View> state_;
  View keys_[2];
  View rooms_[2][6];
};

std::vector<int64_t> CountUp(int64_t n) {
  std::vector<int64_t> numbers(static_cast<size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// Where a word's upper 24 bits reach the threshold.
View Reaches(Plan& plan, const View& word, int64_t threshold) {
  const View bits = plan.Reserve(DType::kI64, word.dims);
  const View reaches = plan.Reserve(DType::kBool, word.dims);
  plan.Call(Operator::kRightShift, {word, plan.Constant(std::vector<int64_t>{8}, {1}), bits});
  plan.Call(Operator::kGeScalar, {bits, Whole{threshold}, reaches});
  return reaches;
}

// Blocks of four elements, where samples begin at a block's begin.
View MaskOfBlocks(Plan& plan, const View& seed, const View& stream, const View& first, int64_t n,
                  int64_t sample, int64_t threshold) {
  const int64_t blocks = n / 4;
  const View base = plan.Reserve(DType::kI64, {1}), low = plan.Reserve(DType::kI64, {blocks});
  plan.Call(Operator::kMuls, {first, Whole{sample / 4}, base});
  plan.Add(plan.Constant(CountUp(blocks), {blocks}), base, low);
  const PhiloxPlan words(plan, seed, stream, low);
  const View mask = plan.Reserve(DType::kBool, {blocks, 4});
  for (int i = 0; i < 4; ++i) {
    plan.Copy(Reaches(plan, words.word(i), threshold).Shaped({blocks, 1}), mask.Sliced(1, i, 1));
  }
  return mask.Flat();
}

// A block for each element, of which one word is used.
View MaskOfElements(Plan& plan, const View& seed, const View& stream, const View& first, int64_t n,
                    int64_t sample, int64_t threshold) {
  const View base = plan.Reserve(DType::kI64, {1}), index = plan.Reserve(DType::kI64, {n});
  const View low = plan.Reserve(DType::kI64, {n}), which = plan.Reserve(DType::kI64, {n});
  plan.Call(Operator::kMuls, {first, Whole{sample}, base});
  plan.Add(plan.Constant(CountUp(n), {n}), base, index);
  plan.Call(Operator::kRightShift, {index, plan.Constant(std::vector<int64_t>{2}, {1}), low});
  plan.Call(Operator::kBitwiseAndScalar, {index, Whole{3}, which});
  const PhiloxPlan words(plan, seed, stream, low);
  const View word = plan.Reserve(DType::kI64, {n}), other = plan.Reserve(DType::kBool, {n});
  plan.Copy(words.word(0), word);
  for (int i = 1; i < 4; ++i) {
    plan.Call(Operator::kNeScalar, {which, Whole{i}, other});
    plan.Call(Operator::kSWhere, {other, word, words.word(i), word});
  }
  return Reaches(plan, word, threshold);
}

Status Dropout(const OpRequest& r, Plan& plan) {
  const View x = plan.InF32(0).Flat(), y = plan.OutF32(0).Flat();
  const int64_t n = x.elements();
  if (n == 0) return OkStatus();
  if (!r.attrs.Bool("training", true)) {
    plan.Copy(x, y);
    return OkStatus();
  }
  const double p = r.attrs.Double("p");
  const auto threshold =
      static_cast<int64_t>(std::ceil(static_cast<double>(static_cast<float>(p)) * 0x1p24));
  // seed, step, first sample.
  const View numbers = plan.In(1);
  const View seed = numbers.Sliced(0, 0, 1), first = numbers.Sliced(0, 2, 1);
  const View stream = plan.Reserve(DType::kI64, {1});
  plan.Call(Operator::kMuls,
            {numbers.Sliced(0, 1, 1), Whole{static_cast<int64_t>(0x9E3779B97F4A7C15u)}, stream});
  plan.Call(Operator::kBitwiseXorTensor,
            {stream, plan.Constant(std::vector<int64_t>{r.attrs.Int("stream")}, {1}), stream});
  const int64_t sample = n / r.inputs[0].shape[0].size();
  const View mask = sample % 4 == 0
                        ? MaskOfBlocks(plan, seed, stream, first, n, sample, threshold)
                        : MaskOfElements(plan, seed, stream, first, n, sample, threshold);
  const View scaled = plan.Reserve(DType::kF32, {n});
  plan.Scale(x, 1 / (1 - p), scaled);
  plan.Call(Operator::kSWhere, {mask, scaled, plan.Constant(std::vector<float>{0}, {1}), y});
  return OkStatus();
}

}  // namespace

void RegisterDropout(PlanRegistry& registry) { registry["dropout"] = {Dropout}; }

}  // namespace oc::ascend

#include "openclaw/devices/ascend/plan.h"

#include <algorithm>
#include <cstring>

#include "openclaw/devices/strides.h"

namespace oc::ascend {
namespace {

std::vector<int64_t> DenseStrides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

View Dense(const Place& place, DType dtype, std::vector<int64_t> dims) {
  if (dims.empty()) dims = {1};
  std::vector<int64_t> strides = DenseStrides(dims);
  return {place, dtype, std::move(dims), std::move(strides), 0};
}

}  // namespace

int64_t RoomFor(int64_t bytes) {
  constexpr int64_t kAlign = 64, kBehind = 32;
  return (bytes + kBehind + kAlign - 1) / kAlign * kAlign;
}

int64_t View::elements() const {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

View View::Shaped(std::vector<int64_t> new_dims) const {
  View view = Dense(place, dtype, std::move(new_dims));
  view.offset = offset;
  OC_CHECK(view.elements() == elements());
  return view;
}

View View::Permuted(const std::vector<int>& axes) const {
  View view = *this;
  for (size_t i = 0; i < axes.size(); ++i) {
    view.dims[i] = dims[static_cast<size_t>(axes[i])];
    view.strides[i] = strides[static_cast<size_t>(axes[i])];
  }
  return view;
}

View View::Transposed() const {
  View view = *this;
  const size_t n = dims.size();
  std::swap(view.dims[n - 1], view.dims[n - 2]);
  std::swap(view.strides[n - 1], view.strides[n - 2]);
  return view;
}

View View::Sliced(int axis, int64_t begin, int64_t size) const {
  View view = *this;
  view.offset += begin * strides[static_cast<size_t>(axis)];
  view.dims[static_cast<size_t>(axis)] = size;
  return view;
}

View View::Unsqueezed(int axis) const {
  View view = *this;
  view.dims.insert(view.dims.begin() + axis, 1);
  view.strides.insert(view.strides.begin() + axis, 0);
  return view;
}

View View::Expanded(const std::vector<int64_t>& new_dims) const {
  View view = *this;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] != new_dims[d]) view.strides[d] = 0;
  }
  view.dims = new_dims;
  return view;
}

View Plan::Of(Place::Kind kind, int i, const TensorType& type) const {
  std::vector<int64_t> dims;
  for (int d = 0; d < type.shape.rank(); ++d) dims.push_back(type.shape[d].size());
  return Dense({kind, i, 0}, type.dtype, std::move(dims));
}

View Plan::In(int i) const { return Of(Place::kInput, i, request_.inputs[static_cast<size_t>(i)]); }
View Plan::Out(int i) const {
  return Of(Place::kOutput, i, request_.outputs[static_cast<size_t>(i)]);
}

View Plan::InF32(int i) {
  const View in = In(i);
  if (in.dtype == DType::kF32) return in;
  if (const auto known = wide_inputs_.find(i); known != wide_inputs_.end()) return known->second;
  const View wide = Reserve(DType::kF32, in.dims);
  Call(Operator::kCast, {in, DType::kF32, wide});
  wide_inputs_.emplace(i, wide);
  return wide;
}

View Plan::OutF32(int i) {
  const View out = Out(i);
  if (out.dtype == DType::kF32) return OutAccumulated(i);
  const View wide = Reserve(DType::kF32, out.dims);
  casts_.emplace_back(wide, out);
  return wide;
}

View Plan::OutAccumulated(int i) {
  const View out = Out(i);
  if (!HasOutput(request_.accumulate, static_cast<size_t>(i))) return out;
  const View sum = Reserve(out.dtype, out.dims);
  sums_.emplace_back(sum, out);
  return sum;
}

View Plan::Reserve(DType dtype, std::vector<int64_t> dims) {
  View view = Dense({Place::kWorkspace, 0, workspace_}, dtype, std::move(dims));
  workspace_ += RoomFor(view.elements() * SizeInBytes(dtype));
  return view;
}

View Plan::Keep(const void* data, size_t bytes, DType dtype, std::vector<int64_t> dims) {
  const auto at = static_cast<int64_t>(constants_.size());
  constants_.resize(static_cast<size_t>(at + RoomFor(static_cast<int64_t>(bytes))));
  std::memcpy(constants_.data() + at, data, bytes);
  View view = Dense({Place::kConstant, 0, at}, dtype, std::move(dims));
  OC_CHECK(view.elements() * SizeInBytes(dtype) == static_cast<int64_t>(bytes));
  return view;
}

View Plan::Constant(const std::vector<float>& values, std::vector<int64_t> dims) {
  return Keep(values.data(), values.size() * sizeof(float), DType::kF32, std::move(dims));
}
View Plan::Constant(const std::vector<int64_t>& values, std::vector<int64_t> dims) {
  return Keep(values.data(), values.size() * sizeof(int64_t), DType::kI64, std::move(dims));
}
View Plan::ConstantMask(const std::vector<bool>& values, std::vector<int64_t> dims) {
  const std::vector<uint8_t> bytes(values.begin(), values.end());
  return Keep(bytes.data(), bytes.size(), DType::kBool, std::move(dims));
}

void Plan::Call(Operator op, std::vector<Arg> args) {
  for (const Arg& arg : args) {
    const auto* view = std::get_if<View>(&arg);
    if (view != nullptr && view->elements() == 0) return;
  }
  calls_.push_back({op, std::move(args)});
}

// A scalar is of the tensor's kind: of a float beside whole numbers an operator makes floats.
void Plan::Add(const View& a, const View& b, const View& out, double factor) {
  if (IsFloat(a.dtype)) return Call(Operator::kAdd, {a, b, Number{factor}, out});
  Call(Operator::kAdd, {a, b, Whole{static_cast<int64_t>(factor)}, out});
}
void Plan::Mul(const View& a, const View& b, const View& out) { Call(Operator::kMul, {a, b, out}); }
void Plan::Scale(const View& a, double factor, const View& out) {
  Call(Operator::kMuls, {a, Number{factor}, out});
}

void Plan::Sum(const View& from, const std::vector<int64_t>& axes, const View& to) {
  if (from.elements() == 0) return Clear(to);
  Call(Operator::kReduceSum, {from, Ints{axes}, Flag{true}, to.dtype, to});
}

void Plan::Product(const View& a, const View& b, const View& to) {
  if (a.dims.back() == 0) return Clear(to);
  Call(Operator::kMatmul, {a, b, to, Int{kKeepDtype}});
}

void Plan::Report(const View& bad, const View& values, const std::string& what,
                  const std::string& range) {
  if (bad.elements() == 0) return;
  const View result = Reserve(DType::kI64, {3, kCheckStride / 8});
  const auto slot = [&](int64_t i) {
    View view = result;
    view.place.offset += i * kCheckStride;
    view.dims = {1};
    view.strides = {1};
    return view;
  };
  // The first that is bad, if any.
  const View marks = Reserve(DType::kI32, bad.dims), most = Reserve(DType::kI32, {1});
  Call(Operator::kCast, {bad, DType::kI32, marks});
  Call(Operator::kAmax, {marks, Ints{{0}}, Flag{true}, most});
  Call(Operator::kCast, {most, DType::kI64, slot(0)});
  Call(Operator::kArgMax, {marks, Int{0}, Flag{true}, slot(1)});
  Call(Operator::kGather, {values, Int{0}, slot(1), slot(2)});
  checks_.push_back({result.place, what, range});
}

void Plan::Finish() {
  for (auto [from, to] : casts_) {
    if ((request_.accumulate >> to.place.index & 1) != 0) {
      // In f32, so that the sum is rounded once.
      const View before = Reserve(DType::kF32, to.dims), sum = Reserve(DType::kF32, to.dims);
      Call(Operator::kCast, {to, DType::kF32, before});
      Add(before, from, sum);
      from = sum;
    }
    Call(Operator::kCast, {from, to.dtype, to});
  }
  for (const auto& [from, to] : sums_) {
    if (IsFloat(to.dtype)) {
      Call(Operator::kInplaceAdd, {to, from, Number{1}});
    } else {
      Call(Operator::kInplaceAdd, {to, from, Whole{1}});
    }
  }
}

View AsRows(const View& view) {
  const int64_t columns = view.dims.back();
  return view.Shaped({columns == 0 ? 0 : view.elements() / columns, columns});
}

}  // namespace oc::ascend

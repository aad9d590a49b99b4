#include "openclaw/devices/cpu/native/adafactor_loops.h"

#include <cmath>
#include <cstring>

#include "openclaw/devices/cpu/native/optimizer_loops.h"
#include "openclaw/devices/cpu/native/tensor_list.h"

namespace oc::cpu {
namespace {

using Kernel = StatusOr<std::unique_ptr<HostKernel>>;

// One tensor as bands of whole rows, a chunk's size each (or one longer row), none across two
// matrices: what is summed over bands is the same for any number of threads. A tensor that is not
// factored is a matrix whose rows are chunks, each with an estimate of its own.
struct Bands {
  Bands(const Shape& shape, bool factored) : factored(factored) {
    const int64_t n = shape.num_elements();
    columns = factored ? shape[-1].size() : std::min(n, kSumChunk);
    rows = factored ? shape[-2].size() : SumChunks(n);
    matrices = n == 0 ? 0 : factored ? n / (rows * columns) : 1;
    height = std::max<int64_t>(1, kSumChunk / std::max<int64_t>(1, columns));
    per_matrix = (rows + height - 1) / height;
    last_columns = factored || n == 0 ? columns : n - (rows - 1) * columns;
  }
  int64_t count() const { return matrices * per_matrix; }
  int64_t elements() const {
    return matrices == 0 ? 0 : matrices * rows * columns - (columns - last_columns);
  }
  // f(row, element, n) for the rows of a band; rows count through all matrices.
  template <typename F>
  void ForRows(int64_t band, const F& f) const {
    const int64_t matrix = band / per_matrix, first = band % per_matrix * height;
    for (int64_t r = first; r < std::min(rows, first + height); ++r) {
      const int64_t row = matrix * rows + r;
      f(row, row * columns, r == rows - 1 ? last_columns : columns);
    }
  }
  // Of p's squares and of the step's a float a band; of a factored tensor also the scale of each
  // matrix's estimate and the sums of columns a band.
  int64_t workspace_floats() const {
    return 2 * count() + (factored ? matrices + count() * columns : 0);
  }

  bool factored;
  int64_t rows, columns, matrices, height, per_matrix, last_columns;
};

struct Settings {
  explicit Settings(const OpRequest& r)
      : scale(RateScale(r)),
        beta2_decay(r.attrs.Double("beta2_decay", -0.8)),
        eps1(r.attrs.Double("eps1", 0x1p-23)),
        eps2(r.attrs.Double("eps2", 1e-3)),
        d(r.attrs.Double("d", 1.0)),
        decay(r.attrs.Double("weight_decay", 0.0)),
        limit(ClipLimit(r)) {}
  double scale, beta2_decay, eps1, eps2, d, decay;
  float limit;
};

// One tensor's update; `row` and `column` are its states, or null and the whole second moment.
// The estimate of an element's second moment is row * column / (the mean of the rows).
class Update {
 public:
  Update(const Settings& s, const Bands& bands, FloatKind kind, int64_t gradient_size)
      : s_(s), bands_(bands), kind_(kind), gradient_size_(gradient_size) {}

  void Run(WorkerPool& pool, float* p, const std::byte* g, float* row, float* column,
           float* workspace, double lr, double t, float clip) const {
    const double fresh = std::pow(t, s_.beta2_decay);
    AdafactorStep step = {};
    step.clip = clip;
    step.limit = s_.limit;
    step.least = static_cast<float>(s_.eps1 * s_.eps1);
    float* const p_sums = workspace;
    float* const step_sums = p_sums + bands_.count();
    float* const scales = step_sums + bands_.count();
    float* const column_sums = scales + bands_.matrices;
    ForBands(pool, [&](int64_t band) {
      p_sums[band] = ParameterSquares(band, p);
      if (bands_.factored) {
        Squares(band, g, row, column_sums + band * bands_.columns, fresh, step);
      } else {
        bands_.ForRows(band, [&](int64_t, int64_t at, int64_t n) {
          loops_.take_up[kind_](column + at, Gradient(g, at), n, static_cast<float>(1.0 - fresh),
                                static_cast<float>(fresh), step);
        });
      }
    });
    if (bands_.factored) {
      TakeUpColumns(pool, column, column_sums, fresh);
      FindScales(pool, row, scales);
    }
    const Estimate estimate = {row, column, scales};
    ForBands(pool, [&](int64_t band) { step_sums[band] = StepSquares(band, g, estimate, step); });

    const double size = RootMeanSquare(p_sums), excess = RootMeanSquare(step_sums) / s_.d;
    const double alpha = std::max(s_.eps2, size) * std::min(lr, 1.0 / std::sqrt(t));
    step.keep = static_cast<float>(1.0 - lr * s_.decay);
    step.rate = static_cast<float>(alpha / std::max(1.0, excess));
    ForBands(pool, [&](int64_t band) {
      ForEstimates(band, estimate, [&](int64_t at, int64_t n, const float* columns, float r) {
        loops_.apply[kind_](p + at, Gradient(g, at), columns, r, n, step);
      });
    });
  }

 private:
  // What the second moment of an element is estimated from.
  struct Estimate {
    const float *row, *column, *scales;
  };
  template <typename F>
  void ForBands(WorkerPool& pool, const F& f) const {
    const int64_t cost = bands_.elements() / bands_.count();
    Split(pool, bands_.count(), cost, 1, [&](int64_t begin, int64_t end) {
      for (int64_t band = begin; band < end; ++band) f(band);
    });
  }
  const std::byte* Gradient(const std::byte* g, int64_t at) const {
    return g + at * gradient_size_;
  }
  float ParameterSquares(int64_t band, const float* p) const {
    double sum = 0;
    bands_.ForRows(band, [&](int64_t, int64_t at, int64_t n) {
      ForBlocks(at, at + n, [&](int64_t from, int64_t to) {
        sum += GetOptimizerLoops().sum_squares[kFloat32](p + from, to - from);
      });
    });
    return static_cast<float>(sum);
  }
  // Rows are taken up; columns are summed over the band.
  void Squares(int64_t band, const std::byte* g, float* row, float* column_sums, double fresh,
               const AdafactorStep& step) const {
    std::memset(column_sums, 0, static_cast<size_t>(bands_.columns) * sizeof(float));
    bands_.ForRows(band, [&](int64_t r, int64_t at, int64_t n) {
      double sum = 0;
      ForBlocks(0, n, [&](int64_t from, int64_t to) {
        sum += loops_.squares[kind_](Gradient(g, at + from), column_sums + from, to - from, step);
      });
      const double mean = sum / static_cast<double>(n);
      row[r] = static_cast<float>((1.0 - fresh) * row[r] + fresh * mean);
    });
  }
  void TakeUpColumns(WorkerPool& pool, float* column, const float* column_sums,
                     double fresh) const {
    const int64_t columns = bands_.columns;
    Split(pool, bands_.matrices * columns, bands_.per_matrix, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t matrix = i / columns, c = i % columns;
        double sum = 0;
        for (int64_t band = matrix * bands_.per_matrix; band < (matrix + 1) * bands_.per_matrix;
             ++band) {
          sum += column_sums[band * columns + c];
        }
        const double mean = sum / static_cast<double>(bands_.rows);
        column[i] = static_cast<float>((1.0 - fresh) * column[i] + fresh * mean);
      }
    });
  }
  // One over the mean of each matrix's rows.
  void FindScales(WorkerPool& pool, const float* row, float* scales) const {
    Split(pool, bands_.matrices, bands_.rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t matrix = begin; matrix < end; ++matrix) {
        double mean = 0;
        for (int64_t r = 0; r < bands_.rows; ++r) mean += row[matrix * bands_.rows + r];
        mean /= static_cast<double>(bands_.rows);
        scales[matrix] = static_cast<float>(1.0 / std::max(mean, s_.eps1));
      }
    });
  }
  // f(element, n, columns of the estimate, its factor) for the rows of a band.
  template <typename F>
  void ForEstimates(int64_t band, const Estimate& e, const F& f) const {
    const int64_t matrix = band / bands_.per_matrix;
    bands_.ForRows(band, [&](int64_t r, int64_t at, int64_t n) {
      const float* const columns = e.column + (bands_.factored ? matrix * bands_.columns : at);
      f(at, n, columns, bands_.factored ? e.row[r] * e.scales[matrix] : 1.0f);
    });
  }
  float StepSquares(int64_t band, const std::byte* g, const Estimate& estimate,
                    const AdafactorStep& step) const {
    double sum = 0;
    ForEstimates(band, estimate, [&](int64_t at, int64_t n, const float* columns, float r) {
      ForBlocks(0, n, [&](int64_t from, int64_t to) {
        sum += loops_.update_squares[kind_](Gradient(g, at + from), columns + from, r, to - from,
                                            step);
      });
    });
    return static_cast<float>(sum);
  }
  double RootMeanSquare(const float* sums) const {
    double total = 0;
    for (int64_t band = 0; band < bands_.count(); ++band) total += sums[band];
    return std::sqrt(total / static_cast<double>(bands_.elements()));
  }

  const Settings& s_;
  const Bands& bands_;
  const FloatKind kind_;
  const int64_t gradient_size_;
  const AdafactorLoops& loops_ = GetAdafactorLoops();
};

Kernel MakeAdafactor(const OpRequest& request, int) {
  OC_ASSIGN_OR_RETURN(const TensorRuns runs, TensorRuns::Create(request));
  if (runs.kind(0) != kFloat32) return NoKernel(request.inputs[0]);
  const bool factored = request.attrs.Bool("factored", true);
  const int operands = factored ? 4 : 3;
  std::vector<Bands> bands;
  int64_t floats = 0;
  for (int t = 0; t < runs.tensors(); ++t) {
    bands.emplace_back(request.inputs[t * operands].shape, factored);
    floats = std::max(floats, bands.back().workspace_floats());
  }
  const Settings settings(request);
  const FloatKind kind = runs.kind(1);
  const int64_t gradient_size = SizeInBytes(request.inputs[1].dtype);
  const auto run = [=](const KernelArgs& args) {
    const double lr = runs.shared(args, 0) * settings.scale, t = runs.shared(args, 1);
    for (int i = 0; i < runs.tensors(); ++i) {
      if (bands[i].count() == 0) continue;
      const auto output = [&](int o) { return reinterpret_cast<float*>(runs.out(args, i, o, 0)); };
      Update(settings, bands[i], kind, gradient_size)
          .Run(args.pool, output(0), runs.in(args, i, 1), factored ? output(1) : nullptr,
               output(factored ? 2 : 1), reinterpret_cast<float*>(args.workspace), lr, t,
               runs.shared(args, 2));
    }
  };
  return MakeKernel(run, floats * static_cast<int64_t>(sizeof(float)));
}

}  // namespace

void RegisterAdafactor(KernelRegistry& registry) { registry.Add("adafactor", MakeAdafactor); }

}  // namespace oc::cpu

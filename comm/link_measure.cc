#include "openclaw/comm/link_measure.h"

#include <algorithm>

#include "openclaw/comm/all_reduce.h"
#include "openclaw/comm/barrier.h"
#include "openclaw/comm/broadcast.h"
#include "openclaw/core/clock.h"

namespace oc {
namespace {

Status Check(const LinkMeasureOptions& options) {
  if (options.sizes.empty() || options.sizes.front() < 1 || options.repetitions < 1 ||
      !std::is_sorted(options.sizes.begin(), options.sizes.end())) {
    return InvalidArgument(
        "measure links: sizes must ascend from 1 or more, and repetitions be 1 or more");
  }
  return OkStatus();
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::span<std::byte> BytesOf(std::vector<double>& values) {
  return std::as_writable_bytes(std::span(values));
}

LinkCurve CurveOf(const std::vector<int64_t>& sizes, std::span<const double> seconds) {
  LinkCurve curve;
  for (size_t i = 0; i < sizes.size(); ++i) curve.points.push_back({sizes[i], seconds[i]});
  return curve;
}

}  // namespace

StatusOr<LinkCurve> MeasureLink(Transport& transport, int peer, const LinkMeasureOptions& options) {
  OC_RETURN_IF_ERROR(Check(options));
  const int rank = transport.rank();
  if (peer == rank || peer < 0 || peer >= transport.size()) {
    return InvalidArgument("measure link of rank ", rank, ": no peer ", peer);
  }
  const double timeout = options.timeout_seconds;
  const bool leads = rank < peer;
  std::vector<std::byte> buffer(options.sizes.back());
  std::vector<double> seconds;
  for (const int64_t size : options.sizes) {
    const auto bytes = std::span(buffer).first(size);
    std::vector<double> samples;
    for (int i = 0; i <= options.repetitions; ++i) {
      const double begin = NowSeconds();
      if (leads) {
        OC_RETURN_IF_ERROR(transport.Send(peer, options.tag, bytes, timeout));
        OC_RETURN_IF_ERROR(transport.Recv(peer, options.tag, bytes, timeout));
      } else {
        OC_RETURN_IF_ERROR(transport.Recv(peer, options.tag, bytes, timeout));
        OC_RETURN_IF_ERROR(transport.Send(peer, options.tag, bytes, timeout));
      }
      if (i > 0) samples.push_back((NowSeconds() - begin) / 2);
    }
    seconds.push_back(Median(std::move(samples)));
  }
  if (leads) {
    OC_RETURN_IF_ERROR(transport.Send(peer, options.tag + 1, BytesOf(seconds), timeout));
  } else {
    OC_RETURN_IF_ERROR(transport.Recv(peer, options.tag + 1, BytesOf(seconds), timeout));
  }
  return CurveOf(options.sizes, seconds);
}

StatusOr<std::vector<LinkCurve>> MeasureLinks(Transport& transport,
                                              const LinkMeasureOptions& options) {
  OC_RETURN_IF_ERROR(Check(options));
  const int n = transport.size(), rank = transport.rank();
  const int64_t points = static_cast<int64_t>(options.sizes.size());
  std::vector<LinkCurve> links(static_cast<size_t>(n) * n);
  std::vector<double> seconds(points);
  for (int from = 0; from < n; ++from) {
    for (int to = from + 1; to < n; ++to) {
      // The leader of the pair tells all others, who wait for it: that is also what keeps pairs
      // apart.
      if (rank == from || rank == to) {
        OC_ASSIGN_OR_RETURN(const LinkCurve curve,
                            MeasureLink(transport, rank == from ? to : from, options));
        for (int64_t i = 0; i < points; ++i) seconds[i] = curve.points[i].seconds;
      }
      for (int other = 0; other < n; ++other) {
        if (other == from || other == to) continue;
        if (rank == from) {
          OC_RETURN_IF_ERROR(
              transport.Send(other, options.tag + 1, BytesOf(seconds), options.timeout_seconds));
        } else if (rank == other) {
          OC_RETURN_IF_ERROR(
              transport.Recv(from, options.tag + 1, BytesOf(seconds), options.timeout_seconds));
        }
      }
      links[from * n + to] = links[to * n + from] = CurveOf(options.sizes, seconds);
    }
  }
  return links;
}

StatusOr<LinkCurve> MeasureAllReduce(Group& group, const LinkMeasureOptions& options) {
  OC_RETURN_IF_ERROR(Check(options));
  std::vector<float> buffer(options.sizes.back() / sizeof(float) + 1);
  std::vector<std::byte> scratch(
      AllReduceScratchBytes(group.size(), buffer.size() * sizeof(float), DType::kF32) + (64 << 10));
  std::vector<double> seconds;
  for (const int64_t size : options.sizes) {
    const auto bytes = std::as_writable_bytes(std::span(buffer)).first((size + 3) / 4 * 4);
    std::vector<double> samples;
    for (int i = 0; i <= options.repetitions; ++i) {
      OC_RETURN_IF_ERROR(Barrier(group));
      const double begin = NowSeconds();
      OC_RETURN_IF_ERROR(
          AllReduceInPlace(group, {.bytes = bytes, .dtype = DType::kF32, .scratch = scratch}));
      if (i > 0) samples.push_back(NowSeconds() - begin);
    }
    seconds.push_back(Median(std::move(samples)));
  }
  OC_RETURN_IF_ERROR(Broadcast(group, {.bytes = BytesOf(seconds), .root = 0}));
  return CurveOf(options.sizes, seconds);
}

}  // namespace oc

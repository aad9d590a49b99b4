#include "openclaw/comm/ring.h"

#include <algorithm>

namespace oc {
namespace {

int Modulo(int i, int n) { return ((i % n) + n) % n; }

// The bytes of piece i.
std::span<std::byte> PieceBytes(std::span<std::byte> bytes, std::span<const int64_t> bounds,
                                int element, int parts, int i) {
  const Piece piece = PieceOf(bounds, static_cast<int64_t>(bytes.size()) / element, parts, i);
  return bytes.subspan(piece.begin * element, piece.size() * element);
}

// Message k of a piece; empty beyond its end.
std::span<std::byte> MessageOf(std::span<std::byte> piece, int64_t k) {
  const size_t begin = std::min<size_t>(piece.size(), k * kRingMessageBytes);
  return piece.subspan(begin, std::min<size_t>(piece.size() - begin, kRingMessageBytes));
}

int64_t MessagesIn(std::span<std::byte> piece) {
  return (static_cast<int64_t>(piece.size()) + kRingMessageBytes - 1) / kRingMessageBytes;
}

}  // namespace

int64_t RingScratchBytes(int group_size, int64_t bytes, DType dtype,
                         std::span<const int64_t> bounds) {
  if (group_size < 2) return 0;
  const int element = SizeInBytes(dtype);
  int64_t largest = 0;
  for (int i = 0; i < group_size; ++i) {
    largest = std::max(largest, PieceOf(bounds, bytes / element, group_size, i).size());
  }
  return std::min(largest * element, kRingMessageBytes);
}

Status RingReduceScatter(Group& group, std::span<std::byte> bytes, DType dtype, ReduceOp op,
                         std::span<std::byte> scratch, std::span<const int64_t> bounds) {
  const int n = group.size(), rank = group.rank(), element = SizeInBytes(dtype);
  const int right = Modulo(rank + 1, n), left = Modulo(rank - 1, n);
  for (int step = 0; step < n - 1; ++step) {
    const auto outgoing = PieceBytes(bytes, bounds, element, n, Modulo(rank - step - 1, n));
    const auto incoming = PieceBytes(bytes, bounds, element, n, Modulo(rank - step - 2, n));
    // Pieces differ in size: either may have more messages, the other none.
    const int64_t sends = MessagesIn(outgoing), receives = MessagesIn(incoming);
    for (int64_t k = 0; k < std::max(sends, receives); ++k) {
      const auto out = MessageOf(outgoing, k);
      const auto in = MessageOf(incoming, k);
      const auto landing = scratch.first(in.size());
      if (k >= receives) {
        OC_RETURN_IF_ERROR(group.Send(right, 0, out));
        continue;
      }
      OC_RETURN_IF_ERROR(k < sends ? group.SendRecv(right, out, left, landing, 0)
                                   : group.Recv(left, 0, landing));
      Reduce(dtype, op, in.data(), landing.data(), static_cast<int64_t>(in.size()) / element);
    }
  }
  return OkStatus();
}

Status RingAllGather(Group& group, std::span<std::byte> bytes, DType dtype,
                     std::span<const int64_t> bounds) {
  const int n = group.size(), rank = group.rank(), element = SizeInBytes(dtype);
  const int right = Modulo(rank + 1, n), left = Modulo(rank - 1, n);
  for (int step = 0; step < n - 1; ++step) {
    const auto out = PieceBytes(bytes, bounds, element, n, Modulo(rank - step, n));
    const auto in = PieceBytes(bytes, bounds, element, n, Modulo(rank - step - 1, n));
    // Nothing is sent for pieces that are empty.
    if (!out.empty() && !in.empty()) {
      OC_RETURN_IF_ERROR(group.SendRecv(right, out, left, in, 0));
    } else if (!out.empty()) {
      OC_RETURN_IF_ERROR(group.Send(right, 0, out));
    } else if (!in.empty()) {
      OC_RETURN_IF_ERROR(group.Recv(left, 0, in));
    }
  }
  return OkStatus();
}

}  // namespace oc

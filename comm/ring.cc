#include "openclaw/comm/ring.h"

#include <algorithm>

namespace oc {
namespace {

int Modulo(int i, int n) { return ((i % n) + n) % n; }

// The bytes of piece i.
std::span<std::byte> PieceBytes(std::span<std::byte> bytes, int element, int parts, int i) {
  const Piece piece = PieceOf(static_cast<int64_t>(bytes.size()) / element, parts, i);
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

int64_t RingScratchBytes(int group_size, int64_t bytes, DType dtype) {
  if (group_size < 2) return 0;
  const int element = SizeInBytes(dtype);
  return std::min(PieceOf(bytes / element, group_size, 0).size() * element, kRingMessageBytes);
}

Status RingReduceScatter(Group& group, std::span<std::byte> bytes, DType dtype, ReduceOp op,
                         std::span<std::byte> scratch) {
  const int n = group.size(), rank = group.rank(), element = SizeInBytes(dtype);
  const int right = Modulo(rank + 1, n), left = Modulo(rank - 1, n);
  for (int step = 0; step < n - 1; ++step) {
    const auto outgoing = PieceBytes(bytes, element, n, Modulo(rank - step - 1, n));
    const auto incoming = PieceBytes(bytes, element, n, Modulo(rank - step - 2, n));
    // Pieces differ in size by an element: either may have one message more.
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

Status RingAllGather(Group& group, std::span<std::byte> bytes, DType dtype) {
  const int n = group.size(), rank = group.rank(), element = SizeInBytes(dtype);
  const int right = Modulo(rank + 1, n), left = Modulo(rank - 1, n);
  for (int step = 0; step < n - 1; ++step) {
    const auto out = PieceBytes(bytes, element, n, Modulo(rank - step, n));
    const auto in = PieceBytes(bytes, element, n, Modulo(rank - step - 1, n));
    // Where the count is below the group's size, some pieces are empty: nothing is sent for them.
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

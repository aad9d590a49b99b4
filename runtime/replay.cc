#include "openclaw/runtime/replay.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace oc {

Status Enqueue(Queue& queue, const BoundCall& call) {
  return queue.Enqueue(*call.op, {call.inputs, call.num_inputs}, {call.outputs, call.num_outputs},
                       call.workspace);
}

void Replay::Compute(const BoundCall& call) {
  items_.push_back({.kind = Kind::kCall, .call = &call});
}

void Replay::Feed(BufferRange to, std::span<const std::byte> from) {
  items_.push_back({.kind = Kind::kFeed, .range = to, .from = from});
}

void Replay::Snapshot(std::span<std::byte> to, BufferRange from) {
  items_.push_back({.kind = Kind::kSnapshot, .range = from, .to = to});
}

void Replay::BeginIfFinite(BufferRange value, std::span<std::byte> copy) {
  Snapshot(copy, value);
  items_.push_back({.kind = Kind::kIf, .range = value, .to = copy, .end = items_.size()});
}

void Replay::EndIf() {
  for (size_t i = items_.size(); i-- > 0;) {
    if (items_[i].kind != Kind::kIf) continue;
    items_[i].end = items_.size();
    break;
  }
  items_.push_back({.kind = Kind::kEndIf});
}

Status Replay::Put(const Item& item) {
  switch (item.kind) {
    case Kind::kCall:
      return Enqueue(queue_, *item.call);
    case Kind::kFeed:
      return queue_.CopyFromHost(item.range, item.from);
    case Kind::kSnapshot:
      return queue_.CopyToHost(item.to, item.range);
    case Kind::kIf:
      return queue_.BeginIfFinite(item.range);
    case Kind::kEndIf:
      return queue_.EndIf();
  }
  return Internal("unknown work");
}

Replay::Item* Replay::ConditionOf(size_t i) {
  for (size_t j = i + 1; j-- > 0;) {
    if (items_[j].kind == Kind::kIf) return items_[j].end >= i ? &items_[j] : nullptr;
  }
  return nullptr;
}

size_t Replay::HostBoundary(size_t i) const {
  for (size_t j = 0; j < items_.size(); ++j) {
    if (items_[j].kind != Kind::kIf || !items_[j].on_host) continue;
    if (j >= i) return j;
    if (items_[j].end >= i) return items_[j].end;
  }
  return items_.size();
}

Status Replay::CapturePiece(size_t begin, size_t limit, Piece& piece) {
  piece = {.begin = begin, .end = begin};
  OC_RETURN_IF_ERROR(queue_.BeginCapture());
  Status put;
  size_t at = begin;
  for (; at < limit && put.ok(); ++at) put = Put(items_[at]);
  auto work = queue_.EndCapture();
  if (put.ok()) {
    OC_RETURN_IF_ERROR(work.status());
    piece.end = limit;
    piece.work = *std::move(work);
    return OkStatus();
  }
  if (!absl::IsUnimplemented(put)) return put;
  --at;  // the item that cannot be captured
  if (reason_.empty()) {
    reason_ = items_[at].kind == Kind::kCall
                  ? absl::StrCat(items_[at].call->op->implementation(), ": ", put.message())
                  : std::string(put.message());
  }
  if (Item* condition = ConditionOf(at); condition != nullptr && !condition->on_host) {
    // Pieces end within it: the host decides.
    condition->on_host = true;
    at = static_cast<size_t>(condition - items_.data());
  }
  return at == begin ? OkStatus() : CapturePiece(begin, at, piece);
}

Status Replay::Capture() {
  std::vector<Piece> pieces;
  for (size_t at = 0; at < items_.size();) {
    const size_t boundary = HostBoundary(at);
    Piece piece{.begin = at, .end = at};
    if (boundary != at) OC_RETURN_IF_ERROR(CapturePiece(at, boundary, piece));
    if (piece.end == at) ++piece.end;
    at = piece.end;
    pieces.push_back(std::move(piece));
  }
  pieces_ = std::move(pieces);
  captured_ = true;
  return OkStatus();
}

Status Replay::RunPieces() {
  for (size_t p = 0; p < pieces_.size(); ++p) {
    const Piece& piece = pieces_[p];
    if (piece.work != nullptr) {
      OC_RETURN_IF_ERROR(queue_.Launch(*piece.work));
      continue;
    }
    const Item& item = items_[piece.begin];
    if (item.kind == Kind::kEndIf) continue;
    if (item.kind != Kind::kIf) {
      OC_RETURN_IF_ERROR(Put(item));
      continue;
    }
    OC_RETURN_IF_ERROR(synchronize_());
    float value = 0;
    std::memcpy(&value, item.to.data(), sizeof(value));
    if (std::isfinite(value)) continue;
    while (pieces_[p].begin != item.end) ++p;
  }
  return OkStatus();
}

Status Replay::Run() {
  if (!captured_) OC_RETURN_IF_ERROR(Capture());
  return RunPieces();
}

CaptureReport Replay::report() const {
  CaptureReport report{.reason = reason_};
  for (const Piece& piece : pieces_) {
    int64_t calls = 0;
    for (size_t i = piece.begin; i < piece.end; ++i) calls += items_[i].kind == Kind::kCall;
    if (piece.work != nullptr) {
      ++report.launches;
      report.captured_calls += calls;
    } else {
      report.plain_calls += calls;
    }
  }
  return report;
}

}  // namespace oc

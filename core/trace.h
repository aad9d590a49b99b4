// What ran when: spans per VCU and lane, written as Chrome trace JSON, which Perfetto opens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "openclaw/core/status.h"

namespace oc {

struct TraceSpan {
  int32_t vcu = 0;
  int32_t lane = 0;
  int32_t command = 0;  // index in the VCU's command list
  int64_t begin_nanos = 0;
  int64_t end_nanos = 0;
};

// A fixed-capacity store of spans: recording allocates nothing; what does not fit is counted. One
// writer at a time (the executor keeps one a lane).
class TraceBuffer {
 public:
  explicit TraceBuffer(size_t capacity) { spans_.reserve(capacity); }
  void Record(const TraceSpan& span) {
    if (spans_.size() < spans_.capacity()) {
      spans_.push_back(span);
    } else {
      ++dropped_;
    }
  }
  void Clear() {
    spans_.clear();
    dropped_ = 0;
  }
  const std::vector<TraceSpan>& spans() const { return spans_; }
  int64_t dropped() const { return dropped_; }

 private:
  std::vector<TraceSpan> spans_;
  int64_t dropped_ = 0;
};

struct TraceEvent {
  std::string name;
  std::string process;  // "vcu 0"
  std::string thread;   // "compute"
  int64_t begin_nanos = 0;
  int64_t end_nanos = 0;
};

// Writes `events` in Chrome's trace event format. kUnavailable where the file cannot be written.
Status WriteChromeTrace(const std::string& path, const std::vector<TraceEvent>& events);

}  // namespace oc

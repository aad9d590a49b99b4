#include "openclaw/core/clock.h"

#include <time.h>

namespace oc {

int64_t NowNanos() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

}  // namespace oc

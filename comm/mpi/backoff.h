// How a polling thread waits: the message is often microseconds away; else the cores are other
// threads'.
#pragma once

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace oc {

class Backoff {
 public:
  void Pause() {
    const auto elapsed = std::chrono::steady_clock::now() - begin_;
    if (elapsed < std::chrono::microseconds(20)) {
#if defined(__x86_64__)
      for (int i = 0; i < 8; ++i) _mm_pause();
#endif
    } else if (elapsed < std::chrono::microseconds(200)) {
      sched_yield();
    } else {
      Sleep(elapsed < std::chrono::milliseconds(20) ? 20
            : elapsed < std::chrono::seconds(1)     ? 50
                                                    : 500);
    }
  }

 private:
  static void Sleep(int microseconds) {
    // Linux rounds a sleep up by 50 us unless the thread asks for less.
    static thread_local const int slack = prctl(PR_SET_TIMERSLACK, 5000ul, 0, 0, 0);
    (void)slack;
    const timespec time{0, microseconds * 1000L};
    nanosleep(&time, nullptr);
  }
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace oc

#include "openclaw/core/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "openclaw/core/clock.h"

namespace oc {
namespace {

// Ends what the child tells: it ended as it should.
constexpr char kDone = '\0';

void WriteAll(int fd, const char* data, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = write(fd, data, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    data += n;
    bytes -= static_cast<size_t>(n);
  }
}

// Until the pipe closes or ends with kDone; false: it was late.
bool ReadUntil(double deadline, int fd, std::string* text) {
  for (;;) {
    pollfd p = {fd, POLLIN, 0};
    const double left = deadline - NowSeconds();
    if (left <= 0) return false;
    const int ready = poll(&p, 1, static_cast<int>(std::min(1e6, std::ceil(left * 1000))));
    if (ready <= 0) continue;  // late, or interrupted
    char buffer[4096];
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n == 0) return true;
    if (n < 0) continue;
    text->append(buffer, static_cast<size_t>(n));
    if (text->back() == kDone) return true;
  }
}

}  // namespace

Status RunInChild(double timeout_seconds, const std::function<void(const Tell&)>& work,
                  std::string* told) {
  told->clear();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ResourceExhausted("no pipe: ", std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) {
    const std::string why = std::strerror(errno);
    close(ends[0]);
    close(ends[1]);
    return ResourceExhausted("no process to try it in: ", why);
  }
  if (child == 0) {
    work([&](const std::string& text) { WriteAll(ends[1], text.data(), text.size()); });
    WriteAll(ends[1], &kDone, 1);
    _exit(0);
  }
  close(ends[1]);
  const bool in_time = ReadUntil(NowSeconds() + timeout_seconds, ends[0], told);
  close(ends[0]);
  const bool done = !told->empty() && told->back() == kDone;
  if (done) told->pop_back();
  if (!in_time || done) kill(child, SIGKILL);  // what it left running does not hold it back
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (done) return OkStatus();
  if (!in_time) {
    return absl::DeadlineExceededError(absl::StrCat("it did not end in ", timeout_seconds, " s"));
  }
  if (WIFSIGNALED(status)) {
    return Internal("it crashed (signal ", WTERMSIG(status), ", ", strsignal(WTERMSIG(status)),
                    ")");
  }
  return FailedPrecondition("it ended the process, with code ", WEXITSTATUS(status));
}

}  // namespace oc

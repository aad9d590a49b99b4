// Errors of the whole project: absl::Status wherever something outside the program can fail, and
// OC_CHECK for broken invariants. The code of a status tells the caller what to do:
//
//   kInvalidArgument    bad model, configuration or shape: tell the user, stop
//   kOutOfRange         bad data, as a label beyond the classes: tell the user, stop
//   kUnavailable        a peer is not there yet: retry
//   kDeadlineExceeded   a collective or rendezvous timed out: take the group as lost
//   kAborted            a rank died: rebuild the group and resume
//   kResourceExhausted  memory, descriptors: take another plan
//   kFailedPrecondition driver, version, environment: a person must act; the message says how
//   kDataLoss           checksum, truncation: take the older checkpoint
//   kUnimplemented      no kernel here: the message names op, dtype, device and what exists
//
//   OC_ASSIGN_OR_RETURN(Graph graph, LoadGraph(path));
//   OC_RETURN_IF_ERROR(Verify(graph));
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/str_cat.h>

#include <string>
#include <utility>

namespace oc {

using absl::Status;
using absl::StatusOr;

inline Status OkStatus() { return absl::OkStatus(); }

// The same code, with `context` and ": " before the message. An ok status stays ok.
Status Annotate(const Status& status, const std::string& context);

// Prints the message and ends the process. Only for broken invariants.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message);

template <typename... Args>
Status InvalidArgument(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}
template <typename... Args>
Status OutOfRange(const Args&... args) {
  return absl::OutOfRangeError(absl::StrCat(args...));
}
template <typename... Args>
Status Unimplemented(const Args&... args) {
  return absl::UnimplementedError(absl::StrCat(args...));
}
template <typename... Args>
Status FailedPrecondition(const Args&... args) {
  return absl::FailedPreconditionError(absl::StrCat(args...));
}
template <typename... Args>
Status ResourceExhausted(const Args&... args) {
  return absl::ResourceExhaustedError(absl::StrCat(args...));
}
template <typename... Args>
Status DataLoss(const Args&... args) {
  return absl::DataLossError(absl::StrCat(args...));
}
template <typename... Args>
Status Internal(const Args&... args) {
  return absl::InternalError(absl::StrCat(args...));
}

}  // namespace oc

#define OC_CONCAT_INNER_(a, b) a##b
#define OC_CONCAT_(a, b) OC_CONCAT_INNER_(a, b)

#define OC_RETURN_IF_ERROR(expr)             \
  do {                                       \
    ::absl::Status oc_status_ = (expr);      \
    if (!oc_status_.ok()) return oc_status_; \
  } while (false)

#define OC_ASSIGN_OR_RETURN(lhs, expr) \
  OC_ASSIGN_OR_RETURN_IMPL_(OC_CONCAT_(oc_statusor_, __LINE__), lhs, expr)
#define OC_ASSIGN_OR_RETURN_IMPL_(var, lhs, expr) \
  auto var = (expr);                              \
  if (!var.ok()) return std::move(var).status();  \
  lhs = std::move(var).value()

// OC_CHECK(condition, parts of a message...)
#define OC_CHECK(condition, ...)                                        \
  do {                                                                  \
    if (!(condition)) {                                                 \
      ::oc::CheckFailed(__FILE__, __LINE__, #condition,                 \
                        ::absl::StrCat("" __VA_OPT__(, ) __VA_ARGS__)); \
    }                                                                   \
  } while (false)

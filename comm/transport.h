// Point-to-point messages between the ranks of a job. A rank is a VCU: several ranks may live in
// one process. The leaves (inproc, mpi, ...) implement this; collectives are built on it (group.h).
//
//   OC_RETURN_IF_ERROR(transport.Send(1, tag, bytes, deadline));   // on rank 0
//   OC_RETURN_IF_ERROR(transport.Recv(0, tag, bytes, deadline));   // on rank 1
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "openclaw/core/status.h"

namespace oc {

// One rank's end. Thread-safe: several threads may send and receive at once, under different
// (peer, tag); messages of one (sender, receiver, tag) arrive in the order sent.
//
// Tags below zero belong to groups (tag.h); the rest is the caller's. A transport remembers every
// (sender, receiver, tag) that it has seen, so tags are a fixed set (one a Program command, say),
// never a counter that grows with the steps.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "inproc", "mpi": for messages and reports.
  virtual const char* name() const = 0;

  // Blocks until `bytes` may be reused. A transport may or may not buffer: callers must not rely on
  // it. kDeadlineExceeded after `timeout_seconds`; kAborted once Abort was called, with its reason;
  // kInvalidArgument where the receiver expects another size: the receiver gets it from this call;
  // so does the sender, unless the transport buffered the message (mpi), when a later call tells
  // it.
  virtual Status Send(int to, int64_t tag, std::span<const std::byte> bytes,
                      double timeout_seconds) = 0;
  // Fills `bytes` exactly. Errors as Send.
  virtual Status Recv(int from, int64_t tag, std::span<std::byte> bytes,
                      double timeout_seconds) = 0;

  // Send and Recv at once: both halves progress together, so a ring of ranks that all call it
  // cannot deadlock though sends are unbuffered. When one half fails the other is withdrawn; the
  // error is that of the half that failed first.
  virtual Status SendRecv(int to, std::span<const std::byte> send_bytes, int from,
                          std::span<std::byte> recv_bytes, int64_t tag, double timeout_seconds) = 0;

  // Makes every pending and later call of this rank, and of the ranks that share its process, fail
  // with kAborted and `reason`. Thread-safe, idempotent (the first reason stays).
  virtual void Abort(const Status& reason) = 0;
  // Ok until aborted.
  virtual Status status() const = 0;
};

}  // namespace oc

// TensorBoard's event files, scalars only.
//
//   OC_ASSIGN_OR_RETURN(auto board, TensorBoardWriter::Create(run_dir + "/tensorboard"));
//   OC_RETURN_IF_ERROR(board.AddScalars(step, {{"train/loss", loss}, {"train/lr", lr}}));
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "openclaw/core/status.h"
#include "openclaw/runtime/report/metrics.h"

namespace oc {

// A file is a sequence of TFRecords: length, its masked CRC-32C, a serialised tensorflow.Event, its
// masked CRC-32C. The few fields of Event that scalars need are encoded here by hand. Not
// thread-safe.
class TensorBoardWriter {
 public:
  // Makes the folder, and in it a new file events.out.tfevents.SECONDS.HOST.PID. A run that resumes
  // adds a file; TensorBoard joins them. kUnavailable where they cannot be written.
  static StatusOr<TensorBoardWriter> Create(const std::string& folder);

  // One record a step, flushed.
  Status AddScalars(int64_t step, const std::vector<NamedValue>& scalars);
  const std::string& path() const { return path_; }

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  TensorBoardWriter(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  Status WriteRecord(const std::string& event);

  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace oc

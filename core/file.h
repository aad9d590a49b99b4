// Files that must survive a crash: positioned reads and writes, and syncing of files and folders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "openclaw/core/status.h"

namespace oc {

// An open file, closed by the destructor. Errors name the file: kInvalidArgument where it is
// missing, kResourceExhausted where the disk is full, else kUnavailable.
class File {
 public:
  // A new file, or an emptied one.
  static StatusOr<File> Create(const std::string& path);
  // A new file of `bytes` in `folder` that has no name and goes when it is closed. All of its room
  // is taken from the disk here, so that writing into it does not find the disk full.
  static StatusOr<File> CreateNameless(const std::string& folder, int64_t bytes);
  static StatusOr<File> OpenForReading(const std::string& path);
  File(File&& other) noexcept { *this = std::move(other); }
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(path_, other.path_);
    return *this;
  }
  ~File();

  const std::string& path() const { return path_; }
  StatusOr<int64_t> Size() const;
  // Fills `out`; kDataLoss where the file ends before.
  Status ReadAt(int64_t offset, std::span<std::byte> out) const;
  Status WriteAt(int64_t offset, std::span<const std::byte> bytes);
  // Everything written is on the disk when it returns.
  Status Sync();

 private:
  File() = default;
  int fd_ = -1;
  std::string path_;
};

// Makes the entries of a folder (creations, renames) last.
Status SyncDirectory(const std::string& path);
// A whole text file, created and synced, or read (kInvalidArgument above 1 GiB).
Status WriteTextFile(const std::string& path, const std::string& text);
StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace oc

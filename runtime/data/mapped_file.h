// A file mapped into memory for reading.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "openclaw/core/status.h"

namespace oc {

class MappedFile {
 public:
  // kInvalidArgument where the file is missing, unreadable or not a regular file.
  static StatusOr<MappedFile> Open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile() = default;
  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace oc

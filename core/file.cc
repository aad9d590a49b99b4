#include "openclaw/core/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace oc {
namespace {

Status FileError(const char* verb, const std::string& path) {
  const int error = errno;
  const std::string message = absl::StrCat(verb, " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
      return absl::InvalidArgumentError(message);
    case ENOSPC:
    case EFBIG:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

// Linux moves at most 2 GiB a call.
constexpr size_t kMostPerCall = size_t{1} << 30;

}  // namespace

StatusOr<File> File::Create(const std::string& path) {
  File file;
  file.fd_ = open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644);
  if (file.fd_ < 0) return FileError("create", path);
  file.path_ = path;
  return file;
}

StatusOr<File> File::CreateNameless(const std::string& folder, int64_t bytes) {
  File file;
  file.path_ = folder;
  file.fd_ = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file.fd_ < 0 && errno == EOPNOTSUPP) {  // a file system without such files
    file.path_ = absl::StrCat(folder, "/offload-XXXXXX");
    file.fd_ = mkostemp(file.path_.data(), O_CLOEXEC);
    if (file.fd_ >= 0) unlink(file.path_.c_str());
  }
  if (file.fd_ < 0) return FileError("make a file in", folder);
  if (bytes > 0) {
    errno = posix_fallocate(file.fd_, 0, bytes);
    if (errno != 0) return FileError(absl::StrCat("take ", bytes, " bytes in").c_str(), folder);
  }
  return file;
}

StatusOr<File> File::OpenForReading(const std::string& path) {
  File file;
  file.fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.fd_ < 0) return FileError("read", path);
  file.path_ = path;
  return file;
}

File::~File() {
  if (fd_ >= 0) close(fd_);
}

StatusOr<int64_t> File::Size() const {
  struct stat info = {};
  if (fstat(fd_, &info) != 0) return FileError("read", path_);
  return static_cast<int64_t>(info.st_size);
}

Status File::ReadAt(int64_t offset, std::span<std::byte> out) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = pread(fd_, out.data() + done, std::min(out.size() - done, kMostPerCall),
                              offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("read", path_);
    if (got == 0) {
      return DataLoss("read ", path_, ": cut off: wanted bytes up to ",
                      offset + static_cast<int64_t>(out.size()), ", it ends at ",
                      offset + static_cast<int64_t>(done));
    }
    done += static_cast<size_t>(got);
  }
  return OkStatus();
}

Status File::WriteAt(int64_t offset, std::span<const std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put =
        pwrite(fd_, bytes.data() + done, std::min(bytes.size() - done, kMostPerCall),
               offset + static_cast<int64_t>(done));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return FileError("write", path_);
    done += static_cast<size_t>(put);
  }
  return OkStatus();
}

Status File::Sync() {
  if (fsync(fd_) != 0) return FileError("sync", path_);
  return OkStatus();
}

Status SyncDirectory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileError("sync", path);
  const int result = fsync(fd);
  Status status = result == 0 ? OkStatus() : FileError("sync", path);
  close(fd);
  return status;
}

Status WriteTextFile(const std::string& path, const std::string& text) {
  OC_ASSIGN_OR_RETURN(File file, File::Create(path));
  OC_RETURN_IF_ERROR(file.WriteAt(0, std::as_bytes(std::span(text))));
  return file.Sync();
}

StatusOr<std::string> ReadTextFile(const std::string& path) {
  OC_ASSIGN_OR_RETURN(File file, File::OpenForReading(path));
  OC_ASSIGN_OR_RETURN(const int64_t size, file.Size());
  if (size > int64_t{1} << 30) return InvalidArgument("read ", path, ": ", size, " bytes of text");
  std::string text(static_cast<size_t>(size), '\0');
  OC_RETURN_IF_ERROR(file.ReadAt(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace oc

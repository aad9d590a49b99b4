#include "openclaw/runtime/report/tensorboard.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <span>

#include "openclaw/core/crc32c.h"

namespace oc {
namespace {

// Protobuf wire format: field numbers are those of tensorflow/core/util/event.proto and
// summary.proto.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void PutVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void PutTag(std::string& out, uint32_t field, WireType type) { PutVarint(out, field << 3 | type); }

template <typename T>
void PutFixed(std::string& out, uint32_t field, T value) {
  PutTag(out, field, sizeof(T) == 8 ? kFixed64 : kFixed32);
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void PutBytes(std::string& out, uint32_t field, const std::string& bytes) {
  PutTag(out, field, kBytes);
  PutVarint(out, bytes.size());
  out += bytes;
}

double WallTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// As TFRecord masks it, so that a checksum of data that holds checksums stays strong.
uint32_t MaskedCrc(const std::string& bytes) {
  const uint32_t crc = Crc32c(std::as_bytes(std::span(bytes)));
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace

StatusOr<TensorBoardWriter> TensorBoardWriter::Create(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::UnavailableError(absl::StrCat("create folder ", folder, ": ", error.message()));
  }
  char host[256] = "host";
  gethostname(host, sizeof(host) - 1);
  const std::string path =
      absl::StrCat(folder, "/events.out.tfevents.", static_cast<int64_t>(WallTime()), ".",
                   static_cast<const char*>(host), ".", getpid());
  std::FILE* file = std::fopen(path.c_str(), "abe");
  if (file == nullptr) {
    return absl::UnavailableError(absl::StrCat("write ", path, ": ", std::strerror(errno)));
  }
  TensorBoardWriter writer(path, file);
  std::string event;
  PutFixed(event, 1, WallTime());
  PutBytes(event, 3, "brain.Event:2");
  OC_RETURN_IF_ERROR(writer.WriteRecord(event));
  return writer;
}

Status TensorBoardWriter::AddScalars(int64_t step, const std::vector<NamedValue>& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    PutBytes(value, 1, tag);
    PutFixed(value, 2, static_cast<float>(number));
    PutBytes(summary, 1, value);
  }
  std::string event;
  PutFixed(event, 1, WallTime());
  PutTag(event, 2, kVarint);
  PutVarint(event, static_cast<uint64_t>(step));
  PutBytes(event, 5, summary);
  return WriteRecord(event);
}

Status TensorBoardWriter::WriteRecord(const std::string& event) {
  const uint64_t length = event.size();
  std::string record(reinterpret_cast<const char*>(&length), sizeof(length));
  const uint32_t length_crc = MaskedCrc(record), event_crc = MaskedCrc(event);
  record.append(reinterpret_cast<const char*>(&length_crc), sizeof(length_crc));
  record += event;
  record.append(reinterpret_cast<const char*>(&event_crc), sizeof(event_crc));
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size() ||
      std::fflush(file_.get()) != 0) {
    return absl::UnavailableError(absl::StrCat("write ", path_, ": ", std::strerror(errno)));
  }
  return OkStatus();
}

}  // namespace oc

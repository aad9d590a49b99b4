// The safetensors format: an 8-byte length, a JSON header, then the tensors' bytes. Any tool reads
// it.
//
//   OC_ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::Create(path, {{"w", type}}, {}));
//   OC_RETURN_IF_ERROR(writer.Write("w", w.bytes()));
//   OC_RETURN_IF_ERROR(writer.Finish());
//
//   OC_ASSIGN_OR_RETURN(auto reader, SafetensorsReader::Open(path));
//   OC_RETURN_IF_ERROR(reader.ReadRows("w", 0, 16, out));
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "openclaw/core/file.h"
#include "openclaw/core/status.h"
#include "openclaw/core/tensor.h"

namespace oc {

// "F32", "BF16", ...: the format's name of a dtype, and back (kInvalidArgument lists the known
// ones).
const char* SafetensorsName(DType dtype);
StatusOr<DType> ParseSafetensorsDType(const std::string& name);

// Dimension 0 counts rows; a scalar is one row.
int64_t NumRows(const Shape& shape);

struct SafetensorsEntry {
  std::string name;
  TensorType type;
  int64_t offset = 0;  // of its first byte in the file
};

// Writes tensors in any order, whole or in parts, without holding them.
class SafetensorsWriter {
 public:
  // Creates the file with the header of all tensors (offsets are set here: wide elements first, so
  // that each is aligned). kInvalidArgument: unbound shapes, an empty or repeated name.
  static StatusOr<SafetensorsWriter> Create(const std::string& path,
                                            std::vector<SafetensorsEntry> tensors,
                                            const std::map<std::string, std::string>& metadata);
  // The same as the last part of another file, from byte `begin` of it on.
  static StatusOr<SafetensorsWriter> CreateAt(File file, int64_t begin,
                                              std::vector<SafetensorsEntry> tensors,
                                              const std::map<std::string, std::string>& metadata);

  // Bytes of tensor `name` from byte `begin` of it on. kInvalidArgument: unknown name, or beyond
  // the tensor.
  Status Write(const std::string& name, std::span<const std::byte> bytes, int64_t begin = 0);
  // Syncs the file. kFailedPrecondition names a tensor that was not written in full.
  Status Finish();
  // The file, after Finish, to go on with it; the writer is of no use any more.
  File Release() { return std::move(file_); }
  // Of the safetensors part, where that is not the whole file.
  int64_t file_bytes() const { return file_bytes_; }

 private:
  explicit SafetensorsWriter(File file) : file_(std::move(file)) {}
  struct Slot {
    SafetensorsEntry entry;
    int64_t written = 0;
  };
  File file_;
  std::map<std::string, Slot> slots_;
  int64_t file_bytes_ = 0;
};

// Reads tensors one at a time. Thread-safe once it is open.
class SafetensorsReader {
 public:
  // Reads and checks the header. kDataLoss: cut off, or a header that is no JSON; kInvalidArgument:
  // missing, not safetensors, an unknown dtype, a shape that disagrees with its bytes, tensors that
  // overlap or leave gaps. Names file and tensor.
  static StatusOr<SafetensorsReader> Open(const std::string& path);
  // The same for the `size` bytes of another file from byte `begin` of it on.
  static StatusOr<SafetensorsReader> OpenAt(File file, int64_t begin, int64_t size);

  const std::string& path() const { return file_.path(); }
  // By offset.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // Null where there is none.
  const SafetensorsEntry* Find(const std::string& name) const;
  int64_t file_bytes() const { return file_bytes_; }

  // A whole tensor; kInvalidArgument for an unknown name.
  StatusOr<Tensor> Read(const std::string& name) const;
  // Rows [begin, end) into `out`, which has their size exactly; kInvalidArgument otherwise.
  Status ReadRows(const std::string& name, int64_t begin, int64_t end,
                  std::span<std::byte> out) const;
  // Any of the tensor's bytes from byte `begin` of it on.
  Status ReadBytes(const SafetensorsEntry& entry, int64_t begin, std::span<std::byte> out) const;

 private:
  explicit SafetensorsReader(File file) : file_(std::move(file)) {}
  Status ParseHeader(const std::string& text, int64_t data_begin);
  Status CheckLayout(int64_t data_begin) const;
  int64_t end() const { return begin_ + file_bytes_; }

  File file_;
  int64_t begin_ = 0;
  int64_t file_bytes_ = 0;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, size_t> index_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace oc

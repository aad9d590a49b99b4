#include "openclaw/runtime/checkpoint/store.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "openclaw/core/crc32c.h"
#include "openclaw/core/logging.h"
#include "openclaw/core/rng.h"

namespace oc {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "step-";
constexpr const char* kStagingPrefix = ".staging-";  // of everything that is not a checkpoint
constexpr const char* kManifestFile = "manifest.json";

std::string StepName(int64_t step) {
  std::string digits = std::to_string(step);
  if (digits.size() < 8) digits.insert(0, 8 - digits.size(), '0');
  return kPrefix + digits;
}

// -1 for another name.
int64_t ParseStepName(const std::string& name) {
  const size_t prefix = std::strlen(kPrefix);
  if (name.compare(0, prefix, kPrefix) != 0) return -1;
  int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data() + prefix, name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size() && StepName(step) == name ? step
                                                                                            : -1;
}

Status Unavailable(const std::string& what, const std::error_code& error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", error.message()));
}

int64_t RowBytes(const TensorType& type) {
  const int64_t rows = NumRows(type.shape);
  return rows == 0 ? 0 : type.bytes() / rows;
}

// The type of a slice as a tensor of its own.
TensorType SliceType(const TensorType& type, int64_t rows) {
  TensorType slice = type;
  if (type.shape.rank() > 0) slice.shape[0] = Dim(rows);
  return slice;
}

TensorType RowType(const TensorSlice& slice) {
  return StoredTensor{.type = slice.type, .flat = slice.flat}.RowType();
}

std::string SliceKey(const TensorSlice& slice) {
  if (slice.row_end - slice.row_begin == NumRows(RowType(slice).shape)) return slice.name;
  return absl::StrCat(slice.name, "[", slice.row_begin, ":", slice.row_end, "]");
}

Status CheckSlice(const TensorSlice& slice) {
  if (!slice.type.shape.bound()) {
    return InvalidArgument("store ", slice.name,
                           ": its shape is not bound: ", slice.type.ToString());
  }
  const int64_t rows = slice.row_end - slice.row_begin;
  const TensorType type = RowType(slice);
  const bool later = slice.bytes.empty() && slice.read != nullptr;
  if (slice.row_begin < 0 || rows < 0 || slice.row_end > NumRows(type.shape) ||
      (!later && static_cast<int64_t>(slice.bytes.size()) != rows * RowBytes(type))) {
    return InvalidArgument("store ", slice.name, " ", slice.type.ToString(), ": ",
                           slice.bytes.size(), " bytes for rows ", slice.row_begin, " to ",
                           slice.row_end);
  }
  return OkStatus();
}

// Joins the pieces that several shards hold of one tensor.
Status MergeShards(const std::vector<ShardInfo>& shards, Manifest& manifest) {
  std::map<std::string, StoredTensor> tensors;
  manifest.files.clear();
  for (const ShardInfo& shard : shards) {
    manifest.files.push_back(shard.file);
    for (const StoredTensor& part : shard.tensors) {
      StoredTensor& tensor = tensors[part.name];
      if (tensor.pieces.empty()) {
        tensor.name = part.name;
        tensor.type = part.type;
        tensor.flat = part.flat;
      } else if (tensor.type != part.type || tensor.flat != part.flat) {
        return InvalidArgument("tensor ", part.name, " is ", part.type.ToString(), " in ",
                               shard.file.name, " and ", tensor.type.ToString(), " in ",
                               tensor.pieces[0].file);
      }
      tensor.pieces.insert(tensor.pieces.end(), part.pieces.begin(), part.pieces.end());
    }
  }
  manifest.tensors.clear();
  for (auto& [name, tensor] : tensors) {
    std::stable_sort(tensor.pieces.begin(), tensor.pieces.end(),
                     [](const TensorPiece& a, const TensorPiece& b) {
                       return std::pair(a.row_begin, a.row_end) < std::pair(b.row_begin, b.row_end);
                     });
    manifest.tensors.push_back(std::move(tensor));
  }
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const ShardFile& a, const ShardFile& b) { return a.name < b.name; });
  return manifest.Validate();
}

// Gives `staging` the name `path`; one that has it already takes the other name in the same step,
// so that there is a whole checkpoint at any time.
Status Publish(const std::string& staging, const std::string& path) {
  if (renameat2(AT_FDCWD, staging.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) {
    return OkStatus();
  }
  if (errno == EEXIST &&
      renameat2(AT_FDCWD, staging.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) {
    std::error_code ignored;
    fs::remove_all(staging, ignored);
    return OkStatus();
  }
  // File systems without renameat2's flags: a plain rename, after what is there is out of the way.
  std::error_code error;
  const std::string old = staging + ".old";
  if (fs::exists(path, error)) fs::rename(path, old, error);
  fs::rename(staging, path, error);
  if (error) return Unavailable(absl::StrCat("rename ", staging, " to ", path), error);
  fs::remove_all(old, error);
  return OkStatus();
}

void Prune(const std::string& dir, int keep) {
  const std::vector<int64_t> steps = CheckpointSteps(dir);
  for (size_t i = 0; keep > 0 && i + keep < steps.size(); ++i) {
    // Renamed first: a removal that is cut short must not look like a damaged checkpoint.
    const std::string doomed = absl::StrCat(dir, "/", kStagingPrefix, "removed-", steps[i]);
    std::error_code error;
    fs::rename(CheckpointPath(dir, steps[i]), doomed, error);
    if (!error) fs::remove_all(doomed, error);
    if (error) {
      OC_LOG_WARNING("remove checkpoint ", CheckpointPath(dir, steps[i]), ": ", error.message());
    }
  }
}

}  // namespace

TensorSlice TensorSlice::Whole(const std::string& name, const Tensor& tensor) {
  return {name, tensor.type(), 0, NumRows(tensor.shape()), tensor.bytes()};
}

int StoringRank(const std::string& name, const std::vector<int>& holders) {
  OC_CHECK(!holders.empty(), name);
  return holders[StreamOf(name.data(), name.size()) % holders.size()];
}

std::string CheckpointPath(const std::string& dir, int64_t step) {
  return absl::StrCat(dir, "/", StepName(step));
}

std::string StagingPath(const std::string& dir, int64_t step) {
  return absl::StrCat(dir, "/", kStagingPrefix, StepName(step));
}

StatusOr<std::string> BeginCheckpoint(const std::string& dir, int64_t step) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return Unavailable("create folder " + dir, error);
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir, error)) {
    if (entry.path().filename().string().starts_with(kStagingPrefix)) {
      leftovers.push_back(entry.path());
    }
  }
  for (const fs::path& path : leftovers) {
    fs::remove_all(path, error);
    if (error) return Unavailable("remove " + path.string(), error);
  }
  const std::string staging = StagingPath(dir, step);
  fs::create_directory(staging, error);
  if (error) return Unavailable("create folder " + staging, error);
  return staging;
}

StatusOr<ShardInfo> WriteShard(const std::string& staging, const std::string& shard_name,
                               const std::vector<TensorSlice>& slices) {
  ShardInfo info;
  info.file.name = shard_name + ".safetensors";
  std::vector<SafetensorsEntry> entries;
  for (const TensorSlice& slice : slices) {
    OC_RETURN_IF_ERROR(CheckSlice(slice));
    entries.push_back(
        {SliceKey(slice), SliceType(RowType(slice), slice.row_end - slice.row_begin)});
  }
  OC_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                      SafetensorsWriter::Create(absl::StrCat(staging, "/", info.file.name), entries,
                                                {{"format", "openclaw"}}));
  std::vector<std::byte> room;  // for one that is read now
  for (const TensorSlice& slice : slices) {
    std::span<const std::byte> bytes = slice.bytes;
    if (bytes.empty() && slice.read != nullptr) {
      room.resize(static_cast<size_t>((slice.row_end - slice.row_begin) * RowBytes(slice.type)));
      OC_RETURN_IF_ERROR(Annotate(slice.read(room), absl::StrCat("store ", slice.name)));
      bytes = room;
    }
    OC_RETURN_IF_ERROR(writer.Write(SliceKey(slice), bytes));
    info.tensors.push_back({slice.name,
                            slice.type,
                            slice.flat,
                            {{.file = info.file.name,
                              .key = SliceKey(slice),
                              .row_begin = slice.row_begin,
                              .row_end = slice.row_end,
                              .crc32c = Crc32c(bytes)}}});
  }
  OC_RETURN_IF_ERROR(writer.Finish());
  info.file.bytes = writer.file_bytes();
  return info;
}

StatusOr<std::string> CommitCheckpoint(const std::string& dir, Manifest manifest,
                                       const std::vector<ShardInfo>& shards, int keep) {
  const std::string staging = StagingPath(dir, manifest.step);
  const std::string path = CheckpointPath(dir, manifest.step);
  const std::string context = absl::StrCat("commit checkpoint ", path);
  if (Status merged = MergeShards(shards, manifest); !merged.ok()) return Annotate(merged, context);
  for (const ShardFile& file : manifest.files) {
    std::error_code error;
    const auto bytes = fs::file_size(absl::StrCat(staging, "/", file.name), error);
    if (error || static_cast<int64_t>(bytes) != file.bytes) {
      return DataLoss(context, ": the shard ", file.name, " has ",
                      error ? error.message() : absl::StrCat(bytes, " bytes"), " instead of ",
                      file.bytes, " bytes");
    }
  }
  OC_RETURN_IF_ERROR(
      WriteTextFile(absl::StrCat(staging, "/", kManifestFile), manifest.ToJson() + "\n"));
  OC_RETURN_IF_ERROR(SyncDirectory(staging));
  OC_RETURN_IF_ERROR(Publish(staging, path));
  OC_RETURN_IF_ERROR(SyncDirectory(dir));
  Prune(dir, keep);
  return path;
}

std::vector<int64_t> CheckpointSteps(const std::string& dir) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir, error)) {
    const int64_t step = ParseStepName(entry.path().filename().string());
    if (step >= 0 && entry.is_directory(error)) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

StatusOr<std::optional<std::string>> LatestCheckpoint(const std::string& dir) {
  const std::vector<int64_t> steps = CheckpointSteps(dir);
  Status newest_error;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const std::string path = CheckpointPath(dir, *step);
    const auto checkpoint = Checkpoint::Open(path);
    const Status status = checkpoint.ok() ? checkpoint->Verify() : checkpoint.status();
    if (status.ok()) return std::optional(path);
    OC_LOG_WARNING("skip damaged checkpoint ", path, ": ", std::string(status.message()));
    if (newest_error.ok()) newest_error = status;
  }
  if (!newest_error.ok()) {
    return DataLoss("every checkpoint in ", dir,
                    " is damaged; the newest: ", std::string(newest_error.message()));
  }
  return std::optional<std::string>();
}

StatusOr<Manifest> LoadManifest(const std::string& path) {
  const std::string file = absl::StrCat(path, "/", kManifestFile);
  OC_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file));
  auto manifest = Manifest::FromJson(text);
  if (!manifest.ok()) return Annotate(manifest.status(), "read " + file);
  return manifest;
}

StatusOr<Checkpoint> Checkpoint::Open(const std::string& path) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  OC_ASSIGN_OR_RETURN(checkpoint.manifest_, LoadManifest(path));
  for (const ShardFile& file : checkpoint.manifest_.files) {
    auto reader = SafetensorsReader::Open(absl::StrCat(path, "/", file.name));
    // That there is a manifest says that the file was whole once.
    if (!reader.ok()) return DataLoss(std::string(reader.status().message()));
    if (reader->file_bytes() != file.bytes) {
      return DataLoss("read ", reader->path(), ": ", reader->file_bytes(),
                      " bytes, the manifest says ", file.bytes);
    }
    checkpoint.shards_.emplace(file.name, *std::move(reader));
  }
  OC_RETURN_IF_ERROR(checkpoint.CheckShards());
  return checkpoint;
}

Status Checkpoint::CheckShards() const {
  for (const StoredTensor& tensor : manifest_.tensors) {
    for (const TensorPiece& piece : tensor.pieces) {
      const SafetensorsReader& shard = shards_.at(piece.file);
      const SafetensorsEntry* entry = shard.Find(piece.key);
      const TensorType expected = SliceType(tensor.RowType(), piece.row_end - piece.row_begin);
      if (entry == nullptr || entry->type != expected) {
        return DataLoss("read ", shard.path(), ": tensor '", piece.key, "' is ",
                        entry == nullptr ? "missing" : entry->type.ToString(),
                        ", the manifest says ", expected.ToString());
      }
    }
  }
  return OkStatus();
}

// Bytes [first, last) of the piece, counted from its own start, while all of it goes through the
// checksum in parts.
Status Checkpoint::ReadPiece(const StoredTensor& tensor, const TensorPiece& piece, int64_t first,
                             int64_t last, std::span<std::byte> out) const {
  const SafetensorsReader& shard = shards_.at(piece.file);
  const SafetensorsEntry& entry = *shard.Find(piece.key);
  const int64_t total = entry.type.bytes();
  uint32_t crc = 0;
  if (first == 0 && last == total) {
    OC_RETURN_IF_ERROR(shard.ReadBytes(entry, 0, out));
    crc = Crc32c(out);
  } else {
    std::vector<std::byte> buffer(static_cast<size_t>(std::min<int64_t>(total, 1 << 20)));
    for (int64_t at = 0; at < total;) {
      const std::span<std::byte> part =
          std::span(buffer).first(std::min<int64_t>(total - at, buffer.size()));
      OC_RETURN_IF_ERROR(shard.ReadBytes(entry, at, part));
      crc = Crc32c(part, crc);
      const int64_t from = std::max(at, first);
      const int64_t to = std::min<int64_t>(at + part.size(), last);
      if (from < to) std::memcpy(out.data() + from - first, part.data() + from - at, to - from);
      at += static_cast<int64_t>(part.size());
    }
  }
  if (crc != piece.crc32c) {
    return DataLoss("read ", shard.path(), ": the checksum of tensor '", piece.key,
                    "' disagrees with the manifest: its bytes were changed");
  }
  return OkStatus();
}

// Bytes [begin, end) of the whole tensor, row-major.
Status Checkpoint::ReadBytes(const StoredTensor& tensor, int64_t begin, int64_t end,
                             std::span<std::byte> out) const {
  const int64_t row_bytes = RowBytes(tensor.RowType());
  for (const TensorPiece& piece : tensor.pieces) {
    const int64_t first = piece.row_begin * row_bytes;
    const int64_t from = std::max(begin, first), to = std::min(end, piece.row_end * row_bytes);
    if (from >= to) continue;
    OC_RETURN_IF_ERROR(
        ReadPiece(tensor, piece, from - first, to - first, out.subspan(from - begin, to - from)));
  }
  return OkStatus();
}

Status Checkpoint::ReadRows(const std::string& name, int64_t begin, int64_t end,
                            std::span<std::byte> out) const {
  const StoredTensor* tensor = manifest_.Find(name);
  if (tensor == nullptr) return InvalidArgument("read ", path_, ": no tensor '", name, "'");
  const int64_t row_bytes = RowBytes(tensor->type);
  if (begin < 0 || begin > end || end > NumRows(tensor->type.shape) ||
      static_cast<int64_t>(out.size()) != (end - begin) * row_bytes) {
    return InvalidArgument("read ", path_, ": rows ", begin, " to ", end, " of '", name, "' ",
                           tensor->type.ToString(), " into ", out.size(), " bytes");
  }
  return ReadBytes(*tensor, begin * row_bytes, end * row_bytes, out);
}

Status Checkpoint::ReadElements(const std::string& name, int64_t begin, int64_t end,
                                std::span<std::byte> out) const {
  const StoredTensor* tensor = manifest_.Find(name);
  if (tensor == nullptr) return InvalidArgument("read ", path_, ": no tensor '", name, "'");
  const int64_t size = SizeInBytes(tensor->type.dtype);
  if (begin < 0 || begin > end || end > tensor->type.shape.num_elements() ||
      static_cast<int64_t>(out.size()) != (end - begin) * size) {
    return InvalidArgument("read ", path_, ": elements ", begin, " to ", end, " of '", name, "' ",
                           tensor->type.ToString(), " into ", out.size(), " bytes");
  }
  return ReadBytes(*tensor, begin * size, end * size, out);
}

Status Checkpoint::Read(const std::string& name, std::span<std::byte> out) const {
  const StoredTensor* tensor = manifest_.Find(name);
  return ReadRows(name, 0, tensor == nullptr ? 0 : NumRows(tensor->type.shape), out);
}

StatusOr<Tensor> Checkpoint::ReadTensor(const std::string& name) const {
  const StoredTensor* stored = manifest_.Find(name);
  if (stored == nullptr) return InvalidArgument("read ", path_, ": no tensor '", name, "'");
  Tensor tensor(stored->type);
  OC_RETURN_IF_ERROR(Read(name, tensor.bytes()));
  return tensor;
}

Status Checkpoint::Verify() const {
  for (const StoredTensor& tensor : manifest_.tensors) {
    for (const TensorPiece& piece : tensor.pieces) {
      OC_RETURN_IF_ERROR(ReadPiece(tensor, piece, 0, 0, {}));
    }
  }
  return OkStatus();
}

}  // namespace oc

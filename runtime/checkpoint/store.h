// Checkpoints: folders RUN/checkpoints/step-00000120 of safetensors shards and a manifest.json,
// which appear whole or not at all. Saving takes three calls, with the caller's own communication
// between:
//
//   // rank 0, then a barrier
//   OC_ASSIGN_OR_RETURN(std::string staging, BeginCheckpoint(dir, step));
//   // every rank that stores something; `info.ToJson()` goes to rank 0
//   OC_ASSIGN_OR_RETURN(ShardInfo info, WriteShard(StagingPath(dir, step), "rank-00003", slices));
//   // rank 0, after all have written
//   OC_ASSIGN_OR_RETURN(std::string path, CommitCheckpoint(dir, manifest, infos, keep));
//
//   OC_ASSIGN_OR_RETURN(std::optional<std::string> newest, LatestCheckpoint(dir));
//   OC_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(*newest));
//   OC_RETURN_IF_ERROR(checkpoint.Read("wte", bytes));
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "openclaw/core/safetensors.h"
#include "openclaw/core/status.h"
#include "openclaw/core/tensor.h"
#include "openclaw/runtime/checkpoint/manifest.h"

namespace oc {

// What one process stores of one tensor: rows [row_begin, row_end), row-major; of a flat slice the
// rows are the tensor's elements.
struct TensorSlice {
  std::string name;
  TensorType type;  // of the whole tensor
  int64_t row_begin = 0, row_end = 0;
  std::span<const std::byte> bytes;
  bool flat = false;
  // Where `bytes` is empty: puts them into memory of their size, while they are written.
  std::function<Status(std::span<std::byte>)> read;

  static TensorSlice Whole(const std::string& name, const Tensor& tensor);
};

// Of the ranks that hold the same rows of a tensor, the one that stores them: the same answer
// everywhere, spread over the holders by name. Precondition: not empty.
int StoringRank(const std::string& name, const std::vector<int>& holders);

// DIR/step-00000120, and where it is put together before it has that name.
std::string CheckpointPath(const std::string& dir, int64_t step);
std::string StagingPath(const std::string& dir, int64_t step);

// Makes the staging folder (and `dir`), empty, after removing what interrupted saves have left in
// `dir`. One process calls it, before the others write. Returns the staging path.
StatusOr<std::string> BeginCheckpoint(const std::string& dir, int64_t step);

// Writes STAGING/SHARD_NAME.safetensors and syncs it. kInvalidArgument: a slice whose bytes do not
// fit its rows, or one that occurs twice.
StatusOr<ShardInfo> WriteShard(const std::string& staging, const std::string& shard_name,
                               const std::vector<TensorSlice>& slices);

// Checks that the shards give every tensor whole and each row once (else kInvalidArgument), writes
// the manifest, syncs, renames the staging folder to its name (replacing one of the same step), and
// removes all but the `keep` newest checkpoints (0: none is removed). The step is the manifest's.
// One process calls it. On an error nothing has the final name. Returns the checkpoint's path.
StatusOr<std::string> CommitCheckpoint(const std::string& dir, Manifest manifest,
                                       const std::vector<ShardInfo>& shards, int keep);

// The newest checkpoint in `dir` whose files are all there and whose checksums agree; a damaged one
// is skipped with a warning that says what is wrong. Nothing where `dir` is missing or holds none;
// kDataLoss where all that it holds are damaged.
StatusOr<std::optional<std::string>> LatestCheckpoint(const std::string& dir);

// Steps of the checkpoints in `dir`, ascending, sound or not.
std::vector<int64_t> CheckpointSteps(const std::string& dir);

// The manifest of the checkpoint folder `path`. kDataLoss where it is damaged; kInvalidArgument
// where there is none.
StatusOr<Manifest> LoadManifest(const std::string& path);

// A checkpoint for reading. Thread-safe.
class Checkpoint {
 public:
  // Reads the manifest and the headers of all shards, and compares them. kDataLoss: a file missing,
  // cut off, or other than the manifest says; kInvalidArgument: no checkpoint there.
  static StatusOr<Checkpoint> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }

  // The whole tensor into `out`, which has its size. kDataLoss where a checksum disagrees (naming
  // tensor and file), kInvalidArgument for an unknown name or another size.
  Status Read(const std::string& name, std::span<std::byte> out) const;
  // Rows [begin, end); the pieces that they lie in are read whole, for their checksums.
  Status ReadRows(const std::string& name, int64_t begin, int64_t end,
                  std::span<std::byte> out) const;
  // The same for elements [begin, end) of the flattened tensor, however it was stored.
  Status ReadElements(const std::string& name, int64_t begin, int64_t end,
                      std::span<std::byte> out) const;
  StatusOr<Tensor> ReadTensor(const std::string& name) const;
  // Reads everything and compares the checksums.
  Status Verify() const;

 private:
  Checkpoint() = default;
  Status CheckShards() const;
  Status ReadBytes(const StoredTensor& tensor, int64_t begin, int64_t end,
                   std::span<std::byte> out) const;
  Status ReadPiece(const StoredTensor& tensor, const TensorPiece& piece, int64_t begin, int64_t end,
                   std::span<std::byte> out) const;

  std::string path_;
  Manifest manifest_;
  std::map<std::string, SafetensorsReader> shards_;
};

}  // namespace oc

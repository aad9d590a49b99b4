// What a checkpoint holds: the contents of its manifest.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "openclaw/core/status.h"
#include "openclaw/core/tensor.h"
#include "openclaw/optim/loss_scaler.h"

namespace oc {

// Rows [row_begin, row_end) of a tensor (dimension 0; a scalar is one row; of a flat one each
// element is a row), in a shard file.
struct TensorPiece {
  std::string file;  // in the checkpoint's folder
  std::string key;   // the tensor in that safetensors file
  int64_t row_begin = 0, row_end = 0;
  uint32_t crc32c = 0;  // of the piece's bytes
};

struct StoredTensor {
  std::string name;   // logical, the same on any plan
  TensorType type;    // of the whole tensor
  bool flat = false;  // its pieces are runs of elements
  // The tensor as rows: flattened where it is flat.
  TensorType RowType() const {
    return flat ? TensorType{type.dtype, {type.shape.num_elements()}} : type;
  }
  std::vector<TensorPiece> pieces;  // ascending; together every row once
};

struct ShardFile {
  std::string name;
  int64_t bytes = 0;
};

// One process's part: what it sends to the rank that commits, as text.
struct ShardInfo {
  ShardFile file;
  std::vector<StoredTensor> tensors;

  std::string ToJson() const;
  static StatusOr<ShardInfo> FromJson(const std::string& text);
};

// Where the stream of training samples stands.
struct DataPosition {
  int64_t samples = 0;       // consumed since the start of training
  int64_t dataset_size = 0;  // 0: unknown
};

struct Manifest {
  int64_t step = 0;   // training steps done; with the seed it is the whole random state, since
  uint64_t seed = 0;  // random numbers are indexed by logical position
  DataPosition data;
  std::string optimizer;                        // its name
  std::string schedule;                         // that of the learning rate
  std::optional<LossScaler::State> loss_scale;  // of a run whose loss is scaled
  std::string plan;                             // JSON of the plan that wrote it; may be empty
  std::string config;                           // the experiment as text; may be empty

  // Filled by CommitCheckpoint, sorted by name.
  std::vector<ShardFile> files;
  std::vector<StoredTensor> tensors;

  const StoredTensor* Find(const std::string& name) const;  // null where there is none

  // The plan is embedded as JSON where it is JSON, and comes back from there in compact form.
  std::string ToJson() const;
  // kDataLoss where the text is damaged or incomplete (Validate), kUnimplemented for a later format
  // version.
  static StatusOr<Manifest> FromJson(const std::string& text);
  // Every tensor whole, from files that are listed, no row twice; else kInvalidArgument naming it.
  Status Validate() const;
};

}  // namespace oc

#include "openclaw/runtime/checkpoint/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "openclaw/core/safetensors.h"

namespace oc {

using nlohmann::ordered_json;

namespace {

constexpr const char* kFormat = "openclaw-checkpoint";
constexpr int kVersion = 1;

std::string Dump(const ordered_json& value) {
  return value.dump(1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json ToJsonValue(const StoredTensor& tensor) {
  ordered_json pieces = ordered_json::array();
  for (const TensorPiece& piece : tensor.pieces) {
    pieces.push_back({{"file", piece.file},
                      {"key", piece.key},
                      {"rows", {piece.row_begin, piece.row_end}},
                      {"crc32c", piece.crc32c}});
  }
  ordered_json value = {{"name", tensor.name},
                        {"dtype", SafetensorsName(tensor.type.dtype)},
                        {"shape", tensor.type.shape.sizes()},
                        {"pieces", std::move(pieces)}};
  if (tensor.flat) value["flat"] = true;
  return value;
}

ordered_json ToJsonValue(const ShardFile& file) {
  return {{"name", file.name}, {"bytes", file.bytes}};
}

// The functions below throw json::exception for missing keys and other types; their callers catch.

ShardFile ParseFile(const ordered_json& value) {
  return {value.at("name").get<std::string>(), value.at("bytes").get<int64_t>()};
}

StatusOr<StoredTensor> ParseTensor(const ordered_json& value) {
  StoredTensor tensor;
  tensor.name = value.at("name").get<std::string>();
  OC_ASSIGN_OR_RETURN(tensor.type.dtype, ParseSafetensorsDType(value.at("dtype")));
  const auto sizes = value.at("shape").get<std::vector<int64_t>>();
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; })) {
    return InvalidArgument("tensor ", tensor.name, " has a negative size");
  }
  tensor.type.shape = Shape::Of(sizes);
  tensor.flat = value.value("flat", false);
  for (const ordered_json& piece : value.at("pieces")) {
    tensor.pieces.push_back({.file = piece.at("file").get<std::string>(),
                             .key = piece.at("key").get<std::string>(),
                             .row_begin = piece.at("rows").at(0).get<int64_t>(),
                             .row_end = piece.at("rows").at(1).get<int64_t>(),
                             .crc32c = piece.at("crc32c").get<uint32_t>()});
  }
  return tensor;
}

StatusOr<Manifest> ParseManifest(const ordered_json& root) {
  Manifest m;
  m.step = root.at("step").get<int64_t>();
  m.seed = root.at("seed").get<uint64_t>();
  m.data.samples = root.at("data").at("samples").get<int64_t>();
  m.data.dataset_size = root.at("data").at("dataset_size").get<int64_t>();
  m.optimizer = root.at("optimizer").get<std::string>();
  m.schedule = root.at("schedule").get<std::string>();
  if (root.contains("loss_scale")) {
    const ordered_json& scale = root.at("loss_scale");
    m.loss_scale = LossScaler::State{.scale = scale.at("scale").get<double>(),
                                     .good_steps = scale.at("good_steps").get<int64_t>(),
                                     .skipped = scale.at("skipped").get<int64_t>(),
                                     .halvings = scale.at("halvings").get<int64_t>()};
  }
  const ordered_json& plan = root.at("plan");
  m.plan = plan.is_string() ? plan.get<std::string>() : plan.dump();
  m.config = root.at("config").get<std::string>();
  for (const ordered_json& file : root.at("files")) m.files.push_back(ParseFile(file));
  for (const ordered_json& value : root.at("tensors")) {
    OC_ASSIGN_OR_RETURN(StoredTensor tensor, ParseTensor(value));
    m.tensors.push_back(std::move(tensor));
  }
  return m;
}

Status ValidateTensor(const StoredTensor& tensor, const std::set<std::string>& files) {
  const int64_t rows = NumRows(tensor.RowType().shape);
  int64_t end = 0;
  for (const TensorPiece& piece : tensor.pieces) {
    if (!files.contains(piece.file)) {
      return InvalidArgument("tensor ", tensor.name, " lies in ", piece.file,
                             ", which is not listed");
    }
    if (piece.row_begin < end) {
      return InvalidArgument("tensor ", tensor.name, ": rows from ", piece.row_begin, " in ",
                             piece.file, " are stored twice (the piece before ends at row ", end,
                             ")");
    }
    if (piece.row_begin != end || piece.row_end < piece.row_begin) break;
    end = piece.row_end;
  }
  if (end != rows || tensor.pieces.empty()) {
    return InvalidArgument("tensor ", tensor.name, " ", tensor.type.ToString(),
                           ": its pieces give rows up to ", end, " of ", rows);
  }
  return OkStatus();
}

}  // namespace

std::string ShardInfo::ToJson() const {
  ordered_json list = ordered_json::array();
  for (const StoredTensor& tensor : tensors) list.push_back(ToJsonValue(tensor));
  return Dump({{"file", ToJsonValue(file)}, {"tensors", std::move(list)}});
}

StatusOr<ShardInfo> ShardInfo::FromJson(const std::string& text) {
  const ordered_json root = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  ShardInfo info;
  try {
    info.file = ParseFile(root.at("file"));
    for (const ordered_json& value : root.at("tensors")) {
      OC_ASSIGN_OR_RETURN(StoredTensor tensor, ParseTensor(value));
      info.tensors.push_back(std::move(tensor));
    }
  } catch (const ordered_json::exception& e) {
    return DataLoss("shard description: ", e.what());
  }
  return info;
}

const StoredTensor* Manifest::Find(const std::string& name) const {
  const auto found =
      std::lower_bound(tensors.begin(), tensors.end(), name,
                       [](const StoredTensor& t, const std::string& n) { return t.name < n; });
  return found != tensors.end() && found->name == name ? &*found : nullptr;
}

std::string Manifest::ToJson() const {
  ordered_json embedded = ordered_json::parse(plan, nullptr, /*allow_exceptions=*/false);
  if (!embedded.is_object()) embedded = plan;
  ordered_json file_list = ordered_json::array(), tensor_list = ordered_json::array();
  for (const ShardFile& file : files) file_list.push_back(ToJsonValue(file));
  for (const StoredTensor& tensor : tensors) tensor_list.push_back(ToJsonValue(tensor));
  ordered_json root = {{"format", kFormat},
                       {"version", kVersion},
                       {"step", step},
                       {"seed", seed},
                       {"data", {{"samples", data.samples}, {"dataset_size", data.dataset_size}}},
                       {"optimizer", optimizer},
                       {"schedule", schedule},
                       {"files", std::move(file_list)},
                       {"tensors", std::move(tensor_list)},
                       {"plan", std::move(embedded)},
                       {"config", config}};
  if (loss_scale.has_value()) {
    root["loss_scale"] = {{"scale", loss_scale->scale},
                          {"good_steps", loss_scale->good_steps},
                          {"skipped", loss_scale->skipped},
                          {"halvings", loss_scale->halvings}};
  }
  return Dump(root);
}

StatusOr<Manifest> Manifest::FromJson(const std::string& text) {
  const ordered_json root = ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object() || !root.contains("format") || root["format"] != kFormat ||
      !root.contains("version") || !root["version"].is_number_integer()) {
    return DataLoss("not a checkpoint's manifest, or damaged");
  }
  if (root["version"] != kVersion) {
    return Unimplemented("format version ", root["version"].dump(), "; this program reads version ",
                         kVersion);
  }
  try {
    OC_ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(root));
    const Status status = manifest.Validate();
    if (!status.ok()) return DataLoss(std::string(status.message()));
    return manifest;
  } catch (const ordered_json::exception& e) {
    return DataLoss("damaged: ", e.what());
  }
}

Status Manifest::Validate() const {
  std::set<std::string> names;
  for (const ShardFile& file : files) {
    if (file.name.empty() || file.name.find('/') != std::string::npos) {
      return InvalidArgument("the file name '", file.name, "' leaves the checkpoint's folder");
    }
    if (!names.insert(file.name).second) {
      return InvalidArgument("the file ", file.name, " is listed twice");
    }
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i > 0 && tensors[i - 1].name >= tensors[i].name) {
      return InvalidArgument("tensor ", tensors[i].name, " is listed twice or out of order");
    }
    OC_RETURN_IF_ERROR(ValidateTensor(tensors[i], names));
  }
  return OkStatus();
}

}  // namespace oc

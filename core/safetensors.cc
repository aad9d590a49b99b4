#include "openclaw/core/safetensors.h"

#include <absl/strings/str_join.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace oc {

using nlohmann::json;

namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMostHeaderBytes = 100'000'000;  // the format's own limit
constexpr int64_t kAlignment = 64;                 // of the first tensor
constexpr int64_t kMostElements = int64_t{1} << 56;
constexpr const char* kMetadata = "__metadata__";

struct DTypeName {
  DType dtype;
  const char* name;
};
constexpr DTypeName kNames[] = {{DType::kF32, "F32"}, {DType::kBF16, "BF16"}, {DType::kF16, "F16"},
                                {DType::kF64, "F64"}, {DType::kI32, "I32"},   {DType::kI64, "I64"},
                                {DType::kU8, "U8"},   {DType::kBool, "BOOL"}};

// kInvalidArgument says what is wrong with the entry's JSON.
StatusOr<TensorType> ParseType(const json& value) {
  if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
      !value.contains("shape") || !value["shape"].is_array()) {
    return InvalidArgument("needs dtype, shape and data_offsets");
  }
  TensorType type;
  OC_ASSIGN_OR_RETURN(type.dtype, ParseSafetensorsDType(value["dtype"].get<std::string>()));
  std::vector<int64_t> sizes;
  int64_t elements = 1;
  for (const json& size : value["shape"]) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > uint64_t{kMostElements}) {
      return InvalidArgument("shape ", value["shape"].dump(), " has a bad size");
    }
    sizes.push_back(size.get<int64_t>());
    if (sizes.back() != 0 && elements > kMostElements / sizes.back()) {
      return InvalidArgument("shape ", value["shape"].dump(), " is too large");
    }
    elements *= sizes.back();
  }
  type.shape = Shape::Of(sizes);
  return type;
}

StatusOr<std::pair<int64_t, int64_t>> ParseOffsets(const json& value) {
  const auto offsets = value.find("data_offsets");
  if (offsets == value.end() || !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) {
    return InvalidArgument("needs data_offsets of two numbers");
  }
  const auto begin = (*offsets)[0].get<uint64_t>(), end = (*offsets)[1].get<uint64_t>();
  if (begin > end || end > uint64_t{1} << 60) {
    return InvalidArgument("data_offsets ", offsets->dump(), " are out of order or range");
  }
  return std::pair(static_cast<int64_t>(begin), static_cast<int64_t>(end));
}

// The JSON parser keeps the last of two equal keys; here they are an error.
json ParseUnique(const std::string& text, std::string& repeated) {
  std::set<std::string> keys;
  return json::parse(
      text,
      [&](int depth, json::parse_event_t event, json& parsed) {
        if (event == json::parse_event_t::key && depth == 1 &&
            !keys.insert(parsed.get<std::string>()).second) {
          repeated = parsed.get<std::string>();
        }
        return true;
      },
      /*allow_exceptions=*/false);
}

std::string HeaderText(const std::vector<SafetensorsEntry>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  int64_t offset = 0;
  for (const SafetensorsEntry& t : tensors) {
    header[t.name] = {{"dtype", SafetensorsName(t.type.dtype)},
                      {"shape", t.type.shape.sizes()},
                      {"data_offsets", {offset, offset + t.type.bytes()}}};
    offset += t.type.bytes();
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  const auto used = kLengthBytes + static_cast<int64_t>(text.size());
  text.append(static_cast<size_t>((kAlignment - used % kAlignment) % kAlignment), ' ');
  return text;
}

}  // namespace

const char* SafetensorsName(DType dtype) {
  for (const DTypeName& entry : kNames) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "?";
}

StatusOr<DType> ParseSafetensorsDType(const std::string& name) {
  std::vector<std::string> known;
  for (const DTypeName& entry : kNames) {
    if (name == entry.name) return entry.dtype;
    known.emplace_back(entry.name);
  }
  return InvalidArgument("dtype '", name, "' is unknown; known are ", absl::StrJoin(known, ", "));
}

int64_t NumRows(const Shape& shape) { return shape.rank() == 0 ? 1 : shape[0].size(); }

namespace {

Status CheckEntries(const std::string& path, const std::vector<SafetensorsEntry>& tensors) {
  std::set<std::string> names;
  for (const SafetensorsEntry& t : tensors) {
    if (!t.type.shape.bound()) {
      return InvalidArgument("write ", path, ": the shape of ", t.name,
                             " is not bound: ", t.type.ToString());
    }
    if (t.name.empty() || t.name == kMetadata || !names.insert(t.name).second) {
      return InvalidArgument("write ", path, ": the name '", t.name,
                             "' is empty, reserved or used twice");
    }
  }
  return OkStatus();
}

}  // namespace

StatusOr<SafetensorsWriter> SafetensorsWriter::Create(
    const std::string& path, std::vector<SafetensorsEntry> tensors,
    const std::map<std::string, std::string>& metadata) {
  OC_RETURN_IF_ERROR(CheckEntries(path, tensors));
  OC_ASSIGN_OR_RETURN(File file, File::Create(path));
  return CreateAt(std::move(file), 0, std::move(tensors), metadata);
}

StatusOr<SafetensorsWriter> SafetensorsWriter::CreateAt(
    File file, int64_t begin, std::vector<SafetensorsEntry> tensors,
    const std::map<std::string, std::string>& metadata) {
  OC_RETURN_IF_ERROR(CheckEntries(file.path(), tensors));
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return SizeInBits(a.type.dtype) > SizeInBits(b.type.dtype);
                   });
  const std::string header = HeaderText(tensors, metadata);
  const uint64_t length = header.size();  // little-endian, as all that this project runs on
  OC_RETURN_IF_ERROR(file.WriteAt(begin, std::as_bytes(std::span(&length, 1))));
  OC_RETURN_IF_ERROR(file.WriteAt(begin + kLengthBytes, std::as_bytes(std::span(header))));

  SafetensorsWriter writer(std::move(file));
  int64_t offset = begin + kLengthBytes + static_cast<int64_t>(header.size());
  for (SafetensorsEntry& t : tensors) {
    t.offset = offset;
    offset += t.type.bytes();
    std::string name = t.name;
    writer.slots_[name] = {std::move(t), 0};
  }
  writer.file_bytes_ = offset - begin;
  return writer;
}

Status SafetensorsWriter::Write(const std::string& name, std::span<const std::byte> bytes,
                                int64_t begin) {
  const auto slot = slots_.find(name);
  if (slot == slots_.end()) {
    return InvalidArgument("write ", file_.path(), ": no tensor '", name, "' was declared");
  }
  const SafetensorsEntry& entry = slot->second.entry;
  const auto size = static_cast<int64_t>(bytes.size());
  if (begin < 0 || begin > entry.type.bytes() || size > entry.type.bytes() - begin) {
    return InvalidArgument("write ", file_.path(), ": ", size, " bytes at byte ", begin, " of ",
                           name, " do not fit ", entry.type.ToString());
  }
  OC_RETURN_IF_ERROR(file_.WriteAt(entry.offset + begin, bytes));
  slot->second.written += size;
  return OkStatus();
}

Status SafetensorsWriter::Finish() {
  for (const auto& [name, slot] : slots_) {
    if (slot.written != slot.entry.type.bytes()) {
      return FailedPrecondition("write ", file_.path(), ": ", slot.written, " of ",
                                slot.entry.type.bytes(), " bytes of ", name, " were written");
    }
  }
  return file_.Sync();
}

StatusOr<SafetensorsReader> SafetensorsReader::Open(const std::string& path) {
  OC_ASSIGN_OR_RETURN(File file, File::OpenForReading(path));
  OC_ASSIGN_OR_RETURN(const int64_t size, file.Size());
  return OpenAt(std::move(file), 0, size);
}

StatusOr<SafetensorsReader> SafetensorsReader::OpenAt(File file, int64_t begin, int64_t size) {
  const std::string path = file.path();
  SafetensorsReader reader(std::move(file));
  reader.begin_ = begin;
  reader.file_bytes_ = size;
  if (size < kLengthBytes) {
    return DataLoss("read ", path, ": ", size, " bytes are too few for a safetensors file");
  }
  uint64_t length = 0;
  OC_RETURN_IF_ERROR(reader.file_.ReadAt(begin, std::as_writable_bytes(std::span(&length, 1))));
  if (length > uint64_t{kMostHeaderBytes}) {
    return InvalidArgument("read ", path, ": not a safetensors file: its header would have ",
                           length, " bytes");
  }
  const auto header_bytes = static_cast<int64_t>(length);
  if (header_bytes > size - kLengthBytes) {
    return DataLoss("read ", path, ": cut off in its header, ", size, " of at least ",
                    kLengthBytes + header_bytes, " bytes");
  }
  std::string text(length, '\0');
  const int64_t data_begin = begin + kLengthBytes + header_bytes;
  OC_RETURN_IF_ERROR(
      reader.file_.ReadAt(begin + kLengthBytes, std::as_writable_bytes(std::span(text))));
  OC_RETURN_IF_ERROR(reader.ParseHeader(text, data_begin));
  OC_RETURN_IF_ERROR(reader.CheckLayout(data_begin));
  return reader;
}

Status SafetensorsReader::ParseHeader(const std::string& text, int64_t data_begin) {
  std::string repeated;
  const json header = ParseUnique(text, repeated);
  if (!header.is_object()) return DataLoss("read ", path(), ": its header is no JSON object");
  if (!repeated.empty()) {
    return InvalidArgument("read ", path(), ": two tensors are called '", repeated, "'");
  }
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) {
      if (!value.is_object()) return InvalidArgument("read ", path(), ": bad __metadata__");
      for (const auto& [key, item] : value.items()) {
        if (!item.is_string()) return InvalidArgument("read ", path(), ": bad __metadata__ ", key);
        metadata_[key] = item.get<std::string>();
      }
      continue;
    }
    const std::string context = absl::StrCat("read ", path(), ": tensor '", name, "'");
    SafetensorsEntry entry{.name = name};
    auto type = ParseType(value);
    if (!type.ok()) return Annotate(type.status(), context);
    auto offsets = ParseOffsets(value);
    if (!offsets.ok()) return Annotate(offsets.status(), context);
    entry.type = *std::move(type);
    if (offsets->second - offsets->first != entry.type.bytes()) {
      return InvalidArgument(context, ": ", entry.type.ToString(), " takes ", entry.type.bytes(),
                             " bytes, its data_offsets give ", offsets->second - offsets->first);
    }
    entry.offset = data_begin + offsets->first;
    entries_.push_back(std::move(entry));
  }
  // Empty tensors share their offset with what follows: they come first.
  std::stable_sort(
      entries_.begin(), entries_.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
        return std::pair(a.offset, a.type.bytes()) < std::pair(b.offset, b.type.bytes());
      });
  for (size_t i = 0; i < entries_.size(); ++i) index_[entries_[i].name] = i;
  return OkStatus();
}

// The tensors cover the data section exactly, each byte once.
Status SafetensorsReader::CheckLayout(int64_t data_begin) const {
  int64_t end = data_begin;
  for (const SafetensorsEntry& entry : entries_) {
    if (entry.offset != end) {
      return InvalidArgument("read ", path(), ": tensor '", entry.name, "' begins at byte ",
                             entry.offset, entry.offset < end ? " and overlaps" : ", a gap after",
                             " what ends at ", end);
    }
    end += entry.type.bytes();
    if (end > this->end()) {
      return DataLoss("read ", path(), ": cut off: tensor '", entry.name, "' ends at byte ", end,
                      ", the file at ", this->end());
    }
  }
  if (end != this->end()) {
    return InvalidArgument("read ", path(), ": ", this->end() - end,
                           " bytes after the last tensor");
  }
  return OkStatus();
}

const SafetensorsEntry* SafetensorsReader::Find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

StatusOr<Tensor> SafetensorsReader::Read(const std::string& name) const {
  const SafetensorsEntry* entry = Find(name);
  if (entry == nullptr) return InvalidArgument("read ", path(), ": no tensor '", name, "'");
  Tensor tensor(entry->type);
  OC_RETURN_IF_ERROR(ReadBytes(*entry, 0, tensor.bytes()));
  return tensor;
}

Status SafetensorsReader::ReadRows(const std::string& name, int64_t begin, int64_t end,
                                   std::span<std::byte> out) const {
  const SafetensorsEntry* entry = Find(name);
  if (entry == nullptr) return InvalidArgument("read ", path(), ": no tensor '", name, "'");
  const int64_t rows = NumRows(entry->type.shape);
  const int64_t row_bytes = rows == 0 ? 0 : entry->type.bytes() / rows;
  if (begin < 0 || begin > end || end > rows ||
      static_cast<int64_t>(out.size()) != (end - begin) * row_bytes) {
    return InvalidArgument("read ", path(), ": rows ", begin, " to ", end, " of '", name, "' ",
                           entry->type.ToString(), " into ", out.size(), " bytes");
  }
  return ReadBytes(*entry, begin * row_bytes, out);
}

Status SafetensorsReader::ReadBytes(const SafetensorsEntry& entry, int64_t begin,
                                    std::span<std::byte> out) const {
  const auto size = static_cast<int64_t>(out.size());
  OC_CHECK(begin >= 0 && begin + size <= entry.type.bytes(), entry.name);
  return file_.ReadAt(entry.offset + begin, out);
}

}  // namespace oc

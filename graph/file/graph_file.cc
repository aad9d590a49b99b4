#include "openclaw/graph/file/graph_file.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "openclaw/core/crc32c.h"
#include "openclaw/graph/file/encode.h"

namespace oc {
namespace {

// All numbers are little-endian, as all that this project runs on.
constexpr char kMagic[8] = {'O', 'P', 'E', 'N', 'C', 'L', 'A', 'W'};
constexpr uint32_t kVersion = 1;
constexpr int64_t kMostGraphBytes = int64_t{256} << 20;
constexpr uint32_t kMostSections = 64;

struct FileHeader {
  char magic[8];
  uint32_t version;
  uint32_t sections;
};
static_assert(sizeof(FileHeader) == 16);

enum class SectionType : uint32_t { kGraph = 1, kWeights = 2 };

struct SectionHeader {
  uint32_t type;
  uint32_t crc;  // CRC-32C of type, length and content
  uint64_t length;
};
static_assert(sizeof(SectionHeader) == 16);

template <typename T>
std::span<const std::byte> BytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

uint32_t ChecksumOfHeader(const SectionHeader& header) {
  return Crc32c(BytesOf(header.length), Crc32c(BytesOf(header.type)));
}

// The checksum of a section whose content is in the file, read in pieces.
StatusOr<uint32_t> ChecksumOf(const File& file, const SectionHeader& header, int64_t begin) {
  uint32_t crc = ChecksumOfHeader(header);
  std::vector<std::byte> piece(size_t{1} << 20);
  int64_t left = static_cast<int64_t>(header.length);
  while (left > 0) {
    const auto size = std::min(left, static_cast<int64_t>(piece.size()));
    const std::span<std::byte> part(piece.data(), static_cast<size_t>(size));
    OC_RETURN_IF_ERROR(file.ReadAt(begin, part));
    crc = Crc32c(part, crc);
    begin += size;
    left -= size;
  }
  return crc;
}

// Each weight is a parameter or state of the graph, of the same shape.
template <typename Entries>
Status CheckWeights(const Graph& graph, const Entries& entries) {
  std::map<std::string, const TensorType*> known;
  for (const auto* list : {&graph.parameters, &graph.states}) {
    for (const Variable& v : *list) {
      known[graph.values[v.value].name] = &graph.values[v.value].type;
    }
  }
  for (const SafetensorsEntry& entry : entries) {
    const auto found = known.find(entry.name);
    if (found == known.end()) {
      return InvalidArgument("weight ", entry.name, " is no parameter or state of graph ",
                             graph.name);
    }
    if (!(found->second->shape == entry.type.shape)) {
      return InvalidArgument("weight ", entry.name, " is ", entry.type.ToString(), ", graph ",
                             graph.name, " wants ", found->second->ToString());
    }
  }
  return OkStatus();
}

Status WriteSections(const std::string& path, const std::string& graph,
                     const std::vector<SafetensorsEntry>& entries,
                     const std::vector<std::pair<std::string, Tensor>>& weights) {
  OC_ASSIGN_OR_RETURN(File file, File::Create(path));
  FileHeader header = {{}, kVersion, weights.empty() ? 1u : 2u};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  OC_RETURN_IF_ERROR(file.WriteAt(0, BytesOf(header)));

  const std::span<const std::byte> content = std::as_bytes(std::span(graph));
  SectionHeader section = {static_cast<uint32_t>(SectionType::kGraph), 0, graph.size()};
  section.crc = Crc32c(content, ChecksumOfHeader(section));
  int64_t position = sizeof(FileHeader);
  OC_RETURN_IF_ERROR(file.WriteAt(position, BytesOf(section)));
  position += sizeof(SectionHeader);
  OC_RETURN_IF_ERROR(file.WriteAt(position, content));
  position += static_cast<int64_t>(graph.size());
  if (weights.empty()) return file.Sync();

  const int64_t begin = position + static_cast<int64_t>(sizeof(SectionHeader));
  OC_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                      SafetensorsWriter::CreateAt(std::move(file), begin, entries, {}));
  for (const auto& [name, tensor] : weights) {
    OC_RETURN_IF_ERROR(writer.Write(name, tensor.bytes()));
  }
  OC_RETURN_IF_ERROR(writer.Finish());
  section = {static_cast<uint32_t>(SectionType::kWeights), 0,
             static_cast<uint64_t>(writer.file_bytes())};
  file = writer.Release();
  OC_ASSIGN_OR_RETURN(section.crc, ChecksumOf(file, section, begin));
  OC_RETURN_IF_ERROR(file.WriteAt(position, BytesOf(section)));
  return file.Sync();
}

struct Section {
  SectionHeader header;
  int64_t begin = 0;  // of the content
};

// The sections by type, each within the file, and nothing after them.
StatusOr<std::map<uint32_t, Section>> ReadSections(const File& file) {
  OC_ASSIGN_OR_RETURN(const int64_t size, file.Size());
  FileHeader header = {};
  const auto wanted = std::min<int64_t>(size, sizeof(header));
  OC_RETURN_IF_ERROR(file.ReadAt(
      0, std::as_writable_bytes(std::span(&header, 1)).first(static_cast<size_t>(wanted))));
  const auto magic_bytes = static_cast<size_t>(std::min<int64_t>(size, sizeof(kMagic)));
  if (std::memcmp(header.magic, kMagic, magic_bytes) != 0) {
    return InvalidArgument("not a .oc file: it does not begin with OPENCLAW");
  }
  if (size < static_cast<int64_t>(sizeof(header))) {
    return DataLoss("cut off in its first ", sizeof(header), " bytes");
  }
  if (header.version != kVersion) {
    return InvalidArgument("a .oc file of version ", header.version, ", known is version ",
                           kVersion);
  }
  if (header.sections > kMostSections) {
    return DataLoss("says it has ", header.sections, " sections: damaged");
  }
  std::map<uint32_t, Section> sections;
  int64_t position = sizeof(header);
  for (uint32_t i = 0; i < header.sections; ++i) {
    Section section;
    if (size - position < static_cast<int64_t>(sizeof(SectionHeader))) {
      return DataLoss("cut off before section ", i + 1, " of ", header.sections);
    }
    OC_RETURN_IF_ERROR(
        file.ReadAt(position, std::as_writable_bytes(std::span(&section.header, 1))));
    section.begin = position + static_cast<int64_t>(sizeof(SectionHeader));
    if (section.header.length > static_cast<uint64_t>(size - section.begin)) {
      return DataLoss("cut off: section ", i + 1, " has ", section.header.length, " bytes, ",
                      size - section.begin, " are there");
    }
    position = section.begin + static_cast<int64_t>(section.header.length);
    if (!sections.emplace(section.header.type, section).second) {
      return DataLoss("two sections of type ", section.header.type);
    }
  }
  if (position != size) return DataLoss(size - position, " bytes after the last section");
  return sections;
}

Status CheckSection(const File& file, const Section& section, const char* what) {
  OC_ASSIGN_OR_RETURN(const uint32_t crc, ChecksumOf(file, section.header, section.begin));
  if (crc == section.header.crc) return OkStatus();
  return DataLoss("the checksum of its ", what, " differs: the file is damaged");
}

StatusOr<LoadedGraph> ReadGraph(File file, std::shared_ptr<const OpRegistry> ops) {
  OC_ASSIGN_OR_RETURN(const auto sections, ReadSections(file));
  for (const auto& [type, section] : sections) {
    const bool known = type == static_cast<uint32_t>(SectionType::kGraph);
    const bool weights = type == static_cast<uint32_t>(SectionType::kWeights);
    OC_RETURN_IF_ERROR(CheckSection(file, section,
                                    known     ? "graph"
                                    : weights ? "weights"
                                              : "section of unknown type"));
  }
  const auto graph_section = sections.find(static_cast<uint32_t>(SectionType::kGraph));
  if (graph_section == sections.end()) return InvalidArgument("it holds no graph");
  const Section& section = graph_section->second;
  if (section.header.length > static_cast<uint64_t>(kMostGraphBytes)) {
    return InvalidArgument("its graph has ", section.header.length, " bytes, at most ",
                           kMostGraphBytes, " are read");
  }
  std::string bytes(section.header.length, '\0');
  OC_RETURN_IF_ERROR(file.ReadAt(section.begin, std::as_writable_bytes(std::span(bytes))));
  std::vector<std::string> without_init;
  OC_ASSIGN_OR_RETURN(Graph graph, DecodeGraph(bytes, std::move(ops), &without_init));
  LoadedGraph loaded{std::move(graph), std::nullopt};
  const auto weights = sections.find(static_cast<uint32_t>(SectionType::kWeights));
  if (weights != sections.end()) {
    OC_ASSIGN_OR_RETURN(loaded.weights, SafetensorsReader::OpenAt(
                                            std::move(file), weights->second.begin,
                                            static_cast<int64_t>(weights->second.header.length)));
    OC_RETURN_IF_ERROR(CheckWeights(loaded.graph, loaded.weights->entries()));
  }
  for (const std::string& name : without_init) {
    if (loaded.weights.has_value() && loaded.weights->Find(name) != nullptr) continue;
    return InvalidArgument("variable ", name, " of graph ", loaded.graph.name,
                           " has neither an initial value nor a weight in the file");
  }
  return loaded;
}

}  // namespace

Status SaveGraph(const std::string& path, const Graph& graph,
                 const std::vector<std::pair<std::string, Tensor>>& weights) {
  const std::string context = absl::StrCat("save graph ", path);
  auto bytes = EncodeGraph(graph);
  if (!bytes.ok()) return Annotate(bytes.status(), context);
  if (static_cast<int64_t>(bytes->size()) > kMostGraphBytes) {
    return InvalidArgument(context, ": the graph has ", bytes->size(), " bytes, at most ",
                           kMostGraphBytes, " are read again");
  }
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : weights) entries.push_back({name, tensor.type()});
  OC_RETURN_IF_ERROR(Annotate(CheckWeights(graph, entries), context));

  const std::string temporary = path + ".tmp";
  Status status = WriteSections(temporary, *bytes, entries, weights);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = absl::UnavailableError(absl::StrCat("cannot rename ", temporary));
  }
  if (!status.ok()) {
    std::error_code ignored;  // the first error is the one to tell
    std::filesystem::remove(temporary, ignored);
    return Annotate(status, context);
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return Annotate(SyncDirectory(folder.empty() ? "." : folder), context);
}

StatusOr<LoadedGraph> LoadGraph(const std::string& path, std::shared_ptr<const OpRegistry> ops) {
  const std::string context = absl::StrCat("load graph ", path);
  auto file = File::OpenForReading(path);
  if (!file.ok()) return Annotate(file.status(), context);
  auto loaded = ReadGraph(*std::move(file), std::move(ops));
  if (!loaded.ok()) return Annotate(loaded.status(), context);
  return loaded;
}

}  // namespace oc

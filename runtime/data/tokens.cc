#include "openclaw/runtime/data/tokens.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace oc {
namespace {

constexpr int32_t kMagic = 20240520;
constexpr int32_t kWideMagic = 20240801;  // llm.c's Llama 3 files: 32-bit tokens
constexpr int64_t kHeaderBytes = 256 * 4;

int32_t HeaderWord(std::span<const std::byte> bytes, int i) {
  int32_t word;
  std::memcpy(&word, bytes.data() + 4 * i, 4);
  return word;
}

}  // namespace

StatusOr<std::unique_ptr<TokenDataset>> TokenDataset::OpenText(
    const std::vector<std::string>& paths, const TokenOptions& options) {
  std::vector<Part> parts;
  for (const std::string& path : paths) {
    OC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    const std::span<const std::byte> bytes = file.bytes();
    parts.push_back({std::move(file), bytes.data(), 0, static_cast<int64_t>(bytes.size())});
  }
  TokenOptions text = options;
  text.vocabulary = options.vocabulary.value_or(256);
  return Finish(std::move(parts), 1, text);
}

StatusOr<std::unique_ptr<TokenDataset>> TokenDataset::OpenBin(const std::vector<std::string>& paths,
                                                              const TokenOptions& options) {
  std::vector<Part> parts;
  for (const std::string& path : paths) {
    OC_ASSIGN_OR_RETURN(Part part, OpenBinFile(path));
    parts.push_back(std::move(part));
  }
  return Finish(std::move(parts), 2, options);
}

StatusOr<TokenDataset::Part> TokenDataset::OpenBinFile(const std::string& path) {
  OC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  const std::span<const std::byte> bytes = file.bytes();
  const auto size = static_cast<int64_t>(bytes.size());
  const int32_t magic = size >= 4 ? HeaderWord(bytes, 0) : 0;
  if (magic == kWideMagic) {
    return InvalidArgument("read tokens ", path, ": holds 32-bit tokens (magic ", magic,
                           "), only files of 16-bit tokens are read");
  }
  if (magic != kMagic) {
    if (size % 2 != 0) {
      return InvalidArgument("read tokens ", path, ": ", size,
                             " bytes are no whole number of 16-bit tokens; is it text?");
    }
    return Part{std::move(file), bytes.data(), 0, size / 2};
  }
  if (size < kHeaderBytes) {
    return DataLoss("read tokens ", path, ": cut off in its header, ", size, " of ", kHeaderBytes,
                    " bytes");
  }
  if (HeaderWord(bytes, 1) != 1) {
    return InvalidArgument("read tokens ", path, ": version ", HeaderWord(bytes, 1),
                           ", only version 1 is read");
  }
  const int64_t count = static_cast<uint32_t>(HeaderWord(bytes, 2));
  if (size - kHeaderBytes != 2 * count) {
    return DataLoss(
        "read tokens ", path, ": ",
        size - kHeaderBytes < 2 * count ? "cut off: " : "too long: ", "its header says ", count,
        " tokens, ", (size - kHeaderBytes) / 2, " are there");
  }
  return Part{std::move(file), bytes.data() + kHeaderBytes, 0, count};
}

StatusOr<std::unique_ptr<TokenDataset>> TokenDataset::Finish(std::vector<Part> parts, int width,
                                                             const TokenOptions& options) {
  if (parts.empty()) return InvalidArgument("read tokens: no files are given");
  if (options.context <= 0) {
    return InvalidArgument("read tokens: context must be positive, it is ", options.context);
  }
  if (options.vocabulary.value_or(1) <= 0) {
    return InvalidArgument("read tokens: vocabulary must be positive, it is ", *options.vocabulary);
  }
  int64_t total = 0;
  for (Part& part : parts) {
    part.begin = total;
    total += part.count;
  }
  if (total < options.context + 1) {
    return InvalidArgument(
        "read tokens ", parts[0].file.path(), parts.size() > 1 ? " and others" : "", ": ", total,
        " tokens, a sample of context ", options.context, " needs ", options.context + 1);
  }
  std::unique_ptr<TokenDataset> dataset(new TokenDataset(std::move(parts), width, options));
  OC_RETURN_IF_ERROR(dataset->CountTokens(options.vocabulary));
  return dataset;
}

TokenDataset::TokenDataset(std::vector<Part> parts, int width, const TokenOptions& options)
    : Dataset({{"tokens", {DType::kI32, {Dim(options.context)}}},
               {"targets", {DType::kI32, {Dim(options.context)}}}}),
      parts_(std::move(parts)),
      width_(width),
      context_(options.context) {}

int32_t TokenDataset::At(const Part& part, int64_t i) const {
  if (width_ == 1) return std::to_integer<int32_t>(part.data[i]);
  uint16_t token;
  std::memcpy(&token, part.data + 2 * i, 2);
  return token;
}

// One pass over everything: the frequencies, and no token that an embedding has no row for.
Status TokenDataset::CountTokens(const std::optional<int64_t>& vocabulary) {
  counts_.assign(width_ == 1 ? 256 : 65536, 0);
  for (const Part& part : parts_) {
    for (int64_t i = 0; i < part.count; ++i) ++counts_[At(part, i)];
  }
  int64_t largest = static_cast<int64_t>(counts_.size()) - 1;
  while (counts_[largest] == 0) --largest;
  vocabulary_ = vocabulary.value_or(largest + 1);
  if (largest >= vocabulary_) {
    for (const Part& part : parts_) {
      for (int64_t i = 0; i < part.count; ++i) {
        if (At(part, i) < vocabulary_) continue;
        const int64_t offset = part.data - part.file.bytes().data() + i * width_;
        return InvalidArgument("read tokens ", part.file.path(), ": token ", At(part, i),
                               " at byte ", offset, " is beyond the vocabulary of ", vocabulary_);
      }
    }
  }
  counts_.resize(vocabulary_, 0);
  return OkStatus();
}

void TokenDataset::Copy(int64_t begin, std::span<int32_t> out) const {
  auto part = std::upper_bound(parts_.begin(), parts_.end(), begin,
                               [](int64_t b, const Part& p) { return b < p.begin; }) -
              1;
  size_t done = 0;
  for (; done < out.size(); ++part) {
    const int64_t from = begin + static_cast<int64_t>(done) - part->begin;
    const auto count = std::min<int64_t>(part->count - from, out.size() - done);
    for (int64_t i = 0; i < count; ++i) out[done + i] = At(*part, from + i);
    done += count;
  }
}

Status TokenDataset::Read(int64_t index, Sample& sample) const {
  Copy(index * context_, sample.row<int32_t>(0));
  Copy(index * context_ + 1, sample.row<int32_t>(1));
  return OkStatus();
}

double UnigramEntropy(std::span<const int64_t> counts) {
  double total = 0;
  for (int64_t count : counts) total += static_cast<double>(count);
  double entropy = 0;
  for (int64_t count : counts) {
    if (count == 0) continue;
    const double p = static_cast<double>(count) / total;
    entropy -= p * std::log(p);
  }
  return entropy;
}

}  // namespace oc

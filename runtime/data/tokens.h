// Token streams: text as bytes, and .bin files of 16-bit tokens.
//
//   OC_ASSIGN_OR_RETURN(auto train, TokenDataset::OpenText({"a.txt", "b.txt"}, {.context = 256}));
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "openclaw/core/status.h"
#include "openclaw/runtime/data/dataset.h"
#include "openclaw/runtime/data/mapped_file.h"

namespace oc {

struct TokenOptions {
  int64_t context = 0;                // tokens in a sample
  std::optional<int64_t> vocabulary;  // none: 256 for text, the largest token and one for .bin
};

// Features "tokens" i32[context] and "targets" i32[context], the tokens one later. The files are
// one stream in the order given; sample i begins at token i * context, so that every token but the
// first is a target once and a tail too short for a sample is left out. Files are mapped, not
// copied.
class TokenDataset : public Dataset {
 public:
  // Every byte is a token. kInvalidArgument: no or missing files, fewer than context + 1 tokens, or
  // a token that is not below `vocabulary` (naming file and offset).
  static StatusOr<std::unique_ptr<TokenDataset>> OpenText(const std::vector<std::string>& paths,
                                                          const TokenOptions& options);
  // Little-endian 16-bit tokens, raw or after the header of llm.c (256 int32: magic 20240520,
  // version 1, count). Also kInvalidArgument: another version, an odd size; kDataLoss: not as many
  // tokens as its header says.
  static StatusOr<std::unique_ptr<TokenDataset>> OpenBin(const std::vector<std::string>& paths,
                                                         const TokenOptions& options);

  int64_t size() const override { return (num_tokens() - 1) / context_; }
  Status Read(int64_t index, Sample& sample) const override;

  int64_t num_tokens() const { return parts_.back().begin + parts_.back().count; }
  int64_t vocabulary() const { return vocabulary_; }
  // How often each token occurs; as long as the vocabulary.
  const std::vector<int64_t>& counts() const { return counts_; }

 private:
  // One file's place in the stream.
  struct Part {
    MappedFile file;
    const std::byte* data;
    int64_t begin, count;
  };
  TokenDataset(std::vector<Part> parts, int width, const TokenOptions& options);
  static StatusOr<std::unique_ptr<TokenDataset>> Finish(std::vector<Part> parts, int width,
                                                        const TokenOptions& options);
  static StatusOr<Part> OpenBinFile(const std::string& path);
  Status CountTokens(const std::optional<int64_t>& vocabulary);
  int32_t At(const Part& part, int64_t i) const;
  void Copy(int64_t begin, std::span<int32_t> out) const;

  std::vector<Part> parts_;
  int width_;  // bytes of a token
  int64_t context_;
  int64_t vocabulary_ = 0;
  std::vector<int64_t> counts_;
};

// The entropy of independent draws with these counts, in nats: the loss of a model that knows the
// frequencies of the tokens and nothing else.
double UnigramEntropy(std::span<const int64_t> counts);

}  // namespace oc

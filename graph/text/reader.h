// Reads the words of the text form, and knows where it stands. Errors are kInvalidArgument with
// line, column, what was expected and what stands there.
#pragma once

#include <string>
#include <vector>

#include "openclaw/core/tensor.h"
#include "openclaw/graph/attributes.h"

namespace oc {

class TextReader {
 public:
  explicit TextReader(const std::string& text) : text_(text) {}

  // Where an error is reported at: an offset into the text.
  size_t position() const { return pos_; }
  // "line 3, column 14: ..." with the given code-independent message.
  Status Error(size_t position, const std::string& message) const;
  Status Expected(const std::string& what) const;

  // Skips blanks and a comment ("# ..." up to the end of the line), not line ends.
  void SkipBlanks();
  // Skips blanks, comments and empty lines.
  void SkipLines();
  bool AtEnd() const { return pos_ >= text_.size(); }
  // Whether `literal` stands next; if so, goes past it. A literal of letters must not go on as a
  // word.
  bool Accept(const std::string& literal);
  Status Expect(const std::string& literal);
  // Nothing but blanks until the end of the line.
  Status ExpectLineEnd();

  // A word, or a quoted string where one is written instead; `what` is for the error.
  StatusOr<std::string> Word(const std::string& what);
  // A word that stands next, without going past it; empty where none does.
  std::string PeekWord();
  StatusOr<int64_t> Int(const std::string& what);
  StatusOr<double> Double(const std::string& what);
  StatusOr<Shape> ReadShape();
  StatusOr<TensorType> ReadType();
  // {name: value, ...}
  StatusOr<Attributes> ReadAttributes();

 private:
  StatusOr<std::string> Quoted();
  StatusOr<AttrValue> ReadAttribute();
  StatusOr<std::vector<int64_t>> ReadInts();
  // The characters of a number: a word with '+'.
  std::string Number();

  const std::string& text_;
  size_t pos_ = 0;
};

}  // namespace oc

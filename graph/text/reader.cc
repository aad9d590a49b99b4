#include "openclaw/graph/text/reader.h"

#include <absl/strings/escaping.h>
#include <absl/strings/numbers.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "openclaw/graph/text/words.h"

namespace oc {

Status TextReader::Error(size_t position, const std::string& message) const {
  position = std::min(position, text_.size());
  const auto begin = text_.begin(), end = begin + static_cast<std::ptrdiff_t>(position);
  const auto line = std::count(begin, end, '\n') + 1;
  const size_t line_begin = position == 0 ? std::string::npos : text_.rfind('\n', position - 1);
  const size_t column = line_begin == std::string::npos ? position + 1 : position - line_begin;
  return InvalidArgument("line ", line, ", column ", column, ": ", message);
}

Status TextReader::Expected(const std::string& what) const {
  std::string found = "the end of the text";
  if (!AtEnd()) {
    size_t end = pos_;
    while (end < text_.size() && end - pos_ < 20 && IsWordChar(text_[end])) ++end;
    const std::string next = text_.substr(pos_, std::max<size_t>(end - pos_, 1));
    const bool plain = next[0] > ' ' && next[0] < 127;
    found = next == "\n" ? "the end of the line"
                         : absl::StrCat("'", plain ? next : absl::CEscape(next), "'");
  }
  return Error(pos_, absl::StrCat("expected ", what, ", found ", found));
}

void TextReader::SkipBlanks() {
  while (!AtEnd() && (text_[pos_] == ' ' || text_[pos_] == '\t' || text_[pos_] == '\r')) ++pos_;
  if (!AtEnd() && text_[pos_] == '#') pos_ = std::min(text_.find('\n', pos_), text_.size());
}

void TextReader::SkipLines() {
  SkipBlanks();
  while (!AtEnd() && text_[pos_] == '\n') {
    ++pos_;
    SkipBlanks();
  }
}

bool TextReader::Accept(const std::string& literal) {
  SkipBlanks();
  if (text_.compare(pos_, literal.size(), literal) != 0) return false;
  const size_t end = pos_ + literal.size();
  if (IsWordChar(literal.back()) && end < text_.size() && IsWordChar(text_[end])) return false;
  pos_ = end;
  return true;
}

Status TextReader::Expect(const std::string& literal) {
  return Accept(literal) ? OkStatus() : Expected(absl::StrCat("'", literal, "'"));
}

Status TextReader::ExpectLineEnd() {
  SkipBlanks();
  if (AtEnd() || text_[pos_] == '\n') return OkStatus();
  return Expected("the end of the line");
}

std::string TextReader::PeekWord() {
  SkipBlanks();
  size_t end = pos_;
  while (end < text_.size() && IsWordChar(text_[end])) ++end;
  return text_.substr(pos_, end - pos_);
}

StatusOr<std::string> TextReader::Word(const std::string& what) {
  SkipBlanks();
  if (!AtEnd() && text_[pos_] == '"') return Quoted();
  const std::string word = PeekWord();
  if (word.empty()) return Expected(what);
  pos_ += word.size();
  return word;
}

StatusOr<std::string> TextReader::Quoted() {
  const size_t begin = pos_;
  size_t end = begin + 1;
  while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') {
    end += text_[end] == '\\' ? 2 : 1;
  }
  if (end >= text_.size() || text_[end] != '"') {
    return Error(begin, "the string that begins here has no closing quote");
  }
  std::string result, error;
  if (!absl::CUnescape(text_.substr(begin + 1, end - begin - 1), &result, &error)) {
    return Error(begin, absl::StrCat("bad string: ", error));
  }
  pos_ = end + 1;
  return result;
}

std::string TextReader::Number() {
  SkipBlanks();
  size_t end = pos_;
  while (end < text_.size() && (IsWordChar(text_[end]) || text_[end] == '+')) ++end;
  return text_.substr(pos_, end - pos_);
}

StatusOr<int64_t> TextReader::Int(const std::string& what) {
  const std::string number = Number();
  int64_t value = 0;
  if (!absl::SimpleAtoi(number, &value)) return Expected(what);
  pos_ += number.size();
  return value;
}

StatusOr<double> TextReader::Double(const std::string& what) {
  const std::string number = Number();
  double value = 0;
  if (number.empty() || !absl::SimpleAtod(number, &value)) return Expected(what);
  pos_ += number.size();
  return value;
}

StatusOr<Shape> TextReader::ReadShape() {
  SkipBlanks();
  if (AtEnd() || text_[pos_] != '[') return Expected("a shape such as [B, 4]");
  const size_t end = text_.find_first_of("]\n", pos_);
  if (end == std::string::npos || text_[end] == '\n') {
    return Error(pos_, "the shape that begins here has no ']'");
  }
  auto shape = Shape::Parse(text_.substr(pos_, end - pos_ + 1));
  if (!shape.ok()) return Error(pos_, std::string(shape.status().message()));
  pos_ = end + 1;
  return shape;
}

StatusOr<TensorType> TextReader::ReadType() {
  const std::string word = PeekWord();
  if (word.empty()) return Expected("a type such as f32[B, 4]");
  auto dtype = ParseDType(word);
  if (!dtype.ok()) return Error(pos_, std::string(dtype.status().message()));
  pos_ += word.size();
  OC_ASSIGN_OR_RETURN(Shape shape, ReadShape());
  return TensorType{*dtype, std::move(shape)};
}

StatusOr<Attributes> TextReader::ReadAttributes() {
  OC_RETURN_IF_ERROR(Expect("{"));
  Attributes attrs;
  while (true) {
    SkipBlanks();
    const size_t begin = pos_;
    OC_ASSIGN_OR_RETURN(const std::string name, Word("an attribute's name"));
    if (attrs.Has(name)) return Error(begin, absl::StrCat("attribute ", name, " stands twice"));
    OC_RETURN_IF_ERROR(Expect(":"));
    OC_ASSIGN_OR_RETURN(AttrValue value, ReadAttribute());
    attrs.Set(name, std::move(value));
    if (Accept("}")) return attrs;
    if (!Accept(",")) return Expected("',' or '}'");
  }
}

StatusOr<AttrValue> TextReader::ReadAttribute() {
  SkipBlanks();
  const char next = AtEnd() ? '\0' : text_[pos_];
  if (next == '"') {
    OC_ASSIGN_OR_RETURN(std::string value, Quoted());
    return AttrValue(std::move(value));
  }
  if (next == '[') {
    OC_ASSIGN_OR_RETURN(Shape value, ReadShape());
    return AttrValue(std::move(value));
  }
  if (next == '(') {
    OC_ASSIGN_OR_RETURN(std::vector<int64_t> value, ReadInts());
    return AttrValue(std::move(value));
  }
  if (Accept("true")) return AttrValue(true);
  if (Accept("false")) return AttrValue(false);
  if (auto dtype = ParseDType(PeekWord()); dtype.ok()) {
    pos_ += PeekWord().size();
    return AttrValue(*dtype);
  }
  const std::string number = Number();
  int64_t integer = 0;
  if (absl::SimpleAtoi(number, &integer)) {
    pos_ += number.size();
    return AttrValue(integer);
  }
  OC_ASSIGN_OR_RETURN(const double value,
                      Double("a value: true, 1, 0.5, \"text\", (1, 2), [B, 4] or f32"));
  return AttrValue(value);
}

StatusOr<std::vector<int64_t>> TextReader::ReadInts() {
  OC_RETURN_IF_ERROR(Expect("("));
  std::vector<int64_t> values;
  if (Accept(")")) return values;
  while (true) {
    OC_ASSIGN_OR_RETURN(const int64_t value, Int("an integer"));
    values.push_back(value);
    if (Accept(")")) return values;
    if (!Accept(",")) return Expected("',' or ')'");
  }
}

}  // namespace oc

// SPDX-License-Identifier: MIT
#include "doctor/document.h"

#include <yaml-cpp/yaml.h>

#include "base/error.h"
#include "base/format.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

// Copies yaml-cpp's shared nodes into a tree of our own, counting each use of an alias.
class Converter {
 public:
  Converter(const std::string& what, const DocumentLimits& limits) : what_(what), limits_(limits) {}

  Document convert(const YAML::Node& node, int depth, int first_line) {
    if (depth > limits_.max_depth) throw Error(format("{}: nested deeper than {}", what_, limits_.max_depth));
    if (++values_ > limits_.max_values)
      throw Error(format("{}: more than {} values, aliases expanded", what_, limits_.max_values));
    Document document;
    document.line = first_line + node.Mark().line + 1;
    if (node.IsScalar()) {
      document.kind = Document::Kind::kScalar;
      document.text = node.Scalar();
      count_bytes(document.text.size());
    } else if (node.IsSequence()) {
      document.kind = Document::Kind::kList;
      for (const YAML::Node& item : node) document.items.push_back(convert(item, depth + 1, first_line));
    } else if (node.IsMap()) {
      document.kind = Document::Kind::kMap;
      for (const auto& member : node) {
        std::string name = member.first.IsScalar() ? member.first.Scalar() : "";
        count_bytes(name.size());
        document.members.push_back({std::move(name), convert(member.second, depth + 1, first_line)});
      }
    }
    return document;
  }

 private:
  void count_bytes(size_t bytes) {
    bytes_ += bytes;
    if (bytes_ > 8 * limits_.max_bytes) throw Error(format("{}: too much text, aliases expanded", what_));
  }
  const std::string& what_;
  const DocumentLimits& limits_;
  int64_t values_ = 0;
  size_t bytes_ = 0;
};

// yaml-cpp recurses a level of nesting: brackets alone can nest as deep as the file is long.
void check_nesting(std::string_view text, const std::string& what, int max_depth) {
  int depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (depth > 8 * max_depth) throw Error(format("{}: brackets nested deeper than {}", what, 8 * max_depth));
  }
}

// The documents of a stream, cut at the lines that begin with "---". yaml-cpp's own LoadAll never ends on
// some texts, a lone comma among them: it takes a document that consumed nothing for one more document.
std::vector<std::pair<std::string_view, int>> pieces_of(std::string_view text) {
  std::vector<std::pair<std::string_view, int>> pieces;
  size_t begin = 0;
  int line = 0, first_line = 0;
  for (size_t at = 0; at < text.size(); ++line) {
    const std::string_view rest = text.substr(at);
    const bool is_mark = starts_with(rest, "---") &&
                         (rest.size() == 3 || rest[3] == '\n' || rest[3] == ' ' || rest[3] == '\r');
    if (is_mark && at > begin) {
      pieces.emplace_back(text.substr(begin, at - begin), first_line);
      begin = at;
      first_line = line;
    }
    const size_t end = text.find('\n', at);
    at = end == std::string_view::npos ? text.size() : end + 1;
  }
  pieces.emplace_back(text.substr(begin), first_line);
  return pieces;
}

}  // namespace

const Document& Document::at(std::string_view path) const {
  static const Document kNothing;
  const Document* here = this;
  for (const std::string_view name : split(path, '.')) {
    const Document* next = nullptr;
    for (const auto& [key, value] : here->members)
      if (key == name) next = &value;
    if (next == nullptr) return kNothing;
    here = next;
  }
  return *here;
}

std::string Document::string_or(std::string fallback) const {
  if (kind == Kind::kScalar) return text;
  return fallback;
}

std::optional<double> Document::number() const {
  return kind == Kind::kScalar ? to_number(text) : std::nullopt;
}

std::vector<Document> parse_documents(
    std::string_view text, const std::string& what, const DocumentLimits& limits) {
  if (text.size() > limits.max_bytes)
    throw Error(format("{}: {} bytes; at most {} are read", what, text.size(), limits.max_bytes));
  check_nesting(text, what, limits.max_depth);
  std::vector<Document> documents;
  Converter converter(what, limits);
  for (const auto& [piece, first_line] : pieces_of(text)) {
    try {
      const YAML::Node node = YAML::Load(std::string(piece));
      if (!node.IsNull()) documents.push_back(converter.convert(node, 0, first_line));
    } catch (const YAML::Exception& error) {
      throw Error(format("{}:{}: {}", what, first_line + error.mark.line + 1, printable(error.msg, 200)));
    }
  }
  return documents;
}

}  // namespace cheetah::doctor

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

  Document convert(const YAML::Node& node, int depth) {
    if (depth > limits_.max_depth) throw Error(format("{}: nested deeper than {}", what_, limits_.max_depth));
    if (++values_ > limits_.max_values)
      throw Error(format("{}: more than {} values, aliases expanded", what_, limits_.max_values));
    Document document;
    document.line = node.Mark().line + 1;
    if (node.IsScalar()) {
      document.kind = Document::Kind::kScalar;
      document.text = node.Scalar();
      count_bytes(document.text.size());
    } else if (node.IsSequence()) {
      document.kind = Document::Kind::kList;
      for (const YAML::Node& item : node) document.items.push_back(convert(item, depth + 1));
    } else if (node.IsMap()) {
      document.kind = Document::Kind::kMap;
      for (const auto& member : node) {
        std::string name = member.first.IsScalar() ? member.first.Scalar() : "";
        count_bytes(name.size());
        document.members.push_back({std::move(name), convert(member.second, depth + 1)});
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
  return kind == Kind::kScalar ? text : std::move(fallback);
}

std::optional<double> Document::number() const {
  return kind == Kind::kScalar ? to_number(text) : std::nullopt;
}

std::vector<Document> parse_documents(std::string_view text, const std::string& what,
                                      const DocumentLimits& limits) {
  if (text.size() > limits.max_bytes)
    throw Error(format("{}: {} bytes; at most {} are read", what, text.size(), limits.max_bytes));
  check_nesting(text, what, limits.max_depth);
  std::vector<Document> documents;
  try {
    Converter converter(what, limits);
    for (const YAML::Node& node : YAML::LoadAll(std::string(text)))
      documents.push_back(converter.convert(node, 0));
  } catch (const YAML::Exception& error) {
    throw Error(format("{}:{}: {}", what, error.mark.line + 1, printable(error.msg, 200)));
  }
  return documents;
}

}  // namespace cheetah::doctor

// SPDX-License-Identifier: MIT
#pragma once
// YAML or JSON as a tree of plain values, read within limits. YAML's aliases are expanded and counted, so
// that a small file cannot become a large tree.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah::doctor {

struct Document {
  struct Member;  // a name and its value
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  std::string text;             // kScalar
  std::vector<Document> items;  // kList
  std::vector<Member> members;  // kMap, in the file's order
  int line = 0;                 // where it begins, from 1

  bool is_map() const { return kind == Kind::kMap; }
  bool is_list() const { return kind == Kind::kList; }
  // A member of a map, or the null document. Dots descend: at("spec.containers").
  const Document& at(std::string_view path) const;
  bool has(std::string_view path) const { return at(path).kind != Kind::kNull; }
  std::string string_or(std::string fallback) const;
  std::optional<double> number() const;
  bool is_true() const { return text == "true" || text == "True" || text == "yes"; }
};

struct Document::Member {
  std::string name;
  Document value;
};

struct DocumentLimits {
  size_t max_bytes = size_t{4} << 20;
  int64_t max_values = 200'000;
  int max_depth = 64;
};

// All documents of a YAML stream (JSON is YAML). Throws Error naming `what` and the line.
std::vector<Document> parse_documents(
    std::string_view text, const std::string& what, const DocumentLimits& limits = {});

}  // namespace cheetah::doctor

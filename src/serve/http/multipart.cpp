// SPDX-License-Identifier: MIT
#include "serve/http/multipart.h"

#include "serve/http/message.h"

namespace cheetah {
namespace {

constexpr size_t kMaxParts = 64;
constexpr size_t kMaxHeadBytes = 8 << 10;
constexpr size_t kMaxBoundaryBytes = 200;

// The value of NAME=VALUE or NAME="VALUE" behind a semicolon; nullopt: not there.
std::optional<std::string> parameter(std::string_view text, std::string_view name) {
  for (size_t at = text.find(';'); at != std::string_view::npos; at = text.find(';', at)) {
    ++at;
    std::string_view rest = trim_blanks(text.substr(at));
    if (rest.size() <= name.size() || !same_ignoring_case(rest.substr(0, name.size()), name) ||
        rest[name.size()] != '=')
      continue;
    rest.remove_prefix(name.size() + 1);
    if (!rest.starts_with('"')) return std::string(trim_blanks(rest.substr(0, rest.find(';'))));
    std::string value;
    for (size_t i = 1; i < rest.size() && rest[i] != '"'; ++i) {
      if (rest[i] == '\\' && i + 1 < rest.size() && (rest[i + 1] == '"' || rest[i + 1] == '\\')) ++i;
      value += rest[i];
    }
    return value;
  }
  return std::nullopt;
}

std::optional<FormPart> read_part(std::string_view text) {
  const size_t end = text.find("\r\n\r\n");
  if (end == std::string_view::npos || end > kMaxHeadBytes) return std::nullopt;
  FormPart part;
  part.content = text.substr(end + 4);
  for (std::string_view head = text.substr(0, end + 2); !head.empty();) {
    const size_t line_end = head.find("\r\n");
    const std::string_view line = head.substr(0, line_end);
    head.remove_prefix(line_end + 2);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    if (!same_ignoring_case(line.substr(0, colon), "content-disposition")) continue;
    const std::string_view value = line.substr(colon + 1);
    part.name = parameter(value, "name").value_or("");
    part.filename = parameter(value, "filename").value_or("");
  }
  if (part.name.empty()) return std::nullopt;
  return part;
}

}  // namespace

std::optional<std::vector<FormPart>> parse_form(std::string_view content_type, std::string_view body) {
  const std::string_view type = trim_blanks(content_type.substr(0, content_type.find(';')));
  if (!same_ignoring_case(type, "multipart/form-data")) return std::nullopt;
  const auto boundary = parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > kMaxBoundaryBytes) return std::nullopt;
  const std::string mark = "--" + *boundary, next = "\r\n" + mark;
  if (!body.starts_with(mark)) return std::nullopt;
  body.remove_prefix(mark.size());
  std::vector<FormPart> parts;
  while (!body.starts_with("--")) {
    if (!body.starts_with("\r\n") || parts.size() == kMaxParts) return std::nullopt;
    body.remove_prefix(2);
    const size_t end = body.find(next);
    if (end == std::string_view::npos) return std::nullopt;
    auto part = read_part(body.substr(0, end));
    if (!part) return std::nullopt;
    parts.push_back(*std::move(part));
    body.remove_prefix(end + next.size());
  }
  return parts;
}

}  // namespace cheetah

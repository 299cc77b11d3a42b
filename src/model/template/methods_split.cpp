// SPDX-License-Identifier: MIT
// Methods of str that take apart and put together.
#include <algorithm>

#include "base/format.h"
#include "model/template/builtins.h"
#include "model/template/runtime.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

using Pieces = std::vector<std::string_view>;

Pieces split_spaces(std::string_view text, int64_t most) {
  Pieces pieces;
  text = strip(text, Side::kLeft);
  while (!text.empty() && most-- != 0) {
    size_t end = 0;
    for (size_t next = 0; next < text.size(); end = next)
      if (is_space(next_code_point(text, next))) break;
    pieces.push_back(text.substr(0, end));
    text = strip(text.substr(end), Side::kLeft);
  }
  if (!text.empty()) pieces.push_back(text);
  return pieces;
}

Pieces rsplit_spaces(std::string_view text, int64_t most) {
  Pieces pieces;
  text = strip(text, Side::kRight);
  while (!text.empty() && most-- != 0) {
    size_t start = 0;  // of the last word
    for (size_t at = 0; at < text.size();)
      if (is_space(next_code_point(text, at))) start = at;
    pieces.push_back(text.substr(start));
    text = strip(text.substr(0, start), Side::kRight);
  }
  if (!text.empty()) pieces.push_back(text);
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

Pieces split_at(std::string_view text, std::string_view separator, int64_t most) {
  Pieces pieces;
  size_t at = 0;
  while (most-- != 0) {
    const size_t found = text.find(separator, at);
    if (found == std::string_view::npos) break;
    pieces.push_back(text.substr(at, found - at));
    at = found + separator.size();
  }
  pieces.push_back(text.substr(at));
  return pieces;
}

Pieces rsplit_at(std::string_view text, std::string_view separator, int64_t most) {
  Pieces pieces;
  while (most-- != 0) {
    const size_t found = text.rfind(separator);
    if (found == std::string_view::npos) break;
    pieces.push_back(text.substr(found + separator.size()));
    text = text.substr(0, found);
  }
  pieces.push_back(text);
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

Value as_list(Runtime& in, const Pieces& pieces, bool safe) {
  std::vector<Value> items;
  in.budget().items(static_cast<int64_t>(pieces.size()));
  items.reserve(pieces.size());
  for (const std::string_view piece : pieces) items.push_back(in.string(std::string(piece), safe));
  return Value::list(std::move(items));
}

Value split_text(Runtime& in, const Value& self, const Args& args, bool from_right) {
  const Params params(from_right ? "rsplit" : "split", args, {"sep", "maxsplit"});
  const int64_t most = params.integer(1, -1);
  in.budget().bytes(self.weight());
  const bool safe = self.text().safe;
  if (!params.given_not_none(0)) {
    // Words from the right cost a walk each, so the unlimited case goes from the left, with the same result.
    if (!from_right || most < 0) return as_list(in, split_spaces(self.bytes(), most), safe);
    in.budget().bytes(std::min<int64_t>(most, 1 << 20) * self.weight());
    return as_list(in, rsplit_spaces(self.bytes(), most), safe);
  }
  const std::string separator = params.string(0, "");
  if (separator.empty()) fail("empty separator");
  return as_list(in,
      from_right ? rsplit_at(self.bytes(), separator, most) : split_at(self.bytes(), separator, most), safe);
}
Value split_method(Runtime& in, const Value& self, Args& args) { return split_text(in, self, args, false); }
Value rsplit_method(Runtime& in, const Value& self, Args& args) { return split_text(in, self, args, true); }

Value splitlines_method(Runtime& in, const Value& self, Args& args) {
  const Params params("splitlines", args, {"keepends"});
  in.budget().bytes(self.weight());
  return as_list(in, split_lines(self.bytes(), params.boolean(0, false)), self.text().safe);
}

Value part(Runtime& in, const Value& self, const Args& args, bool from_right) {
  const Params params(from_right ? "rpartition" : "partition", args, {"sep"}, 1);
  const std::string separator = params.string(0, "");
  if (separator.empty()) fail("empty separator");
  const std::string& text = self.bytes();
  const size_t at = from_right ? text.rfind(separator) : text.find(separator);
  const bool safe = self.text().safe;
  const auto piece = [&](std::string bytes) { return in.string(std::move(bytes), safe); };
  if (at == std::string::npos) {
    if (from_right) return Value::tuple({piece(""), piece(""), piece(text)});
    return Value::tuple({piece(text), piece(""), piece("")});
  }
  return Value::tuple(
      {piece(text.substr(0, at)), piece(separator), piece(text.substr(at + separator.size()))});
}
Value partition_method(Runtime& in, const Value& self, Args& args) { return part(in, self, args, false); }
Value rpartition_method(Runtime& in, const Value& self, Args& args) { return part(in, self, args, true); }

Value join_method(Runtime& in, const Value& self, Args& args) {
  const Params params("join", args, {"iterable"}, 1);
  const std::string& separator = self.bytes();
  std::string out;
  size_t index = 0;
  for (const Value& item : in.iterate(params[0])) {
    if (!item.is_string())
      fail(format("sequence item {}: expected str instance, {} found", index, type_name(item)));
    if (index++ != 0) out += separator;
    out += self.text().safe && !item.text().safe ? escape_html(item.bytes()) : item.bytes();
    in.budget().bytes(static_cast<int64_t>(separator.size() + item.bytes().size()));
    if (static_cast<int64_t>(out.size()) > in.max_text_bytes()) break;  // string() below says so
  }
  return in.string(std::move(out), self.text().safe);
}

Value expandtabs_method(Runtime& in, const Value& self, Args& args) {
  const int64_t size = std::clamp<int64_t>(Params("expandtabs", args, {"tabsize"}).integer(0, 8), 0, 1 << 20);
  std::string out;
  int64_t column = 0;
  for (size_t at = 0; at < self.bytes().size();) {
    const size_t start = at;
    const char32_t c = next_code_point(self.bytes(), at);
    if (c == '\t') {
      const int64_t spaces = size == 0 ? 0 : size - column % size;
      in.budget().bytes(4 * spaces);
      out.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
      continue;
    }
    out += self.bytes().substr(start, at - start);
    column = c == '\n' || c == '\r' ? 0 : column + 1;
  }
  return in.string(std::move(out), self.text().safe);
}

constexpr Named<NativeFunction> kMethods[] = {
    {"split", split_method},
    {"rsplit", rsplit_method},
    {"splitlines", splitlines_method},
    {"partition", partition_method},
    {"rpartition", rpartition_method},
    {"join", join_method},
    {"expandtabs", expandtabs_method},
};

}  // namespace

NativeFunction find_split_method(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kMethods), std::end(kMethods), [&](auto& m) { return m.name == name; });
  return found == std::end(kMethods) ? nullptr : found->function;
}

}  // namespace cheetah::jinja

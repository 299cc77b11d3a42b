// SPDX-License-Identifier: MIT
// str.format: "{} {name[key]!r:>{width}}". Fields reach attributes by the rules of the sandbox.
#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/format.h"
#include "model/template/format_spec.h"
#include "model/template/runtime.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

int64_t take_number(std::string_view& text, int64_t most, const char* what) {
  int64_t value = 0;
  while (!text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0) {
    value = value * 10 + (text[0] - '0');
    if (value > most) fail(format("memory limit exceeded: format {} of more than {}", what, most));
    text.remove_prefix(1);
  }
  return value;
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

class Formatter {
 public:
  Formatter(Runtime& in, const Args& args, bool safe) : in_(in), args_(args), safe_(safe) {}

  std::string run(std::string_view text, int depth = 2) {
    if (depth < 0) fail("Max string recursion exceeded");
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const char c = text[at++];
      const bool doubled = at < text.size() && text[at] == c;
      if (c == '{' && !doubled) {
        out += field(take_field(text, at), depth);
      } else if (c == '}' && !doubled) {
        fail("Single '}' encountered in format string");
      } else {
        out += c;
        if (c == '{' || c == '}') ++at;
      }
      in_.budget().bytes(1);
      if (static_cast<int64_t>(out.size()) > in_.max_text_bytes())
        fail("memory limit exceeded: a formatted text is too long");
    }
    return out;
  }

 private:
  // The text up to the brace that closes the field.
  static std::string_view take_field(std::string_view text, size_t& at) {
    const size_t start = at;
    int open = 1;
    for (; at < text.size(); ++at) {
      if (text[at] == '{') ++open;
      if (text[at] == '}' && --open == 0) return text.substr(start, at++ - start);
    }
    fail("Single '{' encountered in format string");
  }

  std::string field(std::string_view body, int depth) {
    const size_t end = field_name_end(body);
    const std::string_view name = body.substr(0, end);
    std::string_view rest = body.substr(end);
    char conversion = '\0';
    if (rest.starts_with("!")) {
      if (rest.size() < 2) fail("end of string while looking for conversion specifier");
      conversion = rest[1];
      rest.remove_prefix(2);
      if (!rest.empty() && rest[0] != ':') fail("expected ':' after conversion specifier");
    }
    if (rest.starts_with(":")) rest.remove_prefix(1);
    Value value = lookup(name);
    if (conversion == 'r' || conversion == 'a') {
      in_.budget().bytes(value.weight());
      value = in_.string(repr(value));
    } else if (conversion == 's') {
      value = in_.string(in_.str(value));
    } else if (conversion != '\0') {
      fail(format("Unknown conversion specifier {}", conversion));
    }
    std::string shown = format_value(in_, value, run(rest, depth - 1));
    const bool trusted = value.is_string() && value.text().safe;
    return safe_ && !trusted ? escape_html(shown) : shown;
  }

  static size_t field_name_end(std::string_view body) {
    bool in_brackets = false;
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i] == '[') in_brackets = true;
      if (body[i] == ']') in_brackets = false;
      if (!in_brackets && (body[i] == '!' || body[i] == ':')) return i;
    }
    return body.size();
  }

  Value first_value(std::string_view name) {
    if (name.empty()) {
      if (numbering_ == Numbering::kManual)
        fail("cannot switch from manual field specification to automatic field numbering");
      numbering_ = Numbering::kAutomatic;
      return positional(next_++);
    }
    if (is_digits(name)) {
      if (numbering_ == Numbering::kAutomatic)
        fail("cannot switch from automatic field numbering to manual field specification");
      numbering_ = Numbering::kManual;
      return positional(static_cast<size_t>(take_number(name, 1 << 20, "index")));
    }
    for (const auto& [key, value] : args_.named)
      if (key == name) return value;
    fail(format("format() has no argument {}", string_repr(printable(name))));
  }

  Value positional(size_t index) const {
    if (index >= args_.positional.size())
      fail(format("Replacement index {} out of range for positional args tuple", index));
    return args_.positional[index];
  }

  Value lookup(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = first_value(name.substr(0, end));
    name.remove_prefix(end);
    while (!name.empty()) {
      if (name[0] == '.') {
        const size_t stop = std::min(name.find_first_of(".[", 1), name.size());
        if (stop == 1) fail("Empty attribute in format string");
        value = in_.attribute(value, std::string(name.substr(1, stop - 1)));
        name.remove_prefix(stop);
        continue;
      }
      const size_t stop = name.find(']');
      if (name[0] != '[') fail("Only '.' or '[' may follow ']' in format field specifier");
      if (stop == std::string_view::npos) fail("Missing ']' in format string");
      const std::string_view key = name.substr(1, stop - 1);
      if (key.empty()) fail("Empty attribute in format string");
      const auto number = is_digits(key) ? parse_integer(key) : std::nullopt;
      value = in_.item(value, number ? Value::integer(*number) : Value::string(std::string(key)));
      name.remove_prefix(stop + 1);
    }
    return value;
  }

  enum class Numbering { kUnknown, kAutomatic, kManual };
  Runtime& in_;
  const Args& args_;
  bool safe_;
  Numbering numbering_ = Numbering::kUnknown;
  size_t next_ = 0;
};

std::string format_string(const Value& value, FormatSpec spec) {
  if (spec.type != '\0' && spec.type != 's')
    fail(format("Unknown format code '{}' for object of type 'str'", spec.type));
  if (spec.align == '=') fail("'=' alignment not allowed in string format specifier");
  std::string text = value.bytes();
  if (spec.precision >= 0) text = encode(decode(text).substr(0, static_cast<size_t>(spec.precision)));
  return pad_text(text, spec);
}

}  // namespace

FormatSpec parse_format_spec(std::string_view text) {
  FormatSpec spec;
  size_t first = 0;
  if (!text.empty()) next_code_point(text, first);
  if (first < text.size() && is_align(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    text.remove_prefix(first + 1);
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  const auto take = [&](std::string_view choices) {
    if (text.empty() || choices.find(text[0]) == std::string_view::npos) return '\0';
    const char c = text[0];
    text.remove_prefix(1);
    return c;
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != '\0';
  if (take("0") != '\0') {
    if (spec.align == '\0') {
      spec.fill.assign(1, '0');
      spec.align = '=';
    }
  }
  spec.width = take_number(text, kMaxFormatWidth, "width");
  spec.group = take(",_");
  if (take(".") != '\0') {
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) == 0)
      fail("Format specifier missing precision");
    spec.precision = static_cast<int>(take_number(text, kMaxPrecision, "precision"));
  }
  spec.type = take("bcdeEfFgGnosxX%");
  if (!text.empty()) fail("Invalid format specifier");
  return spec;
}

std::string format_value(Runtime& in, const Value& value, std::string_view text) {
  if (text.empty()) return in.str(value);
  FormatSpec spec = parse_format_spec(text);
  in.budget().bytes(spec.width * static_cast<int64_t>(spec.fill.size()) + std::max(spec.precision, 0));
  if (value.is_string() && spec.align == '=' && spec.fill == "0" && text.find('=') == std::string_view::npos)
    spec.align = '<';  // "{:05}" of a string fills on the right
  if (value.is_string()) return format_string(value, spec);
  const bool as_float =
      spec.type != '\0' && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  if (value.is_number()) {
    if (spec.type == 's' || (value.is_float() && spec.type != '\0' && !as_float && spec.type != 'n'))
      fail(format("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value)));
    if (spec.type == 'n') spec.type = value.is_float() ? 'g' : 'd';
    if (value.is_float() || as_float) return format_double(value.as_double(), spec);
    return format_integer(value.as_integer(), spec);
  }
  fail(format("unsupported format string passed to {}.__format__", type_name(value)));
}

std::string str_format(Runtime& in, const Value& pattern, const Args& args) {
  return Formatter(in, args, pattern.text().safe).run(pattern.bytes());
}

}  // namespace cheetah::jinja

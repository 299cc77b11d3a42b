// SPDX-License-Identifier: MIT
// How Python prints: str() and repr() of every kind of value.
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/format.h"
#include "model/template/text.h"
#include "model/template/value.h"

namespace cheetah::jinja {
namespace {

void append_joined(std::string& out, const std::vector<Value>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out += ", ";
    out += repr(items[i]);
  }
}

std::string range_repr(const Sequence& range) {
  if (range.step == 1) return format("range({}, {})", range.start, range.stop);
  return format("range({}, {}, {})", range.start, range.stop, range.step);
}

std::string sequence_repr(const Sequence& sequence) {
  switch (sequence.flavor) {
    case Flavor::kGenerator:
      return format("<generator object {}>", sequence.made_by);
    case Flavor::kRange:
      return range_repr(sequence);
    default:
      break;
  }
  const char* open = "[";
  const char* close = "]";
  if (sequence.flavor == Flavor::kTuple) {
    open = "(";
    close = sequence.items.size() == 1 ? ",)" : ")";
  } else if (sequence.flavor != Flavor::kList) {
    const bool keys = sequence.flavor == Flavor::kKeys;
    open = keys ? "dict_keys([" : sequence.flavor == Flavor::kValues ? "dict_values([" : "dict_items([";
    close = "])";
  }
  std::string out = open;
  append_joined(out, sequence.items);
  return out + close;
}

std::string dict_repr(const Dict& dict) {
  std::string out = "{";
  for (const auto& [key, value] : dict.entries()) {
    if (out.size() > 1) out += ", ";
    out += repr(key) + ": " + repr(value);
  }
  return out + "}";
}

void append_escaped(std::string& out, char32_t c, std::string_view bytes) {
  if (c == '\n')
    out += "\\n";
  else if (c == '\r')
    out += "\\r";
  else if (c == '\t')
    out += "\\t";
  else if (c < 0x20 || c == 0x7f)
    out += format("\\x{:02x}", static_cast<uint32_t>(c));
  else if (c < 0x7f || is_printable(c))
    out += bytes;
  else if (c <= 0xff)
    out += format("\\x{:02x}", static_cast<uint32_t>(c));
  else if (c <= 0xffff)
    out += format("\\u{:04x}", static_cast<uint32_t>(c));
  else
    out += format("\\U{:08x}", static_cast<uint32_t>(c));
}

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  const std::string shortest(buffer, end);  // d.ddde±XX with the fewest digits that read back the same
  const size_t mark = shortest.find('e');
  const int exponent = std::atoi(shortest.c_str() + mark + 1);
  if (exponent < -4 || exponent >= 16) {
    return format("{}e{}{:02}", shortest.substr(0, mark), exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  const auto fixed = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed).ptr;
  std::string plain(buffer, fixed);
  if (plain.find('.') == std::string::npos) plain += ".0";
  return plain;
}

std::string string_repr(std::string_view bytes) {
  const bool has_single = bytes.find('\'') != std::string_view::npos;
  const bool has_double = bytes.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < bytes.size();) {
    const size_t start = at;
    const char32_t c = next_code_point(bytes, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else {
      append_escaped(out, c, bytes.substr(start, at - start));
    }
  }
  return out + quote;
}

std::string type_name(const Value& value) {
  if (value.is_none()) return "NoneType";
  if (value.is_undefined()) return "Undefined";
  if (value.is_boolean()) return "bool";
  if (value.is_integer()) return "int";
  if (value.is_float()) return "float";
  if (value.is_string()) return value.text().safe ? "Markup" : "str";
  if (value.is_dict()) return "dict";
  if (value.is_object()) return value.object_of().type_name();
  switch (value.items_of().flavor) {
    case Flavor::kList:
      return "list";
    case Flavor::kTuple:
      return "tuple";
    case Flavor::kGenerator:
      return "generator";
    case Flavor::kKeys:
      return "dict_keys";
    case Flavor::kValues:
      return "dict_values";
    case Flavor::kItems:
      return "dict_items";
    case Flavor::kRange:
      return "range";
  }
  return "object";
}

std::string to_str(const Value& value) {
  if (value.is_string()) return value.bytes();
  if (value.is_undefined()) return "";
  return repr(value);
}

std::string repr(const Value& value) {
  if (value.is_none()) return "None";
  if (value.is_undefined()) return "Undefined";
  if (value.is_boolean()) return value.as_integer() != 0 ? "True" : "False";
  if (value.is_integer()) return format("{}", value.as_integer());
  if (value.is_float()) return float_repr(value.as_double());
  if (value.is_string()) {
    return value.text().safe ? format("Markup({})", string_repr(value.bytes())) : string_repr(value.bytes());
  }
  if (value.is_sequence()) return sequence_repr(value.items_of());
  if (value.is_dict()) return dict_repr(value.dict_of());
  return value.object_of().repr();
}

}  // namespace cheetah::jinja

// SPDX-License-Identifier: MIT
// The tojson filter of chat templates: json.dumps(value, ensure_ascii=False, indent, separators, sort_keys).
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "model/template/builtins.h"
#include "model/template/runtime.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

struct Style {
  bool ascii = false;
  bool sort_keys = false;
  bool indented = false;
  std::string indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

class Writer {
 public:
  Writer(Runtime& in, const Style& style) : in_(in), style_(style) {}

  void value(const Value& value) {
    in_.budget().bytes(static_cast<int64_t>(out.size() - charged_) + 64);
    charged_ = out.size();
    if (value.is_none())
      out += "null";
    else if (value.is_boolean())
      out += truthy(value) ? "true" : "false";
    else if (value.is_integer())
      out += format("{}", value.as_integer());
    else if (value.is_float())
      out += number(value.as_double());
    else if (value.is_string())
      string(value.bytes());
    else if (value.is_dict())
      object(value.dict_of());
    else if (value.is_list() || value.is_tuple())
      array(value.items_of().items);
    else
      fail(format("Object of type {} is not JSON serializable", type_name(value)));
  }

  std::string out;

 private:
  static std::string number(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return float_repr(value);
  }

  void newline() {
    if (!style_.indented) return;
    in_.budget().bytes(static_cast<int64_t>(style_.indent.size()) * level_ + 1);
    out += '\n';
    for (int i = 0; i < level_; ++i) out += style_.indent;
  }

  void array(const std::vector<Value>& items) {
    out += '[';
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i != 0) out += style_.item_separator;
      newline();
      value(items[i]);
    }
    --level_;
    if (!items.empty()) newline();
    out += ']';
  }

  static std::string key_text(const Value& key) {
    if (key.is_string()) return key.bytes();
    if (key.is_none()) return "null";
    if (key.is_boolean()) return truthy(key) ? "true" : "false";
    if (key.is_float()) return number(key.as_double());
    if (key.is_integer()) return format("{}", key.as_integer());
    fail(format("keys must be str, int, float, bool or None, not {}", type_name(key)));
  }

  void object(const Dict& dict) {
    std::vector<const Dict::Entry*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys)
      std::stable_sort(
          entries.begin(), entries.end(), [&](auto* a, auto* b) { return in_.is_less(a->first, b->first); });
    out += '{';
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i != 0) out += style_.item_separator;
      newline();
      string(key_text(entries[i]->first));
      out += style_.key_separator;
      value(entries[i]->second);
    }
    --level_;
    if (!entries.empty()) newline();
    out += '}';
  }

  void escaped(char32_t c) {
    if (c < 0x10000) {
      out += format("\\u{:04x}", static_cast<uint32_t>(c));
      return;
    }
    const auto rest = static_cast<uint32_t>(c - 0x10000);
    out += format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
  }

  void string(const std::string& bytes) {
    out += '"';
    for (size_t at = 0; at < bytes.size();) {
      const size_t start = at;
      const char32_t c = next_code_point(bytes, at);
      switch (c) {
        case '"':
          out += "\\\"";
          break;
        case '\\':
          out += "\\\\";
          break;
        case '\n':
          out += "\\n";
          break;
        case '\r':
          out += "\\r";
          break;
        case '\t':
          out += "\\t";
          break;
        case '\b':
          out += "\\b";
          break;
        case '\f':
          out += "\\f";
          break;
        default:
          if (c < 0x20 || (style_.ascii && c > 0x7e))
            escaped(c);
          else
            out.append(bytes, start, at - start);
      }
    }
    out += '"';
  }

  Runtime& in_;
  const Style& style_;
  int level_ = 0;
  size_t charged_ = 0;
};

Style style_from(const Params& params) {
  Style style;
  style.ascii = params.boolean(0, false);
  style.sort_keys = params.boolean(3, false);
  if (params.given_not_none(1)) {
    style.indented = true;
    style.item_separator.assign(1, ',');
    if (params[1].is_string())
      style.indent = params[1].bytes();
    else
      style.indent =
          std::string(static_cast<size_t>(std::clamp<int64_t>(params.integer(1, 0), 0, 1000)), ' ');
  }
  if (params.given_not_none(2)) {
    const Value& pair = params[2];
    const bool two = (pair.is_list() || pair.is_tuple()) && pair.items_of().items.size() == 2 &&
                     pair.items_of().items[0].is_string() && pair.items_of().items[1].is_string();
    if (!two) fail("separators must be a tuple of two strings");
    style.item_separator = pair.items_of().items[0].bytes();
    style.key_separator = pair.items_of().items[1].bytes();
  }
  return style;
}

}  // namespace

Value tojson(Runtime& in, const Value& value, Args& args) {
  const Style style =
      style_from(Params("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  Writer writer(in, style);
  writer.value(value);
  return in.string(std::move(writer.out));
}

}  // namespace cheetah::jinja

// SPDX-License-Identifier: MIT
// Finds filters, and the filters that work on one piece of text.
#include <array>

#include "base/format.h"
#include "model/template/builtins.h"
#include "model/template/runtime.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

// soft_str: a string stays what it is (marked safe or not), anything else becomes its text.
Value soft_str(Runtime& in, const Value& value) {
  return value.is_string() ? value : in.string(in.str(value));
}

Value case_of(Runtime& in, const Value& value, std::string (*change)(std::string_view)) {
  const Value text = soft_str(in, value);
  in.budget().bytes(8 * text.weight());  // a table look-up for each character
  return in.string(change(text.bytes()), text.text().safe);
}

Value upper_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("upper", args, {});
  return case_of(in, value, upper);
}

Value lower_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("lower", args, {});
  return case_of(in, value, lower);
}

Value capitalize_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("capitalize", args, {});
  return case_of(in, value, capitalize);
}

// Words begin after spaces, dashes and opening brackets only, unlike str.title().
std::string title_words(std::string_view bytes) {
  std::string out;
  std::string word;
  const auto flush = [&] {
    size_t first = 0;
    if (!word.empty()) next_code_point(word, first);
    out += upper(word.substr(0, first)) + lower(std::string_view(word).substr(first));
    word.clear();
  };
  for (size_t at = 0; at < bytes.size();) {
    const size_t start = at;
    const char32_t c = next_code_point(bytes, at);
    const bool separator = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (separator) flush();
    (separator ? out : word) += bytes.substr(start, at - start);
  }
  flush();
  return out;
}

Value title_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("title", args, {});
  const Value text = soft_str(in, value);
  in.budget().bytes(text.weight());
  return in.string(title_words(text.bytes()));
}

Value trim_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("trim", args, {"chars"});
  const Value text = soft_str(in, value);
  in.budget().bytes(text.weight());
  const std::string_view stripped =
      params.given_not_none(0) ? strip(text.bytes(), params.string(0, "")) : strip(text.bytes());
  return in.string(std::string(stripped), text.text().safe);
}

Value string_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("string", args, {});
  return soft_str(in, value);
}

Value safe_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("safe", args, {});
  return in.string(in.str(value), true);
}

Value escape_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("escape", args, {});
  if (value.is_string() && value.text().safe) return value;
  return in.string(escape_html(in.str(value)), true);
}

Value replace_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("replace", args, {"old", "new", "count"}, 2);
  const std::string text = in.str(value);
  const std::string from = in.str(params[0]);
  const std::string to = in.str(params[1]);
  // Each replacement may add the new text: charge the most it can come to before it is made.
  const auto most = static_cast<int64_t>(from.empty() ? text.size() + 1 : text.size() / from.size());
  if (most > 0 && static_cast<int64_t>(to.size()) > 4 * in.max_text_bytes() / most)
    fail("memory limit exceeded: replace makes too long a text");
  return in.string(replace_all(text, from, to, params.given_not_none(2) ? params.integer(2, -1) : -1));
}

Value format_filter(Runtime& in, const Value& value, Args& args) {
  if (!args.positional.empty() && !args.named.empty())
    fail("can't handle positional and keyword arguments at the same time");
  const Value text = soft_str(in, value);
  Value values = Value::tuple(args.positional);
  if (!args.named.empty()) {
    Dict named;
    for (const auto& [name, argument] : args.named) named.set(name, argument);
    values = Value::dict(std::move(named));
  }
  return in.string(percent_format(in, text.bytes(), values, text.text().safe), text.text().safe);
}

Value wordcount_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("wordcount", args, {});
  const std::string text = in.str(value);
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const bool word = is_word(next_code_point(text, at));
    if (word && !inside) ++words;
    inside = word;
  }
  return Value::integer(words);
}

Value default_filter(Runtime&, const Value& value, Args& args) {
  const Params params("default", args, {"default_value", "boolean"});
  const bool missing = value.is_undefined() || (params.boolean(1, false) && !truthy(value));
  if (!missing) return value;
  return params.given(0) ? params[0] : Value::string("");
}

Value attr_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("attr", args, {"name"}, 1);
  const std::string name = params.string(0, "");
  if (value.is_undefined()) fail(value.undefined_message());
  // The attribute alone, never the key of a mapping.
  if (value.is_dict() && !find_method(value, name) && !name.starts_with("__"))
    return Value::undefined(missing_attribute(value, params[0]));
  return in.attribute(value, name);
}

Value pprint_filter(Runtime& in, const Value& value, Args& args) {
  const Params params("pprint", args, {});
  in.budget().bytes(value.weight());
  return in.string(repr(value));
}

constexpr Named<NativeFunction> kFilters[] = {
    {"upper", upper_filter},
    {"lower", lower_filter},
    {"capitalize", capitalize_filter},
    {"title", title_filter},
    {"trim", trim_filter},
    {"string", string_filter},
    {"safe", safe_filter},
    {"escape", escape_filter},
    {"e", escape_filter},
    {"replace", replace_filter},
    {"format", format_filter},
    {"default", default_filter},
    {"d", default_filter},
    {"wordcount", wordcount_filter},
    {"attr", attr_filter},
    {"pprint", pprint_filter},
    {"tojson", tojson},
};

}  // namespace

FilterTable text_filters() { return {std::begin(kFilters), std::end(kFilters)}; }

NativeFunction find_filter(std::string_view name) {
  for (const FilterTable& table :
      {text_filters(), sequence_filters(), selection_filters(), number_filters(), shape_filters()})
    for (const auto* filter = table.begin; filter != table.end; ++filter)
      if (filter->name == name) return filter->function;
  return nullptr;
}

}  // namespace cheetah::jinja

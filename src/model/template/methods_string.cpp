// SPDX-License-Identifier: MIT
// Methods of str that change, pad, search and classify.
#include <algorithm>

#include "base/format.h"
#include "model/template/builtins.h"
#include "model/template/runtime.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

Value changed(Runtime& in, const Value& self, const Args& args, const char* name,
    std::string (*change)(std::string_view)) {
  const Params params(name, args, {});
  in.budget().bytes(8 * self.weight());  // a table look-up for each character
  return in.string(change(self.bytes()), self.text().safe);
}

Value upper_method(Runtime& in, const Value& self, Args& args) {
  return changed(in, self, args, "upper", upper);
}
Value lower_method(Runtime& in, const Value& self, Args& args) {
  return changed(in, self, args, "lower", lower);
}
Value title_method(Runtime& in, const Value& self, Args& args) {
  return changed(in, self, args, "title", title);
}
Value casefold_method(Runtime& in, const Value& self, Args& args) {
  return changed(in, self, args, "casefold", casefold);
}
Value swapcase_method(Runtime& in, const Value& self, Args& args) {
  return changed(in, self, args, "swapcase", swapcase);
}
Value capitalize_method(Runtime& in, const Value& self, Args& args) {
  return changed(in, self, args, "capitalize", capitalize);
}

Value stripped(Runtime& in, const Value& self, const Args& args, const char* name, Side side) {
  const Params params(name, args, {"chars"});
  in.budget().bytes(self.weight());
  const std::string_view text =
      params.given_not_none(0) ? strip(self.bytes(), params.string(0, ""), side) : strip(self.bytes(), side);
  return in.string(std::string(text), self.text().safe);
}
Value strip_method(Runtime& in, const Value& self, Args& args) {
  return stripped(in, self, args, "strip", Side::kBoth);
}
Value lstrip_method(Runtime& in, const Value& self, Args& args) {
  return stripped(in, self, args, "lstrip", Side::kLeft);
}
Value rstrip_method(Runtime& in, const Value& self, Args& args) {
  return stripped(in, self, args, "rstrip", Side::kRight);
}

Value removeprefix_method(Runtime& in, const Value& self, Args& args) {
  const std::string prefix = Params("removeprefix", args, {"prefix"}, 1).string(0, "");
  const std::string& text = self.bytes();
  return in.string(text.starts_with(prefix) ? text.substr(prefix.size()) : text, self.text().safe);
}
Value removesuffix_method(Runtime& in, const Value& self, Args& args) {
  const std::string suffix = Params("removesuffix", args, {"suffix"}, 1).string(0, "");
  const std::string& text = self.bytes();
  return in.string(
      text.ends_with(suffix) ? text.substr(0, text.size() - suffix.size()) : text, self.text().safe);
}

Value replace_method(Runtime& in, const Value& self, Args& args) {
  const Params params("replace", args, {"old", "new", "count"}, 2);
  const std::string from = params.string(0, "");
  std::string to = params.string(1, "");
  if (self.text().safe && !params[1].text().safe) to = escape_html(to);
  const size_t size = self.bytes().size();
  const auto most = static_cast<int64_t>(from.empty() ? size + 1 : size / from.size());
  if (most > 0 && static_cast<int64_t>(to.size()) > 4 * in.max_text_bytes() / most)
    fail("memory limit exceeded: replace makes too long a text");
  in.budget().bytes(self.weight());
  return in.string(replace_all(self.bytes(), from, to, params.integer(2, -1)), self.text().safe);
}

enum class Align { kLeft, kRight, kCenter };

Value padded(Runtime& in, const Value& self, const Args& args, const char* name, Align align) {
  const Params params(name, args, {"width", "fillchar"}, 1);
  const std::string fill = params.string(1, " ");
  if (count_code_points(fill) != 1) fail("The fill character must be exactly one character long");
  in.budget().bytes(self.weight());
  const int64_t width = params.integer(0, 0);
  const int64_t missing = width - count_code_points(self.bytes());
  if (missing <= 0) return self;
  // Python gives the odd place of an even width to the left, of an odd width to the right.
  const int64_t left = align == Align::kLeft    ? 0
                       : align == Align::kRight ? missing
                                                : missing / 2 + (missing & width & 1);
  const auto run = [&](int64_t count) {
    return in.binary('*', Value::string(fill), Value::integer(count)).bytes();
  };
  return in.string(run(left) + self.bytes() + run(missing - left), self.text().safe);
}
Value center_method(Runtime& in, const Value& self, Args& args) {
  return padded(in, self, args, "center", Align::kCenter);
}
Value ljust_method(Runtime& in, const Value& self, Args& args) {
  return padded(in, self, args, "ljust", Align::kLeft);
}
Value rjust_method(Runtime& in, const Value& self, Args& args) {
  return padded(in, self, args, "rjust", Align::kRight);
}

Value zfill_method(Runtime& in, const Value& self, Args& args) {
  const int64_t missing = Params("zfill", args, {"width"}, 1).integer(0, 0) - count_code_points(self.bytes());
  if (missing <= 0) return self;
  const std::string zeros = in.binary('*', Value::string("0"), Value::integer(missing)).bytes();
  const std::string& text = self.bytes();
  const size_t sign = !text.empty() && (text[0] == '+' || text[0] == '-') ? 1 : 0;
  return in.string(text.substr(0, sign) + zeros + text.substr(sign), self.text().safe);
}

// The part of the text that start and end select, and where it begins, in code points.
struct Window {
  std::string text;
  int64_t offset = 0;
  bool inside = true;
};
Window window(Runtime& in, const Value& self, const Params& params) {
  in.budget().bytes(self.weight());
  const int64_t length =
      self.text().ascii ? static_cast<int64_t>(self.bytes().size()) : count_code_points(self.bytes());
  Window result;
  if (params.given_not_none(1)) {
    const int64_t start = params.integer(1, 0);
    result.offset = start < 0 ? std::max<int64_t>(start + length, 0) : start;
  }
  result.inside = result.offset <= length;
  if (!params.given_not_none(1) && !params.given_not_none(2))
    result.text = self.bytes();
  else
    result.text = in.slice(self, params.get(1), params.get(2), nullptr).bytes();
  return result;
}

// Where the text stands in self, in code points; -1 when it does not.
int64_t search(Runtime& in, const Value& self, const Args& args, const char* name, bool from_right) {
  const Params params(name, args, {"sub", "start", "end"}, 1);
  const Window part = window(in, self, params);
  const std::string wanted = params.string(0, "");
  if (!part.inside) return -1;
  const size_t at = from_right ? part.text.rfind(wanted) : part.text.find(wanted);
  if (at == std::string::npos) return -1;
  return part.offset + count_code_points(std::string_view(part.text).substr(0, at));
}
Value find_in_string(Runtime& in, const Value& self, Args& args) {
  return Value::integer(search(in, self, args, "find", false));
}
Value rfind_in_string(Runtime& in, const Value& self, Args& args) {
  return Value::integer(search(in, self, args, "rfind", true));
}
Value index_in_string(Runtime& in, const Value& self, Args& args) {
  const int64_t at = search(in, self, args, "index", false);
  if (at < 0) fail("substring not found");
  return Value::integer(at);
}
Value rindex_in_string(Runtime& in, const Value& self, Args& args) {
  const int64_t at = search(in, self, args, "rindex", true);
  if (at < 0) fail("substring not found");
  return Value::integer(at);
}

Value count_method(Runtime& in, const Value& self, Args& args) {
  const Params params("count", args, {"sub", "start", "end"}, 1);
  const Window part = window(in, self, params);
  const std::string wanted = params.string(0, "");
  if (!part.inside) return Value::integer(0);
  if (wanted.empty()) return Value::integer(count_code_points(part.text) + 1);
  int64_t count = 0;
  for (size_t at = 0; (at = part.text.find(wanted, at)) != std::string::npos; at += wanted.size()) ++count;
  return Value::integer(count);
}

Value touches(Runtime& in, const Value& self, const Args& args, const char* name, bool at_start) {
  const Params params(name, args, {"affix", "start", "end"}, 1);
  const Window part = window(in, self, params);
  const auto matches = [&](const Value& affix) {
    if (!affix.is_string())
      fail(format("{} first arg must be str or a tuple of str, not {}", name, type_name(affix)));
    return part.inside &&
           (at_start ? part.text.starts_with(affix.bytes()) : part.text.ends_with(affix.bytes()));
  };
  if (params[0].is_undefined()) fail(params[0].undefined_message());
  if (!params[0].is_tuple()) return Value::boolean(matches(params[0]));
  const auto& choices = params[0].items_of().items;
  return Value::boolean(std::any_of(choices.begin(), choices.end(), matches));
}
Value startswith_method(Runtime& in, const Value& self, Args& args) {
  return touches(in, self, args, "startswith", true);
}
Value endswith_method(Runtime& in, const Value& self, Args& args) {
  return touches(in, self, args, "endswith", false);
}

Value every(Runtime& in, const Value& self, bool (*fits)(char32_t), bool empty_fits = false) {
  in.budget().bytes(self.weight());
  const std::u32string text = decode(self.bytes());
  return Value::boolean(text.empty() ? empty_fits : std::all_of(text.begin(), text.end(), fits));
}
bool is_alnum(char32_t c) { return is_alpha(c) || is_numeric(c); }
bool is_ascii(char32_t c) { return c < 0x80; }
Value isalpha_method(Runtime& in, const Value& self, Args&) { return every(in, self, is_alpha); }
Value isalnum_method(Runtime& in, const Value& self, Args&) { return every(in, self, is_alnum); }
Value isdigit_method(Runtime& in, const Value& self, Args&) { return every(in, self, is_digit); }
Value isdecimal_method(Runtime& in, const Value& self, Args&) { return every(in, self, is_decimal); }
Value isnumeric_method(Runtime& in, const Value& self, Args&) { return every(in, self, is_numeric); }
Value isspace_method(Runtime& in, const Value& self, Args&) { return every(in, self, is_space); }
Value isascii_method(Runtime& in, const Value& self, Args&) { return every(in, self, is_ascii, true); }
Value isprintable_method(Runtime& in, const Value& self, Args&) {
  return every(in, self, is_printable, true);
}
Value isidentifier_method(Runtime&, const Value& self, Args&) {
  return Value::boolean(is_identifier(self.bytes()));
}

Value cased(Runtime& in, const Value& self, bool (*wanted)(char32_t)) {
  in.budget().bytes(self.weight());
  bool any = false;
  for (size_t at = 0; at < self.bytes().size();) {
    const char32_t c = next_code_point(self.bytes(), at);
    if (is_cased(c) && !wanted(c)) return Value::boolean(false);
    any = any || is_cased(c);
  }
  return Value::boolean(any);
}
Value islower_method(Runtime& in, const Value& self, Args&) { return cased(in, self, is_lower); }
Value isupper_method(Runtime& in, const Value& self, Args&) { return cased(in, self, is_upper); }
Value istitle_method(Runtime& in, const Value& self, Args&) {
  in.budget().bytes(self.weight());
  const std::u32string text = decode(self.bytes());
  return Value::boolean(
      std::any_of(text.begin(), text.end(), is_cased) && title(self.bytes()) == self.bytes());
}

Value format_method(Runtime& in, const Value& self, Args& args) {
  return in.string(str_format(in, self, args), self.text().safe);
}
Value format_map_method(Runtime& in, const Value& self, Args& args) {
  const Params params("format_map", args, {"mapping"}, 1);
  if (!params[0].is_dict()) fail("format_map() argument must be a mapping");
  Args named;
  for (const auto& [key, value] : params[0].dict_of().entries())
    if (key.is_string()) named.named.emplace_back(key.bytes(), value);
  return in.string(str_format(in, self, named), self.text().safe);
}

constexpr Named<NativeFunction> kMethods[] = {
    {"upper", upper_method},
    {"lower", lower_method},
    {"title", title_method},
    {"casefold", casefold_method},
    {"swapcase", swapcase_method},
    {"capitalize", capitalize_method},
    {"strip", strip_method},
    {"lstrip", lstrip_method},
    {"rstrip", rstrip_method},
    {"removeprefix", removeprefix_method},
    {"removesuffix", removesuffix_method},
    {"replace", replace_method},
    {"center", center_method},
    {"ljust", ljust_method},
    {"rjust", rjust_method},
    {"zfill", zfill_method},
    {"find", find_in_string},
    {"rfind", rfind_in_string},
    {"index", index_in_string},
    {"rindex", rindex_in_string},
    {"count", count_method},
    {"startswith", startswith_method},
    {"endswith", endswith_method},
    {"isalpha", isalpha_method},
    {"isalnum", isalnum_method},
    {"isdigit", isdigit_method},
    {"isdecimal", isdecimal_method},
    {"isnumeric", isnumeric_method},
    {"isspace", isspace_method},
    {"isascii", isascii_method},
    {"isprintable", isprintable_method},
    {"isidentifier", isidentifier_method},
    {"islower", islower_method},
    {"isupper", isupper_method},
    {"istitle", istitle_method},
    {"format", format_method},
    {"format_map", format_map_method},
};

}  // namespace

NativeFunction find_string_method(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kMethods), std::end(kMethods), [&](auto& m) { return m.name == name; });
  return found == std::end(kMethods) ? find_split_method(name) : found->function;
}

}  // namespace cheetah::jinja

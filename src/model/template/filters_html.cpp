// Filters for markup and addresses.
#include <algorithm>

#include "base/format.h"
#include "model/template/builtins.h"
#include "model/template/interpreter.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

Value escape_filter(Interpreter& in, const Value& value, Args& args) {
  const Params params("escape", args, {});
  if (value.is_string() && value.text().safe) return value;
  return in.string(escape_html(in.str(value)), true);
}

Value forceescape_filter(Interpreter& in, const Value& value, Args& args) {
  const Params params("forceescape", args, {});
  return in.string(escape_html(in.str(value)), true);
}

std::string unescape_html(std::string_view text) {
  static constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"}, {"&gt;", ">"}, {"&#34;", "\""}, {"&#39;", "'"}, {"&quot;", "\""}, {"&amp;", "&"}};
  std::string out(text);
  for (const auto& [entity, character] : kEntities) out = replace_all(out, entity, character);
  return out;
}

Value striptags_filter(Interpreter& in, const Value& value, Args& args) {
  const Params params("striptags", args, {});
  const std::string text = in.str(value);
  std::string plain;
  bool closes = true;  // a bracket or comment without an end is searched for once
  bool comment_closes = true;
  for (size_t at = 0; at < text.size();) {
    const bool comment = comment_closes && text.compare(at, 4, "<!--") == 0;
    size_t end = std::string::npos;
    if (comment)
      end = text.find("-->", at);
    else if (closes && text[at] == '<')
      end = text.find('>', at);
    if (end == std::string::npos) {
      comment_closes = comment_closes && !comment;
      closes = closes && (comment || text[at] != '<');
      plain += text[at++];
    } else {
      at = end + (comment ? 3 : 1);
    }
  }
  std::string out;
  for (size_t at = 0; at < plain.size();) {
    const size_t start = at;
    const bool space = is_space(next_code_point(plain, at));
    if (!space)
      out += plain.substr(start, at - start);
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  return in.string(unescape_html(strip(out)));
}

std::string quote(std::string_view text, bool query) {
  std::string out;
  for (const char c : text) {
    const bool plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' || c == '~';
    if ((plain && (c & 0x80) == 0) || (c == '/' && !query))
      out += c;
    else if (c == ' ' && query)
      out += '+';
    else
      out += format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Value urlencode_filter(Interpreter& in, const Value& value, Args& args) {
  const Params params("urlencode", args, {});
  if (value.is_string() || !(value.is_dict() || value.is_sequence()))
    return in.string(quote(in.str(value), false));
  std::vector<Value> pairs;
  if (value.is_dict())
    for (const auto& [key, entry] : value.dict_of().entries()) pairs.push_back(Value::tuple({key, entry}));
  else
    pairs = in.iterate(value);
  std::string out;
  for (const Value& pair : pairs) {
    const std::vector<Value> parts = in.iterate(pair);
    if (parts.size() != 2) fail("urlencode needs pairs of a key and a value");
    if (!out.empty()) out += '&';
    out += quote(in.str(parts[0]), true) + "=" + quote(in.str(parts[1]), true);
  }
  return in.string(std::move(out));
}

Value xmlattr_filter(Interpreter& in, const Value& value, Args& args) {
  const Params params("xmlattr", args, {"autospace"});
  if (value.is_undefined()) fail(value.undefined_message());
  if (!value.is_dict()) fail(missing_attribute(value, Value::string("items")));
  std::string out;
  for (const auto& [key, entry] : value.dict_of().entries()) {
    if (entry.is_none() || entry.is_undefined()) continue;
    const std::string name = in.str(key);
    if (name.find_first_of(" \t\n\r\f\v/>=") != std::string::npos)
      fail(format("Invalid character in attribute name: {}", string_repr(name)));
    const std::string text = in.str(entry);
    const bool safe = entry.is_string() && entry.text().safe;
    if (!out.empty()) out += ' ';
    out += escape_html(name) + "=\"" + (safe ? text : escape_html(text)) + "\"";
  }
  const bool spaced = params.boolean(0, true) && !out.empty();
  return in.string(spaced ? format(" {}", out) : out);
}

// Links for the words that are addresses: http, https and www, and mail addresses.
std::string link(std::string_view word, std::string_view target_rel, int64_t limit) {
  const size_t open = word.find_first_not_of("(<");
  if (open == std::string_view::npos) return std::string(word);
  const std::string_view head = word.substr(0, open);
  std::string_view middle = word.substr(open);
  size_t end = middle.size();
  while (end > 0 && std::string_view(").,>").find(middle[end - 1]) != std::string_view::npos) --end;
  const std::string_view tail = middle.substr(end);
  middle = middle.substr(0, end);
  const bool http = (middle.starts_with("http://") && middle.size() > 7) ||
                    (middle.starts_with("https://") && middle.size() > 8);
  const bool www = middle.starts_with("www.") && middle.find('.', 4) != std::string_view::npos;
  const size_t at = middle.find('@');
  const bool mail = !http && !www && at != std::string_view::npos && at > 0 &&
                    middle.find('.', at) != std::string_view::npos;
  if (!http && !www && !mail) return std::string(word);
  std::string shown(middle);
  if (!mail && limit >= 0 && static_cast<int64_t>(shown.size()) > limit)
    shown = shown.substr(0, static_cast<size_t>(limit)) + "...";
  const char* scheme = mail && !middle.starts_with("mailto:") ? "mailto:" : www ? "https://" : "";
  return format("{}<a href=\"{}{}\"{}>{}</a>{}", head, scheme, middle, mail ? "" : target_rel, shown, tail);
}

Value urlize_filter(Interpreter& in, const Value& value, Args& args) {
  const Params params("urlize", args, {"trim_url_limit", "nofollow", "target", "rel", "extra_schemes"});
  const std::string text = escape_html(in.str(value));
  std::string extra = params.boolean(1, false) ? " rel=\"nofollow noopener\"" : " rel=\"noopener\"";
  if (params.given_not_none(2)) extra += format(" target=\"{}\"", escape_html(params.string(2, "")));
  const int64_t limit = params.given_not_none(0) ? params.integer(0, -1) : -1;
  std::string out;
  std::string word;
  for (size_t at = 0; at <= text.size();) {
    const size_t start = at;
    const bool ends = at == text.size() || is_space(next_code_point(text, at));
    if (ends) {
      out += link(word, extra, limit);
      word.clear();
      if (start == text.size()) break;
    }
    (ends ? out : word) += text.substr(start, at - start);
  }
  return in.string(std::move(out));
}

constexpr Named<NativeFunction> kFilters[] = {
    {"escape", escape_filter},           {"e", escape_filter},
    {"forceescape", forceescape_filter}, {"striptags", striptags_filter},
    {"urlencode", urlencode_filter},     {"xmlattr", xmlattr_filter},
    {"urlize", urlize_filter},
};

}  // namespace

FilterTable html_filters() { return {std::begin(kFilters), std::end(kFilters)}; }

}  // namespace cheetah::jinja

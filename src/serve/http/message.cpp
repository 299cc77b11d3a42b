// SPDX-License-Identifier: MIT
#include "serve/http/message.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/format.h"

namespace cheetah {
namespace {

struct Status {
  int code;
  std::string_view text;
};

constexpr Status kStatuses[] = {
    {100, "Continue"},
    {200, "OK"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = ascii_lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool is_token_char(char c) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  const char l = ascii_lower(c);
  return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || kOthers.find(c) != std::string_view::npos;
}

}  // namespace

std::string_view HttpRequest::path() const {
  return std::string_view(target).substr(0, std::min(target.find('?'), target.size()));
}

std::string_view HttpRequest::query() const {
  const size_t mark = target.find('?');
  return mark == std::string::npos ? std::string_view() : std::string_view(target).substr(mark + 1);
}

std::string HttpRequest::query_value(std::string_view name) const {
  std::string_view rest = query();
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=')
      return percent_decode(pair.substr(name.size() + 1)).value_or("");
  }
  return "";
}

const std::string* HttpRequest::find(std::string_view lower_name) const {
  for (const HttpHeader& header : headers)
    if (header.name == lower_name) return &header.value;
  return nullptr;
}

std::string_view status_text(int status) {
  for (const Status& known : kStatuses)
    if (known.code == status) return known.text;
  return "Unknown";
}

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                     [](char x, char y) { return ascii_lower(x) == ascii_lower(y); });
}

std::string_view trim_blanks(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::string render_head(const HttpResponse& response, Framing framing, bool keep_alive) {
  std::string head =
      format("HTTP/1.1 {} {}\r\nserver: cheetah\r\n", response.status, status_text(response.status));
  if (!response.content_type.empty()) head += format("content-type: {}\r\n", response.content_type);
  if (framing == Framing::kLength && response.status != 204)
    head += format("content-length: {}\r\n", response.body.size());
  if (framing == Framing::kChunked) head += "transfer-encoding: chunked\r\n";
  for (const HttpHeader& header : response.headers) head += format("{}: {}\r\n", header.name, header.value);
  head += keep_alive ? "connection: keep-alive\r\n\r\n" : "connection: close\r\n\r\n";
  return head;
}

}  // namespace cheetah

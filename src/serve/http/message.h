// SPDX-License-Identifier: MIT
#pragma once
// Requests and responses of HTTP/1.1 as plain values.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah {

struct HttpHeader {
  std::string name;  // lower case in requests
  std::string value;
};

struct HttpRequest {
  std::string method;
  std::string target;  // as sent: path?query
  int minor_version = 1;
  std::vector<HttpHeader> headers;
  std::string body;

  bool keep_alive = true;
  bool chunked = false;
  bool has_body = false;
  std::optional<int64_t> content_length;

  std::string address;  // of the peer
  std::string id;       // x-request-id, the client's or ours

  std::string_view path() const;
  std::string_view query() const;
  std::string query_value(std::string_view name) const;        // of NAME=VALUE, decoded; "" without it
  const std::string* find(std::string_view lower_name) const;  // the first with this name
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<HttpHeader> headers;
  bool close = false;
};

// A request that cannot be understood or will not be read. The connection closes after it.
struct HttpError {
  int status = 400;
  std::string code;
  std::string message;
};

std::string_view status_text(int status);

bool same_ignoring_case(std::string_view a, std::string_view b);
std::string_view trim_blanks(std::string_view text);  // spaces and tabs
bool is_token(std::string_view text);                 // of RFC 9110: a method, a header's name

// nullopt: a % without two hex digits.
std::optional<std::string> percent_decode(std::string_view text);

enum class Framing { kLength, kChunked, kUntilClose };
// Status line and headers, with the blank line. `keep_alive` says what Connection: will say.
std::string render_head(const HttpResponse& response, Framing framing, bool keep_alive);

}  // namespace cheetah

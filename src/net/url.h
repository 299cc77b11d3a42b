// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>

namespace cheetah {

// Where an HTTP server is: scheme, host, port and a path.
struct Url {
  bool tls = false;
  std::string host;  // an IPv6 address without its brackets
  std::string port;
  std::string path;  // "" or "/v1" and the like: no slash at the end

  std::string host_header() const;
  std::string text() const;  // as given, made whole
};

// What a URL may leave out, and how its errors name it.
struct UrlRules {
  std::string_view name = "--url";
  std::string_view example = "http://127.0.0.1:8000";
  std::string_view path = "";  // where none is given
  std::string_view port = "";  // where none is given; "": the scheme's
  bool needs_scheme = false;
};

// "http://host:port", "https://host/path", "host:port". Throws UsageError.
Url parse_url(const std::string& text, const UrlRules& rules);

}  // namespace cheetah

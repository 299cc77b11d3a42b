#pragma once
#include <string>

namespace cheetah {

// Where a server is: scheme, host, port and the path before the API's own.
struct ServerUrl {
  bool tls = false;
  std::string host;  // an IPv6 address without its brackets
  std::string port;
  std::string path;  // "" or "/v1" and the like: no slash at the end

  std::string host_header() const;
  std::string text() const;  // as given, made whole
};

// "http://host:port", "https://host/v1", "host:port". Without a path the API's is /v1. Throws UsageError.
ServerUrl parse_server_url(const std::string& text);

}  // namespace cheetah

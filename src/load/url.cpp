#include "load/url.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

[[noreturn]] void refuse(const std::string& text, const char* why) {
  throw UsageError(
      format("--url {}: {}; expected something like http://127.0.0.1:8000", printable(text, 256), why));
}

bool is_default_port(const ServerUrl& url) { return url.port == (url.tls ? "443" : "80"); }

// Splits "host:port" or "[address]:port".
void set_authority(ServerUrl& url, const std::string& authority, const std::string& text) {
  size_t end = authority.rfind(':');
  if (authority.starts_with('[')) {
    const size_t bracket = authority.find(']');
    if (bracket == std::string::npos) refuse(text, "a [ without its ]");
    url.host = authority.substr(1, bracket - 1);
    end = bracket + 1 < authority.size() ? bracket + 1 : std::string::npos;
    if (end != std::string::npos && authority[end] != ':') refuse(text, "text after the ]");
  } else {
    url.host = authority.substr(0, end);
  }
  url.port = end == std::string::npos ? (url.tls ? "443" : "80") : authority.substr(end + 1);
  const bool digits =
      !url.port.empty() && url.port.size() <= 5 &&
      std::all_of(url.port.begin(), url.port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || std::stoi(url.port) < 1 || std::stoi(url.port) > 65535)
    refuse(text, "the port is no number from 1 to 65535");
  if (url.host.empty()) refuse(text, "no host");
}

}  // namespace

std::string ServerUrl::host_header() const {
  const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return is_default_port(*this) ? shown : shown + ":" + port;
}

std::string ServerUrl::text() const { return (tls ? "https://" : "http://") + host_header() + path; }

ServerUrl parse_server_url(const std::string& text) {
  ServerUrl url;
  std::string rest = text;
  if (const size_t scheme = text.find("://"); scheme != std::string::npos) {
    const std::string name = text.substr(0, scheme);
    if (name != "http" && name != "https") refuse(text, "the scheme is neither http nor https");
    url.tls = name == "https";
    rest = text.substr(scheme + 3);
  }
  const bool clean = std::all_of(rest.begin(), rest.end(), [](char c) { return c > ' ' && c < 0x7F; });
  if (!clean) refuse(text, "a space, control or non-ASCII character");
  if (rest.find_first_of("?#") != std::string::npos) refuse(text, "a query or fragment");
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string authority = rest.substr(0, slash);
  if (authority.find('@') != std::string::npos) refuse(text, "a user name; give the key with --api-key");
  set_authority(url, authority, text);
  url.path = rest.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  if (url.path.empty()) url.path = "/v1";
  return url;
}

}  // namespace cheetah

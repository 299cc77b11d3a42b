// SPDX-License-Identifier: MIT
#include "net/url.h"

#include <algorithm>

#include "base/ascii.h"
#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

struct Reader {
  const std::string& text;
  const UrlRules& rules;

  [[noreturn]] void refuse(std::string_view why) const {
    throw UsageError(format(
        "{} {}: {}; expected something like {}", rules.name, printable(text, 256), why, rules.example));
  }

  std::string default_port(const Url& url) const {
    if (!rules.port.empty()) return std::string(rules.port);
    return url.tls ? "443" : "80";
  }

  // Splits "host:port" or "[address]:port".
  void set_authority(Url& url, const std::string& authority) const {
    size_t end = authority.rfind(':');
    if (authority.starts_with('[')) {
      const size_t bracket = authority.find(']');
      if (bracket == std::string::npos) refuse("a [ without its ]");
      url.host = authority.substr(1, bracket - 1);
      end = bracket + 1 < authority.size() ? bracket + 1 : std::string::npos;
      if (end != std::string::npos && authority[end] != ':') refuse("text after the ]");
    } else {
      url.host = authority.substr(0, end);
    }
    url.port = end == std::string::npos ? default_port(url) : authority.substr(end + 1);
    const bool digits =
        !url.port.empty() && url.port.size() <= 5 && std::ranges::all_of(url.port, is_ascii_digit);
    if (!digits || std::stoi(url.port) < 1 || std::stoi(url.port) > 65535)
      refuse("the port is not a number from 1 to 65535");
    if (url.host.empty()) refuse("no host");
  }
};

}  // namespace

std::string Url::host_header() const {
  const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == (tls ? "443" : "80") ? shown : shown + ":" + port;
}

std::string Url::text() const { return (tls ? "https://" : "http://") + host_header() + path; }

Url parse_url(const std::string& text, const UrlRules& rules) {
  const Reader reader{text, rules};
  Url url;
  std::string rest = text;
  if (const size_t scheme = text.find("://"); scheme != std::string::npos) {
    const std::string name = text.substr(0, scheme);
    if (name != "http" && name != "https") reader.refuse("the scheme is neither http nor https");
    url.tls = name == "https";
    rest = text.substr(scheme + 3);
  } else if (rules.needs_scheme) {
    reader.refuse("no http:// or https://");
  }
  const bool clean = std::ranges::all_of(rest, [](char c) { return c > ' ' && c < 0x7F; });
  if (!clean) reader.refuse("a space, control or non-ASCII character");
  if (rest.find_first_of("?#") != std::string::npos) reader.refuse("a query or fragment");
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string authority = rest.substr(0, slash);
  if (authority.find('@') != std::string::npos) reader.refuse("a user name or password in the address");
  reader.set_authority(url, authority);
  url.path = rest.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  if (url.path.empty()) url.path = rules.path;
  return url;
}

}  // namespace cheetah

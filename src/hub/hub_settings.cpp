// SPDX-License-Identifier: MIT
#include "hub/hub_settings.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/base64.h"
#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace cheetah::hub {
namespace {

namespace fs = std::filesystem;

std::string cache_folder(const std::function<std::string(const char*)>& variable) {
  if (auto folder = variable("HF_HUB_CACHE"); !folder.empty()) return folder;
  if (auto home = variable("HF_HOME"); !home.empty()) return home + "/hub";
  if (auto home = variable("XDG_CACHE_HOME"); !home.empty()) return home + "/huggingface/hub";
  if (auto home = variable("HOME"); !home.empty()) return home + "/.cache/huggingface/hub";
  return "";
}

// Where `hf auth login` puts it.
std::string token_file(const std::function<std::string(const char*)>& variable) {
  if (auto path = variable("HF_TOKEN_PATH"); !path.empty()) return path;
  if (auto home = variable("HF_HOME"); !home.empty()) return home + "/token";
  if (auto home = variable("HOME"); !home.empty()) return home + "/.cache/huggingface/token";
  return "";
}

bool is_token(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7F; });
}

bool says_yes(const std::string& text) {
  return text == "1" || text == "true" || text == "TRUE" || text == "yes" || text == "ON";
}

}  // namespace

std::string read_token(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(4096, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  std::string token(trimmed(text));
  if (!is_token(token))
    throw UsageError(format("{}: cannot be read as a file with a token", printable(path, 256)));
  return token;
}

HubSettings hub_settings(const std::function<const char*(const char*)>& get) {
  const auto variable = [&](const char* name) {
    const char* value = get(name);
    return std::string(value ? value : "");
  };
  // Proxies are spelled in either case; curl takes http_proxy in small letters only.
  const auto either = [&](const char* small, const char* large) {
    const std::string value = variable(small);
    return value.empty() ? variable(large) : value;
  };
  HubSettings settings;
  const std::string endpoint = variable("HF_ENDPOINT");
  settings.endpoint = parse_url(endpoint.empty() ? "https://huggingface.co" : endpoint,
      {.name = "HF_ENDPOINT", .example = "https://huggingface.co", .needs_scheme = true});
  settings.cache = cache_folder(variable);
  settings.token = variable("HF_TOKEN");
  if (!settings.token.empty() && !is_token(settings.token))
    throw UsageError("HF_TOKEN: a token has printable ASCII characters only");
  std::error_code error;
  if (const std::string path = token_file(variable);
      settings.token.empty() && !path.empty() && fs::exists(path, error))
    settings.token = read_token(path);
  settings.http_proxy = either("http_proxy", "HTTP_PROXY");
  settings.https_proxy = either("https_proxy", "HTTPS_PROXY");
  const std::string all = either("all_proxy", "ALL_PROXY");
  if (settings.http_proxy.empty()) settings.http_proxy = all;
  if (settings.https_proxy.empty()) settings.https_proxy = all;
  settings.no_proxy = either("no_proxy", "NO_PROXY");
  settings.ca_file = variable("SSL_CERT_FILE");
  settings.offline = says_yes(variable("HF_HUB_OFFLINE"));
  return settings;
}

std::optional<Proxy> proxy_for(const HubSettings& settings, const Url& server) {
  std::string text = server.tls ? settings.https_proxy : settings.http_proxy;
  if (text.empty()) return std::nullopt;
  for (std::string_view entry : split(settings.no_proxy, ',')) {
    entry = trimmed(entry);
    if (entry == "*") return std::nullopt;
    if (entry.starts_with('.')) entry.remove_prefix(1);
    if (entry.empty()) continue;
    const bool below = server.host.ends_with(entry) && server.host.size() > entry.size() &&
                       server.host[server.host.size() - entry.size() - 1] == '.';
    if (server.host == entry || below || server.host + ":" + server.port == entry) return std::nullopt;
  }
  const char* const name = server.tls ? "HTTPS_PROXY" : "HTTP_PROXY";
  Proxy proxy;
  const size_t scheme = text.find("://"), from = scheme == std::string::npos ? 0 : scheme + 3;
  if (const size_t at = text.rfind('@'); at != std::string::npos && at > from) {
    proxy.authorization = "Basic " + base64_of(text.substr(from, at - from));
    text.erase(from, at + 1 - from);
  }
  proxy.url = parse_url(text, {.name = name, .example = "http://proxy:3128"});
  if (proxy.url.tls) throw UsageError(format("{}: only proxies with an http:// address are supported", name));
  return proxy;
}

}  // namespace cheetah::hub

// SPDX-License-Identifier: MIT
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "net/url.h"

namespace cheetah::hub {

// Where the hub and the cache are, and how to get there.
struct HubSettings {
  Url endpoint;
  std::string cache;  // .../huggingface/hub
  std::string token;  // "": none
  std::string http_proxy, https_proxy, no_proxy;
  std::string ca_file;  // certificates to trust instead of the system's
  bool offline = false;
};

// From HF_ENDPOINT, HF_HUB_CACHE or HF_HOME, HF_TOKEN or its file, HTTP(S)_PROXY, NO_PROXY, SSL_CERT_FILE and
// HF_HUB_OFFLINE. `variable` gives nullptr for one that is not set. Throws UsageError.
HubSettings hub_settings(const std::function<const char*(const char*)>& variable);

// The text of a token file without the space around it. Throws UsageError.
std::string read_token(const std::string& path);

struct Proxy {
  Url url;
  std::string authorization;  // for Proxy-Authorization; "": none
};

// The proxy for a server; nullopt: there is none, or the server is among those reached directly. Throws UsageError for a
// proxy that is not an http:// address.
std::optional<Proxy> proxy_for(const HubSettings& settings, const Url& server);

}  // namespace cheetah::hub

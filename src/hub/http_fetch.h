// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "hub/hub_settings.h"

namespace cheetah::hub {

// The hub's answer does not come whole or is not usable now; asking again may help.
struct Transient {
  std::string why;
};

// GETs from the hub and from the servers it sends us to, one at a time on the calling thread. The token goes to the hub
// alone.
class HttpFetch {
 public:
  using Stop = std::function<bool()>;
  explicit HttpFetch(const HubSettings& settings, Stop stop);
  ~HttpFetch();
  HttpFetch(const HttpFetch&) = delete;
  HttpFetch& operator=(const HttpFetch&) = delete;

  struct Sinks {
    std::function<void(int status)> head;              // once, of the last hop
    std::function<void(std::string_view bytes)> body;  // may throw
  };
  // Follows redirects and returns the status. `from`: the first byte wanted. Throws Transient when the connection fails,
  // breaks or is silent, Error for what cannot be followed and when `stop` says so.
  int get(const std::string& path, int64_t from, const Sinks& sinks);

  // A whole small answer. Throws Transient, or Error with the hub's reason for a status that is not 200.
  std::string get_text(const std::string& path, size_t max_bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What a status other than 200 and 206 means for a repository, as a sentence.
std::string reason_of(int status, const std::string& repository, const HubSettings& settings);
bool may_pass(int status);  // 408, 429 and 5xx

}  // namespace cheetah::hub

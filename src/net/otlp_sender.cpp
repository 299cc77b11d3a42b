// SPDX-License-Identifier: MIT
#include "net/otlp_sender.h"

#include "base/error.h"
#include "base/format.h"
#include "net/http_channel.h"

namespace cheetah {

Url parse_otlp_endpoint(const std::string& text) {
  return parse_url(text, {.name = "--otlp-endpoint",
                             .example = "http://localhost:4318",
                             .path = "/v1/traces",
                             .port = "4318",
                             .needs_scheme = true});
}

TraceSender otlp_sender(const Url& endpoint) {
  // Shared because std::function must be copyable; only the exporter's thread calls it.
  auto channel = std::make_shared<HttpChannel>(HttpPeer{.url = endpoint});
  return [channel](const std::string& body, SteadyClock::duration limit) -> std::string {
    try {
      const auto answer = channel->send(
          {.method = "POST", .body = body, .headers = {{"Content-Type", "application/json"}}}, limit);
      return answer.status / 100 == 2 ? "" : format("it answered {}", answer.status);
    } catch (const Error& error) {
      return error.what();
    }
  };
}

}  // namespace cheetah

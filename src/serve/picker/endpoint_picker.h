// SPDX-License-Identifier: MIT
#pragma once
// The endpoint picker of the Gateway API's inference extension: gateways (Envoy and those built on it) ask it over
// gRPC which worker a request should be sent to. Off unless a port is given.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "serve/api/endpoint.h"
#include "serve/server_config.h"

namespace cheetah {

struct EndpointQuestion {
  GenerationRequest request;  // an empty prompt: nothing is known but that somebody has to answer
  std::string objective;      // names a class of service, where the gateway's client has named one
  std::optional<std::vector<std::string>> subset;  // "ip:port"; nullopt: any
};
struct EndpointAnswer {
  std::vector<std::string> endpoints;  // the best first; empty: refused
  int status = 503;
  std::string code, why;
  std::optional<double> retry_after_s;
  uint64_t ticket = 0;  // for used()
};
struct EndpointUse {
  uint64_t ticket = 0;
  bool answered = false;
  std::chrono::microseconds first_byte{}, total{};
};

// Who decides. Any thread may call; `tell` may come on any thread.
class EndpointSource {
 public:
  virtual ~EndpointSource() = default;
  virtual void choose(EndpointQuestion question, std::function<void(EndpointAnswer)> tell) = 0;
  virtual void used(const EndpointUse& use) = 0;  // of every choice with a ticket, once
  virtual bool ready() const = 0;
};

struct PickerConfig {
  uint16_t port = 0;
  const ServerConfig& server;              // host, certificate, keys and limits are the server's; outlives it
  std::vector<const ApiServices*> models;  // at least one; outlive it
};

class EndpointPicker {
 public:
  // Binds at once; throws Error.
  EndpointPicker(const PickerConfig& config, EndpointSource& source);
  ~EndpointPicker();

  uint16_t port() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah

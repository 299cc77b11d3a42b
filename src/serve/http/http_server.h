// SPDX-License-Identifier: MIT
#pragma once
// Listens, and spreads connections over network threads.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "serve/http/exchange.h"
#include "serve/http/limits.h"

namespace cheetah {

struct ListenConfig {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: any free one
  bool tcp = true;       // false: the Unix socket alone
  std::string uds;       // path of a Unix socket to listen on; "": none
  uint32_t uds_mode = 0600;
  int threads = 1;
  std::string tls_cert, tls_key;  // both or none
  HttpLimits limits;
};

class HttpServer {
 public:
  // Binds at once: throws Error when the address is not ours, or the port is taken.
  HttpServer(const ListenConfig& config, HttpHandler& handler);
  ~HttpServer();

  void start();
  uint16_t port() const;  // 0 without TCP
  // Idle connections close, busy ones after their response; new ones are still taken (for health checks).
  void wind_down();
  void stop();  // closes everything; no handler runs afterwards
  std::vector<NetworkThread*> threads();
  int64_t num_connections() const;          // from any thread
  void wait_for_answers(SteadyTime until);  // sleeps until no answer is on its way, or the time is up

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// True for 127.0.0.0/8, ::1 and localhost.
bool is_loopback_host(const std::string& host);

}  // namespace cheetah

// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "observe/event_log.h"
#include "serve/api_keys.h"
#include "serve/http/http_server.h"
#include "serve/response_store.h"

namespace cheetah {

struct ServerConfig {
  ListenConfig listen;
  ApiKeys keys;
  ApiKeys admin_keys;           // of operators
  bool admin_unlocked = false;  // without admin_keys: processes of this machine may operate the cluster
  bool api = true;  // false: health and metrics alone, of a worker that takes requests from its cluster
  std::vector<std::string> allowed_hosts;  // beside the loopback names, on a loopback address
  std::vector<std::string> cors_origins;   // "*": any
  bool pass_headers = false;  // those of a call go with its requests (RequestOrigin), but for its secrets
  int parse_threads = 2;
  int64_t max_parsing = 256;  // bodies that may wait for a parser, or what the queue has room for
  std::chrono::milliseconds request_time{0};      // deadline of a generation; 0: none
  std::chrono::milliseconds stream_ping{15'000};  // a comment when a stream is silent this long
  std::chrono::milliseconds engine_stall{5'000};  // /health/engine waits this long for a step
  LogConfig log;
  ResponseStoreConfig responses;
  std::string otlp_endpoint;             // http://host:port[/path]; "": no traces
  std::string service_name = "cheetah";  // in traces
  std::string version;                   // of the program, for /version
  std::string commit;
};

}  // namespace cheetah

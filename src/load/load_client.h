// SPDX-License-Identifier: MIT
#pragma once
// Sends a planned load to a server and records what comes back. One thread, any number of streams.
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "load/record.h"
#include "load/summary.h"
#include "net/url.h"

namespace cheetah {

// "http://host:port", "https://host/v1", "host:port". Without a path the API's is /v1. Throws UsageError.
Url parse_server_url(const std::string& text);

struct ServerOptions {
  Url url;
  std::string api_key{};
  bool tls_insecure = false;  // take any certificate
  double timeout_s = 600;     // of one request
};

struct PreparedRequest {
  std::string body;
  int64_t asked_tokens = 0;
};

struct LoadPlan {
  std::string path = "/chat/completions";  // after the URL's own
  std::function<PreparedRequest(int64_t index)> request{};
  std::vector<double> arrivals{};   // an open loop: when each request is due. Empty: a closed loop
  bool empty_events_count = false;  // see CompletionStream
  int64_t num_requests = 0;         // of a closed loop
  double duration_s = std::numeric_limits<double>::infinity();  // of a closed loop: no new request after this
  int64_t concurrency = 0;  // most requests at once; 0: no limit (open loop only)

  int64_t total() const { return arrivals.empty() ? num_requests : static_cast<int64_t>(arrivals.size()); }
};

struct LoadProgress {
  double elapsed_s = 0;
  int64_t sent = 0, running = 0, done = 0, failed = 0, events = 0;
};

struct LoadResult {
  std::vector<RequestRecord> records;  // in the order they ended
  ClientFacts client;
};

class LoadClient {
 public:
  explicit LoadClient(const ServerOptions& options);  // throws Error when the host cannot be found
  ~LoadClient();

  // The answer of a GET. Throws Error when there is none, or it is not 200 with JSON.
  Json get_json(const std::string& path);
  // Sends one request and waits for it.
  RequestRecord probe(const std::string& path, const PreparedRequest& request);
  // Calls `observe` about ten times per second; when it returns false, the run ends with what it has.
  LoadResult run(const LoadPlan& plan, const std::function<bool(const LoadProgress&)>& observe);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah

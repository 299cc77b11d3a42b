#pragma once
// Sends spans to an OpenTelemetry collector from a thread of its own. A collector that is slow or away costs
// spans, never requests.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "serve/event_log.h"
#include "serve/trace.h"

namespace cheetah {

struct OtlpEndpoint {
  std::string host, port, path;
};
// "http://host:4318[/path]"; without a path /v1/traces is meant. Throws UsageError naming what is wrong.
OtlpEndpoint parse_otlp_endpoint(const std::string& url);

class TraceExporter {
 public:
  TraceExporter(const OtlpEndpoint& endpoint, const TraceResource& resource, EventLog& log);
  ~TraceExporter();  // sends what is left, for two seconds at most

  void add(TraceItem item);  // any thread
  int64_t num_sent() const;
  int64_t num_lost() const;  // the queue was full, or the collector did not take them

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah

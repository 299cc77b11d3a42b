// SPDX-License-Identifier: MIT
#pragma once
// Sends spans from a thread of its own. A collector that is slow or away costs spans, never requests.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/time.h"
#include "observe/log.h"
#include "observe/trace.h"

namespace cheetah {

// Delivers the body of an OTLP export within the limit. Returns what went wrong, or "".
using TraceSender = std::function<std::string(const std::string& body, SteadyClock::duration limit)>;

class TraceExporter {
 public:
  // `collector` is its name in the log.
  TraceExporter(std::string collector, TraceSender send, const TraceResource& resource, LogSink& log);
  ~TraceExporter();  // sends what is left, for two seconds at most

  void add(TraceItem item);  // any thread
  int64_t num_sent() const;
  int64_t num_lost() const;  // the queue was full, or the collector did not take them

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah

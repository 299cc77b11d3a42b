#pragma once
// The numbers of the server: for Prometheus as text, for people and the page as JSON.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "engine/generation_backend.h"
#include "serve/server_counters.h"

namespace cheetah {

struct ServerNumbers {
  EngineStats engine;
  EngineConfig config;
  std::string model;
  std::string version;
  bool ready = false;
  double uptime_s = 0;
  double start_unix_s = 0;
  int64_t rss_bytes = 0;
};

// Stats with every histogram's bounds set, for the time before there is an engine.
EngineStats empty_stats();
int64_t resident_bytes();  // of this process

// Text exposition format 0.0.4. Every series is there from the first second, with 0.
std::string metrics_text(const ServerNumbers& numbers, const ServerCounters& counters);
Json stats_json(const ServerNumbers& numbers, const ServerCounters& counters);

// Builds the exposition format: one HELP and TYPE a family.
class PrometheusText {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

  void family(std::string_view name, std::string_view type, std::string_view help);
  void sample(double value, const Labels& labels = {}, std::string_view suffix = "");
  void histogram(std::string_view name, std::string_view help, const Histogram& values, const Labels& labels);
  const std::string& text() const { return text_; }

 private:
  std::string name_;
  std::string text_;
};

}  // namespace cheetah

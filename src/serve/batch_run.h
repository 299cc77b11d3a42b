// SPDX-License-Identifier: MIT
#pragma once
// Many API calls written in a file, one JSON object per line: {"custom_id", "method", "url", "body"}. Each is parsed
// as the server parses it, answered whole and written as a line of the result.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mailbox.h"
#include "engine/generation_backend.h"
#include "serve/api/endpoint.h"
#include "serve/routes.h"

namespace cheetah {

struct BatchCounts {
  int64_t total = 0, completed = 0, failed = 0;
};

struct BatchSettings {
  std::string id = "batch";   // ids of answers begin with it
  std::string endpoint = {};  // the one url that lines may name; "": any
  std::string cache_salt = {};
  std::string tenant = {};                      // of logs and quotas
  std::function<uint64_t()> next_request = {};  // ids for the engine's requests; empty: 1, 2, …
  int64_t window = 64;                          // lines in the engine at once
  int priority = 100;                           // others go first
};

// Runs the lines of one file. Owned and used by one thread; the engine's posts events to it.
class BatchRun {
 public:
  using Next = std::function<std::optional<std::string>()>;  // the next line; nullopt: no more
  using Done =
      std::function<void(std::string line, const BatchCounts&)>;  // a line of the result, in any order

  // All must outlive it.
  BatchRun(GenerationBackend& engine, std::vector<const ApiServices*> models, BatchSettings settings);
  ~BatchRun();

  // Returns when every line has its answer, or soon after `stop` says true (asked at least every 100 ms): what runs
  // then is cancelled and gets no line.
  BatchCounts run(const Next& next, const Done& done, const std::function<bool()>& stop);

 private:
  struct Line;
  struct Arrived {
    int64_t line;
    size_t index;
    GenerationEvent event;
  };
  void start(std::string_view text);
  std::optional<ApiError> submit(Line& line, std::string_view text);
  void take(Arrived& arrived);
  void end(int64_t number, int status, std::string body);
  void cancel_all();

  GenerationBackend& engine_;
  std::vector<const ApiServices*> models_;
  BatchSettings settings_;
  BatchCounts counts_;
  const Done* done_ = nullptr;
  uint64_t next_request_ = 1;
  std::unordered_map<int64_t, std::unique_ptr<Line>> open_;  // by number
  std::shared_ptr<Mailbox<Arrived>> inbox_;  // shared with the sinks of requests that outlive a stop
};

}  // namespace cheetah

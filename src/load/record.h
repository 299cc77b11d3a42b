// SPDX-License-Identifier: MIT
#pragma once
// What one request of a load run was seen to do. Times are seconds since the run began.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cheetah {

enum class RequestFailure {
  kNone,
  kConnect,      // no connection
  kTimeout,      // no whole answer in time
  kStatus,       // an HTTP status that is not 200
  kCut,          // the connection ended before the answer did
  kNotAStream,   // bytes that are not HTTP, not server-sent events or not the JSON they should hold
  kServerError,  // an error event in the stream
  kEmptyAnswer,  // a whole answer without a token
  kInterrupted,  // we gave up: the person pressed Ctrl-C
};

const char* name_of(RequestFailure failure);

struct RequestRecord {
  double scheduled_s = 0;     // when it should have been sent
  double due_s = 0;           // when it could: scheduled_s, or later where --concurrency held it back
  double sent_s = 0;          // when it was
  double first_s = 0;         // first event with text
  double last_s = 0;          // last event with text
  double done_s = 0;          // the answer was whole, or the failure seen
  std::vector<float> gaps_s;  // between events with text
  int64_t events = 0;         // with text
  int64_t asked_tokens = 0;   // max_tokens
  std::optional<int64_t> prompt_tokens;  // as the server counted them, like the next two
  std::optional<int64_t> output_tokens;
  int64_t cached_tokens = 0;
  RequestFailure failure = RequestFailure::kNone;
  int http_status = 0;
  std::string detail;  // of a failure

  bool ok() const { return failure == RequestFailure::kNone; }
  // The server's count; events where it told none.
  int64_t tokens() const { return output_tokens.value_or(events); }
  // Mean time between tokens after the first; nullopt for answers of one token.
  std::optional<double> tpot_s() const {
    if (tokens() < 2) return std::nullopt;
    return (last_s - first_s) / static_cast<double>(tokens() - 1);
  }
};

}  // namespace cheetah

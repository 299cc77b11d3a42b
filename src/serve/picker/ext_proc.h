// SPDX-License-Identifier: MIT
#pragma once
// The messages of Envoy's external processing protocol (envoy.service.ext_proc.v3), as far as an endpoint picker of
// the Gateway API's inference extension speaks it.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cheetah {

inline constexpr std::string_view kDestinationHeader = "x-gateway-destination-endpoint";

// The numbers are those of the fields of ProcessingRequest.
enum class ProcessingPhase : uint8_t {
  kRequestHeaders = 2,
  kResponseHeaders = 3,
  kRequestBody = 4,
  kResponseBody = 5,
  kRequestTrailers = 6,
  kResponseTrailers = 7,
};

// How a body comes, and what has to be answered to it.
enum class BodyMode : uint8_t {
  kNone = 0,
  kStreamed = 1,
  kBuffered = 2,
  kBufferedPartial = 3,
  kFullDuplex = 4,  // pieces, answered with pieces whenever the server likes
  kGrpc = 5,
};
struct BodyModes {
  BodyMode request = BodyMode::kFullDuplex, response = BodyMode::kFullDuplex;
};

struct ProcessingRequest {
  std::optional<ProcessingPhase> phase;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  bool end_of_stream = false;
  bool observed_only = false;      // no answer is wanted
  std::optional<BodyModes> modes;  // with the first message, of proxies that say so
  // "ip:port" of the endpoints to choose from; nullopt: all.
  std::optional<std::vector<std::string>> subset;
  std::string served;  // with the response: the endpoint that has answered
};
ProcessingRequest parse_processing_request(std::string_view bytes);  // throws Error

// ---- Answers: each is a whole ProcessingResponse ----

std::string continue_text(ProcessingPhase phase);
// To the request's headers or, in a mode that has answered those before, to its body.
std::string destination_text(ProcessingPhase phase, const std::string& endpoints);
// A piece of a body in full duplex, as it came.
std::string body_piece_text(ProcessingPhase phase, std::string_view piece, bool last);
struct ImmediateAnswer {
  int status = 503;
  std::string body;  // JSON
  std::optional<int64_t> retry_after_s{};
};
std::string immediate_text(const ImmediateAnswer& answer);

}  // namespace cheetah

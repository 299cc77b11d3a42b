// SPDX-License-Identifier: MIT
#include "serve/picker/ext_proc.h"

#include <algorithm>

#include "base/error.h"
#include "serve/picker/protobuf.h"

namespace cheetah {
namespace {

constexpr size_t kMostHeaders = 256, kMostEndpoints = 4096;
constexpr std::string_view kSubsetSpace = "envoy.lb.subset_hint",
                           kSubsetKey = "x-gateway-destination-endpoint-subset", kServedSpace = "envoy.lb",
                           kServedKey = "x-gateway-destination-endpoint-served";

using Type = ProtoField::Type;

// Calls `take` with each field that is bytes: messages and texts.
template <class Take>
void each_part(std::string_view message, const Take& take) {
  ProtoReader reader(message);
  while (const auto field = reader.next())
    if (field->type == Type::kBytes) take(field->number, field->bytes);
}

bool flag_in(std::string_view message, uint32_t number) {
  bool flag = false;
  ProtoReader reader(message);
  while (const auto field = reader.next())
    if (field->number == number && field->type == Type::kVarint) flag = field->value != 0;
  return flag;
}

// An entry of a map: key and value.
std::pair<std::string_view, std::string_view> entry_of(std::string_view message) {
  std::pair<std::string_view, std::string_view> entry;
  each_part(message, [&](uint32_t number, std::string_view bytes) {
    if (number == 1) entry.first = bytes;
    if (number == 2) entry.second = bytes;
  });
  return entry;
}

// HeaderMap{HeaderValue headers = 1}, HeaderValue{key = 1, value = 2, raw_value = 3}.
void read_headers(std::string_view map, ProcessingRequest& request) {
  each_part(map, [&](uint32_t number, std::string_view header) {
    if (number != 1) return;
    if (request.headers.size() >= kMostHeaders) throw Error("more headers than a request may have");
    auto& read = request.headers.emplace_back();
    each_part(header, [&](uint32_t part, std::string_view bytes) {
      if (part == 1) read.first = bytes;
      if (part == 2 || (part == 3 && !bytes.empty())) read.second = bytes;
    });
  });
}

// HttpHeaders{headers = 1, end_of_stream = 3}, HttpTrailers{trailers = 1}, HttpBody{body = 1, end_of_stream = 2}.
void read_phase(ProcessingPhase phase, std::string_view message, ProcessingRequest& request) {
  request.phase = phase;
  const bool is_body = phase == ProcessingPhase::kRequestBody || phase == ProcessingPhase::kResponseBody;
  each_part(message, [&](uint32_t number, std::string_view bytes) {
    if (number != 1) return;
    if (is_body)
      request.body = bytes;
    else
      read_headers(bytes, request);
  });
  const bool is_head =
      phase == ProcessingPhase::kRequestHeaders || phase == ProcessingPhase::kResponseHeaders;
  if (is_body || is_head) request.end_of_stream = flag_in(message, is_body ? 2 : 3);
}

// Value{string_value = 3, list_value = 6}, ListValue{values = 1}. Proxies write a list, or texts with commas.
void read_endpoints(std::string_view value, std::vector<std::string>& endpoints, bool within_list = false) {
  each_part(value, [&](uint32_t number, std::string_view bytes) {
    if (number == 6 && !within_list)
      each_part(bytes, [&](uint32_t item, std::string_view one) {
        if (item == 1) read_endpoints(one, endpoints, true);
      });
    if (number != 3) return;
    while (!bytes.empty()) {
      const size_t comma = std::min(bytes.find(','), bytes.size());
      std::string_view endpoint = bytes.substr(0, comma);
      while (endpoint.starts_with(' ')) endpoint.remove_prefix(1);
      while (endpoint.ends_with(' ')) endpoint.remove_suffix(1);
      if (endpoints.size() >= kMostEndpoints) throw Error("more endpoints to choose from than there can be");
      if (!endpoint.empty()) endpoints.emplace_back(endpoint);
      bytes.remove_prefix(std::min(comma + 1, bytes.size()));
    }
  });
}

// Metadata{map<string, Struct> filter_metadata = 1}, Struct{map<string, Value> fields = 1}.
void read_metadata(std::string_view metadata, ProcessingRequest& request) {
  each_part(metadata, [&](uint32_t number, std::string_view bytes) {
    const auto [space, fields] = entry_of(bytes);
    if (number != 1 || (space != kSubsetSpace && space != kServedSpace)) return;
    const bool is_subset = space == kSubsetSpace;
    each_part(fields, [&, is_subset](uint32_t field, std::string_view entry) {
      const auto [key, value] = entry_of(entry);
      if (field != 1 || key != (is_subset ? kSubsetKey : kServedKey)) return;
      std::vector<std::string> endpoints;
      read_endpoints(value, endpoints);
      if (is_subset)
        request.subset = std::move(endpoints);
      else if (!endpoints.empty())
        request.served = endpoints.front();
    });
  });
}

BodyMode body_mode_of(uint64_t value) {
  if (value > static_cast<uint64_t>(BodyMode::kGrpc)) throw Error("a way to send bodies that is not known");
  return static_cast<BodyMode>(value);
}

BodyModes read_modes(std::string_view message) {
  BodyModes modes{BodyMode::kNone, BodyMode::kNone};
  ProtoReader reader(message);
  while (const auto field = reader.next()) {
    if (field->type != Type::kVarint) continue;
    if (field->number == 1) modes.request = body_mode_of(field->value);
    if (field->number == 2) modes.response = body_mode_of(field->value);
  }
  return modes;
}

// HeaderMutation{HeaderValueOption set_headers = 1}, HeaderValueOption{header = 1, append_action = 3}.
ProtoWriter set_header(std::string_view name, std::string_view value) {
  constexpr uint64_t kOverwriteOrAdd = 2;
  ProtoWriter header, option, mutation;
  header.bytes(1, name).bytes(3, value);
  option.message(1, header).number(3, kOverwriteOrAdd);
  return mutation.message(1, option);
}

// The field of ProcessingResponse that answers a phase.
uint32_t answer_to(ProcessingPhase phase) { return static_cast<uint32_t>(phase) - 1; }

}  // namespace

ProcessingRequest parse_processing_request(std::string_view bytes) {
  constexpr uint32_t kMetadata = 8, kObserved = 10, kModes = 11;
  ProcessingRequest request;
  ProtoReader reader(bytes);
  while (const auto field = reader.next()) {
    if (field->number == kObserved && field->type == Type::kVarint) request.observed_only = field->value != 0;
    if (field->type != Type::kBytes) continue;
    if (field->number >= 2 && field->number <= 7)
      read_phase(static_cast<ProcessingPhase>(field->number), field->bytes, request);
    if (field->number == kMetadata) read_metadata(field->bytes, request);
    if (field->number == kModes) request.modes = read_modes(field->bytes);
  }
  return request;
}

std::string continue_text(ProcessingPhase phase) {
  return ProtoWriter().message(answer_to(phase), ProtoWriter()).text();
}

// CommonResponse{header_mutation = 2, clear_route_cache = 5} in HeadersResponse or BodyResponse{response = 1}.
std::string destination_text(ProcessingPhase phase, const std::string& endpoints) {
  ProtoWriter common, response, value, entry, fields, space, metadata;
  common.message(2, set_header(kDestinationHeader, endpoints)).number(5, 1);
  response.message(1, common);
  // Struct{"envoy.lb": Struct{kDestinationHeader: endpoints}}
  value.bytes(3, endpoints);
  entry.bytes(1, kDestinationHeader).message(2, value);
  fields.message(1, entry);
  ProtoWriter inner;
  inner.message(5, fields);
  space.bytes(1, kServedSpace).message(2, inner);
  metadata.message(1, space);
  return ProtoWriter().message(answer_to(phase), response).message(8, metadata).text();
}

// StreamedBodyResponse{body = 1, end_of_stream = 2} in BodyMutation{streamed_response = 3} in
// CommonResponse{body_mutation = 3}.
std::string body_piece_text(ProcessingPhase phase, std::string_view piece, bool last) {
  ProtoWriter streamed, mutation, common, response;
  streamed.bytes(1, piece);
  if (last) streamed.number(2, 1);
  mutation.message(3, streamed);
  common.message(3, mutation);
  response.message(1, common);
  return ProtoWriter().message(answer_to(phase), response).text();
}

// ImmediateResponse{HttpStatus{code = 1} status = 1, headers = 2, body = 3, details = 5}.
std::string immediate_text(const ImmediateAnswer& answer) {
  constexpr uint32_t kImmediate = 7;
  ProtoWriter status, headers, response;
  status.number(1, static_cast<uint64_t>(answer.status));
  response.message(1, status);
  const auto add = [&](std::string_view name, std::string_view value) {
    ProtoWriter header, option;
    header.bytes(1, name).bytes(3, value);
    option.message(1, header).number(3, 2);
    headers.message(1, option);
  };
  add("content-type", "application/json");
  if (answer.retry_after_s) add("retry-after", std::to_string(*answer.retry_after_s));
  response.message(2, headers).bytes(3, answer.body).bytes(5, "cheetah_endpoint_picker");
  return ProtoWriter().message(kImmediate, response).text();
}

}  // namespace cheetah

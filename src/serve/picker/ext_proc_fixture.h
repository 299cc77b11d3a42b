// SPDX-License-Identifier: MIT
#pragma once
// For tests: what a proxy would send, and what it would read.
#include <map>

#include "serve/picker/ext_proc.h"
#include "serve/picker/protobuf.h"

namespace cheetah {

inline ProtoWriter header_map(const std::vector<std::pair<std::string, std::string>>& headers) {
  ProtoWriter map;
  for (const auto& [name, value] : headers) map.message(1, ProtoWriter().bytes(1, name).bytes(3, value));
  return map;
}

inline ProtoWriter endpoint_list(const std::vector<std::string>& endpoints) {
  ProtoWriter list, value;
  for (const std::string& endpoint : endpoints) list.message(1, ProtoWriter().bytes(3, endpoint));
  return value.message(6, list);
}

// Metadata with one key of one name space.
inline ProtoWriter metadata(std::string_view space, std::string_view key, const ProtoWriter& value) {
  ProtoWriter fields, entry;
  fields.message(1, ProtoWriter().bytes(1, key).message(2, value));
  entry.bytes(1, space).message(2, fields);
  return ProtoWriter().message(1, entry);
}

inline ProtoWriter modes_message(BodyMode request, BodyMode response) {
  return ProtoWriter().number(1, static_cast<uint64_t>(request)).number(2, static_cast<uint64_t>(response));
}

inline std::string request_headers(const std::vector<std::pair<std::string, std::string>>& headers,
    bool last = false, BodyMode mode = BodyMode::kFullDuplex) {
  ProtoWriter phase;
  phase.message(1, header_map(headers)).number(3, last ? 1 : 0);
  return ProtoWriter().message(2, phase).message(11, modes_message(mode, mode)).text();
}

inline std::string body(ProcessingPhase phase, std::string_view bytes, bool last) {
  return ProtoWriter()
      .message(static_cast<uint32_t>(phase), ProtoWriter().bytes(1, bytes).number(2, last ? 1 : 0))
      .text();
}

// The first field of that number, as bytes; "" where there is none.
inline std::string field_of(std::string_view message, uint32_t number) {
  ProtoReader reader(message);
  while (const auto field = reader.next())
    if (field->number == number)
      return field->type == ProtoField::Type::kBytes ? std::string(field->bytes)
                                                     : std::to_string(field->value);
  return {};
}
inline std::string field_at(std::string message, std::initializer_list<uint32_t> path) {
  for (const uint32_t number : path) message = field_of(message, number);
  return message;
}

}  // namespace cheetah

// SPDX-License-Identifier: MIT
#pragma once
// The bytes of a request as JSON. Objects keep the order of their keys: templates print tools and schemas
// fix the order of properties by it.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace cheetah {

using OrderedJson = nlohmann::ordered_json;

struct BodyLimits {
  int max_depth = 64;
  int64_t max_values = 1'000'000;
  int64_t max_string_bytes = int64_t{8} << 20;
};

// The body, an object. Throws ApiFailure with invalid_json (line and column), invalid_unicode, duplicate_key,
// json_too_deep or json_too_large.
OrderedJson parse_body(std::string_view body, const BodyLimits& limits = {});

// Of any value, for messages to the client: escaped and cut to 64 bytes.
std::string shown(const OrderedJson& value);
std::string dump_ordered(const OrderedJson& value);

}  // namespace cheetah

// SPDX-License-Identifier: MIT
#include "serve/api/json_text.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/json.h"

namespace cheetah {

void append_quoted(std::string& out, std::string_view text) {
  const auto is_plain = [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x80 && c != '"' &&
           c != '\\';
  };
  if (!std::ranges::all_of(text, is_plain)) {
    out += dump_json(Json(text));
    return;
  }
  out += '"';
  out += text;
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

void append_number(std::string& out, double value) {
  out += std::isfinite(value) ? format("{}", value) : "-9999.0";
}

std::string sse_data(std::string_view json) { return format("data: {}\n\n", json); }

std::string sse_event(std::string_view name, std::string_view json) {
  return format("event: {}\ndata: {}\n\n", name, json);
}

}  // namespace cheetah

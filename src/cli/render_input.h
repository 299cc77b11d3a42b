// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace cheetah {

// What `render` is asked for: a template, its variables as JSON text with the order of keys, and the time it
// shows.
struct RenderInput {
  std::string source;
  std::string name;
  std::string variables;
  int64_t now = 0;
};

// Reads the JSON object `text` (called `name` in messages). A model is found by `model_path`, which takes
// what the person wrote. Throws Error for bad JSON and for an object that names no template.
RenderInput read_render_input(std::string_view text, const std::string& name,
    const std::function<std::string(const std::string&)>& model_path);

// Seconds since 1970 of "2024-07-26T12:34:56" (also without the time, with a space, or with a final Z).
int64_t parse_time(const std::string& text);

}  // namespace cheetah

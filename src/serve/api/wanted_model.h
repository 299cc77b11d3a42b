// SPDX-License-Identifier: MIT
#pragma once
// Which model a call's body asks for, before there is one to read the body with.
#include <optional>
#include <string>
#include <string_view>

namespace cheetah {

struct WantedModel {
  std::string name;                    // "": it names none, or is not readable, which its parser will say
  std::optional<double> keep_alive_s;  // Ollama's: 0 unloads the model afterwards, below 0 it stays
};

// Reads the body's own fields "model", "name" and "keep_alive" and passes over the rest.
WantedModel wanted_model(std::string_view body);

// "5m", "1h30m", "-1m", "300": as Go writes times; without a unit in seconds. nullopt: it is not a time.
std::optional<double> go_duration_s(std::string_view text);

}  // namespace cheetah

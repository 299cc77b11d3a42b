// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cheetah {

inline constexpr const char* kDefaultModel = "cub-7m";  // the embedded model

// Folders that hold models by name, first match wins, and Hugging Face's download cache.
struct ModelPlaces {
  std::vector<std::string> folders;
  std::string hub_cache;
};

// $CHEETAH_MODELS (colon-separated), the folders around the executable, the source tree it was built from.
ModelPlaces model_places();

// The path to load for what a person wrote: a path as it is, a bare name ("cub-moe") from the folders, an
// "org/name" from the hub cache, "random:…" unchanged, and the embedded model for "". Throws Error listing
// where it looked.
std::string find_model(const std::string& name, const ModelPlaces& places);
inline std::string find_model(const std::string& name) { return find_model(name, model_places()); }

// Adds -m/--model and the positional MODEL to a command.
void add_model_option(CLI::App& command, std::string& model);

}  // namespace cheetah

// SPDX-License-Identifier: MIT
#include "cli/model_lookup.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "cli/parse.h"
#include "model/files/hub_cache.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string hub_cache_folder() {
  if (auto cache = environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const auto home = environment("HF_HOME"); !home.empty()) return home + "/hub";
  if (const auto home = environment("HOME"); !home.empty()) return home + "/.cache/huggingface/hub";
  return "";
}

bool is_bare_name(const std::string& name) {
  return name.find('/') == std::string::npos && name != "." && name != "..";
}

// What the folders hold, as one may name it.
std::vector<std::string> names_in(const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      if (at->path().extension() == ".gguf")
        names.push_back(at->path().stem().string());
      else if (is_there(at->path() / "config.json"))
        names.push_back(at->path().filename().string());
    }
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string not_found(const std::string& name, const ModelPlaces& places) {
  const std::vector<std::string> names = names_in(places.folders);
  std::string text = format("model '{}': not found", printable(name, 200));
  if (const std::string near = nearest_name(name, names); !near.empty())
    return text + format(": did you mean {}? 'cheetah list' shows the models of this machine", near);
  std::string looked;
  for (const std::string& folder : places.folders) looked += (looked.empty() ? "" : ", ") + folder;
  return text + format(
                    "; looked for it as a path and in {} (CHEETAH_MODELS adds folders); 'cheetah list' shows "
                    "the models of this machine",
                    looked);
}

}  // namespace

ModelPlaces model_places() {
  ModelPlaces places;
  std::string listed = environment("CHEETAH_MODELS");
  for (size_t begin = 0; begin < listed.size();) {
    const size_t end = std::min(listed.find(':', begin), listed.size());
    if (end > begin) places.folders.push_back(listed.substr(begin, end - begin));
    begin = end + 1;
  }
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (!error)
    for (const char* folder : {"models", "../models", "../share/cheetah/models"})
      places.folders.push_back((here / folder).lexically_normal().string());
  if (const std::string source = CHEETAH_MODELS_DIR;
      std::ranges::find(places.folders, source) == places.folders.end())
    places.folders.push_back(source);
  places.hub_cache = hub_cache_folder();
  return places;
}

std::string find_model(const std::string& name, const ModelPlaces& places) {
  if (name.rfind("random:", 0) == 0) return name;
  const std::string wanted = name.empty() ? kDefaultModel : name;
  if (!name.empty() && is_there(name)) return name;
  if (!is_bare_name(wanted)) return resolve_model_reference(wanted, places.hub_cache);
  for (const std::string& folder : places.folders)
    for (const char* ending : {"", ".gguf"})
      if (const fs::path path = fs::path(folder) / (wanted + ending); is_there(path)) return path.string();
  throw Error(not_found(wanted, places));
}

void add_model_option(CLI::App& command, std::string& model) {
  auto* flag = command.add_option("-m,--model", model,
      "model folder, GGUF file, or a name such as cub-moe or ORG/NAME from the hub "
      "cache (default: the embedded cub-7m)");
  command.add_option("MODEL", model, "the same, without the flag")->excludes(flag);
}

}  // namespace cheetah

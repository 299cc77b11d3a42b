// SPDX-License-Identifier: MIT
// cheetah list, cheetah rm: the models on this machine.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/table.h"
#include "cli/command.h"
#include "cli/model_lookup.h"
#include "cli/output.h"
#include "hub/cache.h"
#include "hub/file_choice.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

constexpr const char* kListExamples = R"(
Examples:
  cheetah list
  cheetah list --json
)";
constexpr const char* kRmExamples = R"(
Examples:
  cheetah rm ORG/NAME
  cheetah rm ORG/NAME:Q8_0
  cheetah rm ORG/NAME@v1.0
)";

// A model as a person names it.
struct Listed {
  std::string name, kind{}, revision{}, path{};
  int64_t bytes = 0;
  int64_t changed_at = 0;
};

std::string day_of(int64_t time) {
  const std::time_t when = time;
  std::tm parts = {};
  gmtime_r(&when, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

int64_t file_bytes(const fs::path& path) {
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

int64_t changed_at(const fs::path& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  if (error) return 0;
  return std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::file_clock::to_sys(time).time_since_epoch())
      .count();
}

std::optional<Listed> model_in(const fs::path& path) {
  std::error_code error;
  Listed model{.name = path.filename().string(), .path = path.string(), .changed_at = changed_at(path)};
  if (fs::is_regular_file(path, error) && path.extension() == ".gguf") {
    model.name = path.stem().string();
    model.kind = "GGUF";
    model.bytes = file_bytes(path);
    return model;
  }
  if (!fs::exists(path / "config.json", error)) return std::nullopt;
  model.kind = "safetensors";
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    model.bytes += file_bytes(at->path());
  return model;
}

void add_folders(std::vector<Listed>& all, const ModelPlaces& places) {
  for (const std::string& folder : places.folders) {
    std::error_code error;
    std::vector<Listed> here;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      if (auto model = model_in(at->path())) here.push_back(std::move(*model));
    std::ranges::sort(here, {}, &Listed::name);
    for (Listed& model : here)  // the first folder wins, as when a model is looked up
      if (std::ranges::none_of(all, [&](const Listed& other) { return other.name == model.name; }))
        all.push_back(std::move(model));
  }
}

// A snapshot holds one model of safetensors, or several GGUF models that differ in their quantization.
void add_hub(std::vector<Listed>& all, const hub::CachedModel& cached, const std::string& folder) {
  Listed model{.name = cached.name,
      .kind = "safetensors",
      .revision = cached.commit.substr(0, 12),
      .path = folder,
      .bytes = 0,
      .changed_at = cached.used_at};
  const bool on_main = std::ranges::find(cached.refs, "main") != cached.refs.end();
  const std::string at = on_main || cached.refs.empty() ? "" : "@" + cached.refs.front();
  const std::string suffix = on_main ? "" : at.empty() ? "@" + cached.commit.substr(0, 12) : at;
  std::map<std::string, int64_t> quantizations;
  bool has_safetensors = false;
  for (const hub::CachedFile& file : cached.files) {
    if (file.path.ends_with(".gguf"))
      quantizations[hub::quantization_of(file.path.substr(file.path.rfind('/') + 1))] += file.bytes;
    else
      model.bytes += file.bytes;
    has_safetensors = has_safetensors || file.path.ends_with(".safetensors");
  }
  if (has_safetensors) {
    all.push_back(model);
    all.back().name += suffix;
  }
  for (const auto& [quantization, bytes] : quantizations) {
    Listed gguf = model;
    gguf.name += (quantization.empty() ? "" : ":" + quantization) + suffix;
    gguf.kind = "GGUF";
    gguf.bytes = bytes;
    all.push_back(std::move(gguf));
  }
}

int run_list(bool json) {
  const ModelPlaces places = model_places();
  std::vector<Listed> all;
  add_folders(all, places);
  const hub::Cache cache(places.hub_cache);
  for (const hub::CachedModel& model : cache.models()) add_hub(all, model, cache.folder());
  const auto unfinished = cache.unfinished();
  if (json) {
    Json models = Json::array(), partial = Json::array();
    for (const Listed& model : all)
      models.push_back({{"name", model.name}, {"bytes", model.bytes}, {"format", model.kind},
          {"revision", model.revision}, {"folder", model.path}, {"changed", model.changed_at}});
    for (const hub::Unfinished& one : unfinished)
      partial.push_back({{"name", one.name}, {"bytes", one.bytes}});
    print(dump_json({{"models", models}, {"unfinished", partial}}) + "\n");
    return 0;
  }
  Table table({"model", "size", "format", "revision", "changed"});
  for (const Listed& model : all)
    table.add({printable(model.name, 200), human_bytes(static_cast<double>(model.bytes)), model.kind,
        model.revision.empty() ? "-" : model.revision, day_of(model.changed_at)});
  print(table.render());
  for (const hub::Unfinished& one : unfinished)
    print_note(format("{}: {} of an unfinished download; 'cheetah pull' goes on, 'cheetah rm {}' removes it",
        one.name, human_bytes(static_cast<double>(one.bytes)), one.name));
  return 0;
}

int run_rm(const std::vector<std::string>& names) {
  const hub::Cache cache(model_places().hub_cache);
  for (const std::string& name : names) {
    const auto reference = parse_hub_reference(name);
    if (!reference)
      throw UsageError(format(
          "'{}' is not a model of the hub cache: expected ORG/NAME, ORG/NAME:Q8_0 or ORG/NAME@REVISION",
          printable(name, 200)));
    const int64_t freed = cache.remove(*reference, name.find('@') != std::string::npos);
    print(format("{} removed, {} freed\n", name, human_bytes(static_cast<double>(freed))));
  }
  return 0;
}

}  // namespace

void add_list(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("list", "Show the models on this machine");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print one JSON object");
  command->footer(kListExamples);
  command->callback([=, &action] { action = [=] { return run_list(*json); }; });
}

void add_rm(CLI::App& root, Action& action) {
  auto* command = root.add_subcommand("rm", "Remove models of the hub cache from this machine");
  auto names = std::make_shared<std::vector<std::string>>();
  command->add_option("MODEL", *names, "ORG/NAME, ORG/NAME:QUANTIZATION or ORG/NAME@REVISION")->required();
  command->footer(kRmExamples);
  command->callback([=, &action] { action = [=] { return run_rm(*names); }; });
}

}  // namespace cheetah

// SPDX-License-Identifier: MIT
#include <sys/stat.h>

#include <ctime>

#include "base/format.h"
#include "base/hash.h"
#include "cli/model_lookup.h"
#include "cli/serve_node.h"
#include "cli/version.h"
#include "model/fingerprint.h"
#include "model/model.h"

namespace cheetah {
namespace {

// Changes with the weights and with the build.
std::string fingerprint(const Model& model) {
  const std::string text =
      format("{} {} {} {}", model.name(), model.num_parameters(), model.weight_bytes(), build_info().commit);
  return format("fp_{:016x}", fnv1a(text, fingerprint_of(model.weights())));
}

// When the model's files were last written; now for a model without files.
int64_t written_at(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 ? info.st_mtime : std::time(nullptr);
}

// The model's own, and what it was asked for by where that is another: ORG/NAME:Q8_0.
std::vector<std::string> names_of(const std::string& asked, const Model& model) {
  std::vector<std::string> names = {model.name()};
  if (asked.starts_with(model.name()) && asked != model.name()) names.push_back(asked);
  return names;
}

}  // namespace

ApiServices make_api_services(
    const ServeOptions& options, const Model& model, const EngineConfig& config, GrammarCache& grammars) {
  std::vector<std::string> names = options.served_names;
  if (names.empty()) names = names_of(options.engine.model, model);
  GenerationDefaults defaults;
  if (options.generation_config == "auto")
    defaults = read_generation_defaults(find_model(options.engine.model));
  return {.model = model,
      .model_name = names.front(),
      .aliases = {names.begin() + 1, names.end()},
      .max_context = config.max_context,
      .max_sequences = config.max_sequences,
      .system_fingerprint = fingerprint(model),
      .grammars = grammars,
      .strict_fields = options.strict_fields,
      .defaults = defaults,
      .created = written_at(find_model(options.engine.model))};
}

std::vector<MoreModel> load_more_models(const ServeOptions& options) {
  std::vector<MoreModel> models;
  for (const std::string& name : options.also_serve) {
    EngineOptions engine = options.engine;
    engine.model = name;
    MoreModel more{.asked = name, .model = load_model(engine), .grammars = nullptr, .limits = {}};
    more.grammars = std::make_unique<GrammarCache>(*more.model);
    more.limits = router_limits(options, *more.model);
    models.push_back(std::move(more));
  }
  return models;
}

ApiServices make_api_services(const ServeOptions& options, const MoreModel& more) {
  ServeOptions own = options;
  own.served_names.clear();
  own.engine.model = more.asked;
  return make_api_services(own, *more.model, more.limits, *more.grammars);
}

EngineConfig router_limits(const ServeOptions& options, const Model& model) {
  EngineConfig config = engine_config(options);
  if (config.max_context == 0) config.max_context = model.traits().max_positions;
  config.max_sequences = std::max<int64_t>(config.max_sequences, 128);
  return config;
}

}  // namespace cheetah

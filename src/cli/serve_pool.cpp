// SPDX-License-Identifier: MIT
#include "cli/serve_pool.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "base/table.h"
#include "cli/cluster_memory.h"
#include "cli/fault_exit.h"
#include "cli/gpu_readings.h"
#include "cli/model_lookup.h"
#include "cli/output.h"
#include "cli/serve_node.h"
#include "cli/signals.h"
#include "cli/version.h"
#include "engine/grammar/grammar_cache.h"
#include "engine/memory_plan.h"
#include "observe/event_log.h"
#include "serve/model_pool.h"
#include "serve/server.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

// Between an engine's fatal fault and the end of the process.
constexpr std::chrono::seconds kLastWords{2};

int64_t bytes_at(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const auto size = fs::file_size(path, error);
    return error ? 0 : static_cast<int64_t>(size);
  }
  int64_t bytes = 0;
  for (const auto& file : fs::directory_iterator(path, error))
    if (file.is_regular_file(error)) bytes += static_cast<int64_t>(file.file_size(error));
  return bytes;
}

// "ORG/NAME:Q8_0" and bare names as they are asked for; a path by its last part.
std::string name_for(const std::string& asked) {
  if (asked.starts_with("random:")) return asked;
  std::error_code error;
  if (!fs::exists(asked, error)) return asked;
  fs::path path = fs::path(asked).lexically_normal();
  if (path.filename().empty()) path = path.parent_path();
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

// Every folder with a model in it, and every GGUF file but the further parts of one.
std::vector<std::string> models_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path& path = entry.path();
    const bool is_model = entry.is_directory(error) && fs::exists(path / "config.json", error);
    const bool is_gguf = path.extension() == ".gguf" && !entry.is_directory(error);
    const std::string name = path.filename().string();
    const size_t part = name.find("-of-");
    const bool further =
        is_gguf && part != std::string::npos && part >= 5 && name.substr(part - 5, 5) != "00001";
    if ((is_model || is_gguf) && !further) paths.push_back(path.string());
  }
  if (error) throw UsageError(format("--models-dir {}: {}", printable(folder), error.message()));
  if (paths.empty())
    throw UsageError(
        format("--models-dir {}: there is no model folder and no GGUF file in it", printable(folder)));
  std::ranges::sort(paths);
  return paths;
}

std::vector<PooledModel> pooled_models(const ServeOptions& options) {
  std::vector<std::string> asked;
  if (!options.engine.model.empty() || options.models_dir.empty()) asked.push_back(options.engine.model);
  std::ranges::copy(options.more_models, std::back_inserter(asked));
  if (!options.models_dir.empty())
    std::ranges::copy(models_in(options.models_dir), std::back_inserter(asked));
  const auto& names = options.served_names;
  if (asked.size() > 1 && !names.empty() && names.size() != asked.size())
    throw UsageError(format("--served-model-name: {} names for {} models; give one for each, in their order",
        names.size(), asked.size()));
  std::vector<PooledModel> models;
  for (size_t i = 0; i < asked.size(); ++i) {
    PooledModel model{.name = asked[i].empty() ? kDefaultModel : name_for(asked[i]), .path = asked[i]};
    if (asked.size() == 1 && !names.empty()) {
      model.name = names.front();
      model.aliases.assign(names.begin() + 1, names.end());
    } else if (!names.empty()) {
      model.name = names[i];
    }
    if (std::ranges::find(models, model.name, &PooledModel::name) != models.end())
      throw UsageError(
          format("two models are called '{}': tell them apart with --served-model-name", model.name));
    const std::string path = find_model(asked[i]);  // throws now, not at the first request
    std::error_code error;
    const auto written = fs::last_write_time(path, error);
    model.created = error ? std::time(nullptr)
                          : std::chrono::duration_cast<std::chrono::seconds>(
                                std::chrono::file_clock::to_sys(written).time_since_epoch())
                                .count();
    model.bytes = bytes_at(path);
    models.push_back(std::move(model));
  }
  return models;
}

// A model with everything that answers for it.
class LoadedModel final : public HeldModel {
 public:
  LoadedModel(const ServeOptions& options, const PooledModel& pooled, EngineHooks hooks)
      : model_(load_model(options.engine)),
        grammars_(*model_),
        engine_(model_, plan_memory(*model_, engine_config(options)).config, std::move(hooks)) {
    engine_.warm_up();
    ApiServices services = make_api_services(options, *model_, engine_.config(), grammars_);
    services.model_name = pooled.name;
    services.aliases = pooled.aliases;
    backend_ = std::make_unique<Backend>(Backend{engine_, std::move(services)});
  }
  const Backend& backend() const override { return *backend_; }

 private:
  std::shared_ptr<const Model> model_;  // shared with its engine
  GrammarCache grammars_;
  Engine engine_;
  std::unique_ptr<Backend> backend_;
};

class Loader final : public ModelLoader {
 public:
  Loader(const ServeOptions& options, FaultExit& fault_exit, EventLog& log)
      : options_(options), fault_exit_(fault_exit), log_(log) {}

  // There is room for what a model would have alone: its whole context, or, where that fits nowhere, what is free.
  std::string no_room_for(const PooledModel& model, bool others_loaded) override {
    const ServeOptions own = options_of(model);
    const EngineConfig config = engine_config(own);
    if (!others_loaded) {
      plan_before_loading(own.engine, config);  // throws what is missing
      return "";
    }
    try {
      const MemoryPlan plan = plan_before_loading(own.engine, config);
      if (plan.rows.back().bytes < 0)
        return "its weights and cache do not fit beside the models that are loaded";
      const int64_t most = stored_weights(own.engine).traits.max_positions;
      const int64_t wanted = config.max_context > 0 ? std::min(config.max_context, most) : most;
      const bool own_size = config.kv_bytes > 0;  // then others do not cut it
      if (own_size || plan.config.max_context >= wanted) return "";
      return format(
          "only {} tokens of context would fit beside the models that are loaded", plan.config.max_context);
    } catch (const Error& error) {
      return error.what();
    }
  }

  std::unique_ptr<HeldModel> load(const PooledModel& model) override {
    return std::make_unique<LoadedModel>(options_of(model), model, fault_exit_.hooks(log_));
  }

 private:
  ServeOptions options_of(const PooledModel& model) const {
    ServeOptions own = options_;
    own.engine.model = model.path;
    own.served_names.clear();
    return own;
  }
  const ServeOptions& options_;
  FaultExit& fault_exit_;
  EventLog& log_;
};

std::string ready_text(const Server& server, const std::vector<PooledModel>& models) {
  std::string text = format("\nready: {} model{} at {}, each loaded when a request names it\n\n",
      models.size(), models.size() == 1 ? "" : "s", server.url());
  for (const PooledModel& model : models)
    text += format(
        "  {:<40} {}\n", model.name, model.bytes > 0 ? human_bytes(static_cast<double>(model.bytes)) : "");
  return text + "\n";
}

}  // namespace

int run_pool(const ServeOptions& options) {
  const ServerConfig config = server_config(options, std::getenv("CHEETAH_API_KEY"));
  const std::vector<PooledModel> models = pooled_models(options);
  Server server(config);
  EventLog log(config.log);
  FaultExit fault_exit(kLastWords);
  ModelPool pool(std::make_unique<Loader>(options, fault_exit, log), models,
      {.max_loaded = options.models_max, .keep_alive_s = options.keep_alive_s}, log);
  ShutdownSignals signals;
  server.serve(pool, gpu_metrics(uses_cuda(options.engine.device)));
  print(format("cheetah {} starts at {}\n", build_info().version, server.url()) + ready_text(server, models));
  flush_output();
  const int signal = signals.wait();
  print_note(format("signal {}: finishing what runs; a second signal ends at once", signal));
  server.drain(std::chrono::milliseconds(static_cast<int64_t>(options.shutdown_timeout_s * 1e3)));
  server.stop();
  return 0;
}

}  // namespace cheetah

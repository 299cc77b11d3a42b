// SPDX-License-Identifier: MIT
#include "engine/crash_bundle.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/time.h"

namespace cheetah {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kDecisions = 256;  // the newest ones

Json describe(const StepFailure& failure) {
  Json parts = Json::array();
  for (const StepFailure::Part& part : failure.parts)
    parts.push_back({{"request", static_cast<uint64_t>(part.request)}, {"choice", part.choice},
        {"tokens", part.tokens}, {"context", part.context}, {"completes", part.completes}});
  return {{"why", failure.why}, {"step", failure.step}, {"tokens", failure.shape.tokens},
      {"attention_pairs", failure.shape.pairs}, {"sequences", std::move(parts)},
      {"launches", failure.launches}};
}

Json describe(const Sequence& sequence) {
  constexpr const char* kStates[] = {"waiting", "running", "done"};
  return {{"choice", sequence.choice}, {"state", kStates[static_cast<size_t>(sequence.status)]},
      {"generated", sequence.num_generated}, {"computed", sequence.computed},
      {"submitted", sequence.submitted}, {"pages", sequence.num_held_pages()}};
}

// Sizes and settings alone: neither prompt nor answer, stop strings nor grammar, which are the client's.
Json describe(const RequestState& state) {
  const GenerationRequest& request = state.request;
  Json choices = Json::array();
  for (const auto& choice : state.choices) choices.push_back(describe(*choice));
  return {{"request", static_cast<uint64_t>(request.id)}, {"prompt_tokens", state.num_prompt()},
      {"max_tokens", request.max_tokens}, {"n", request.n}, {"best_of", request.best_of},
      {"priority", request.priority}, {"seed", request.seed}, {"temperature", request.sampling.temperature},
      {"top_k", request.sampling.top_k}, {"top_p", request.sampling.top_p},
      {"has_grammar", request.grammar != nullptr}, {"embeds", state.embeds()},
      {"prompt_logprobs", request.prompt_logprobs}, {"paused", state.paused},
      {"cached_tokens", state.cached_tokens}, {"choices", std::move(choices)}};
}

Json describe(const EngineConfig& config) {
  return {{"device", config.device == DeviceKind::kCuda ? "cuda" : "cpu"}, {"threads", config.threads},
      {"kv_dtype", name_of(config.kv_dtype)}, {"page_tokens", config.page_tokens},
      {"max_context", config.max_context}, {"kv_bytes", config.kv_bytes},
      {"max_sequences", config.max_sequences}, {"max_batch_tokens", config.max_batch_tokens},
      {"prefix_cache", config.prefix_cache}, {"step_timeout_s", config.step_timeout_s}};
}

Json describe(const EngineStats& stats) {
  return {{"steps", stats.steps}, {"failed_steps", stats.failed_steps},
      {"nonfinite_outputs", stats.nonfinite_outputs}, {"running", stats.running}, {"waiting", stats.waiting},
      {"swapped", stats.swapped}, {"pages_total", stats.pages_total}, {"pages_free", stats.pages_free},
      {"pages_cached", stats.pages_cached}, {"preemptions", stats.preemptions},
      {"last_step_ms", stats.last_step_ms}, {"graphs_launched", stats.graphs.launched}};
}

}  // namespace

std::string crash_bundle(const EngineFault& fault, const CrashScene& scene) {
  Json requests = Json::array(), decisions = Json::array();
  for (const auto& [id, request] : scene.requests.all()) requests.push_back(describe(*request));
  for (const Decision& decision : scene.decisions.last(kDecisions)) {
    std::string line = text_of({decision});
    line.pop_back();  // its end
    decisions.push_back(std::move(line));
  }
  const Json bundle = {{"format", "cheetah-crash-1"}, {"fault", name_of(fault.kind)}, {"why", fault.why},
      {"engine_time_s", scene.time_s}, {"step", describe(fault.last)}, {"config", describe(scene.config)},
      {"stats", describe(scene.stats)}, {"requests", std::move(requests)},
      {"decisions", std::move(decisions)}};
  return bundle.dump(1, ' ', false, Json::error_handler_t::replace);
}

std::string write_crash_bundle(const std::string& folder, const EngineFault& fault) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  const int64_t unix_s = unix_seconds();
  std::string path = format("{}/crash-{}-{}.json", folder, unix_s, ::getpid());
  std::ofstream file(path);
  file << fault.bundle << '\n';
  file.close();
  if (!file) throw Error(format("the crash bundle {} cannot be written", path));
  return path;
}

}  // namespace cheetah

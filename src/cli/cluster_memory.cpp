// SPDX-License-Identifier: MIT
#include "cli/cluster_memory.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/error.h"
#include "base/format.h"
#include "base/table.h"
#include "cli/model_lookup.h"
#include "cli/serve_options.h"
#include "engine/memory_plan.h"
#include "gpu/device.h"
#include "hw/cpu.h"
#include "model/cost.h"
#include "model/model_header.h"

namespace cheetah {
namespace {

// As cheetah serve reads them; false: they give the memory themselves.
bool read_flags(const std::string& flags, ServeOptions& options) {
  CLI::App app;
  Settings settings = serve_settings(options);
  settings.add_flags(app);
  std::string file;
  app.add_option("--config", file);
  try {
    app.parse(flags);
  } catch (const CLI::ParseError& error) {
    throw UsageError(format("--serve-flags: {}", error.what()));
  }
  settings.resolve(file, [](const char* name) { return std::getenv(name); });
  return !settings.given("kv-memory");
}

}  // namespace

StoredWeights stored_weights(const EngineOptions& engine) {
  const std::string path = find_model(engine.model);
  const auto held = weight_dtype(engine.dtype);
  if (path.starts_with("random:")) {
    const ModelTraits traits = random_traits(path);
    return {traits, static_cast<int64_t>(all_weight_bytes(traits, held.value_or(DType::kF16))), false};
  }
  const Checkpoint checkpoint = Checkpoint::open(path);
  StoredWeights weights{.traits = describe_model(checkpoint).traits, .bytes = 0, .mapped = !held};
  for (const auto& [name, tensor] : checkpoint.tensors()) weights.bytes += tensor.bytes();
  if (held) weights.bytes = static_cast<int64_t>(all_weight_bytes(weights.traits, *held));
  return weights;
}

MemoryPlan plan_before_loading(const EngineOptions& engine, const EngineConfig& config) {
  const bool on_device = config.device == DeviceKind::kCuda;
  const StoredWeights weights = stored_weights(engine);
  return plan_memory(weights.traits, weights.bytes, config,
      on_device ? gpu::device_memory().free : available_memory_bytes());
}

int64_t kv_bytes_each(const ModelTraits& traits, const EngineConfig& config, const MemoryShare& share) {
  const int64_t left = share.free_bytes - share.shared_bytes - share.others * share.own_bytes;
  const int64_t each = std::max<int64_t>(0, left) / std::max(1, share.workers);
  return plan_memory(traits, share.own_bytes, config, each).config.kv_bytes;
}

int64_t kv_bytes_for(const UpOptions& options, const std::string& flags) {
  ServeOptions serve;
  if (!read_flags(options.more + " " + flags, serve)) return 0;
  serve.engine.model = options.model;
  const EngineConfig config = engine_config(serve);
  const bool on_device = config.device == DeviceKind::kCuda;
  const StoredWeights weights = stored_weights(serve.engine);
  const bool shared = weights.mapped && !on_device;
  return kv_bytes_each(weights.traits, config,
      {.free_bytes = on_device ? gpu::device_memory().free : available_memory_bytes(),
          .shared_bytes = shared ? weights.bytes : 0,
          .own_bytes = shared ? 0 : weights.bytes,
          .workers = num_workers(options),
          .others = on_device ? 0 : 1});
}

std::string memory_text(int64_t prefill_kv_bytes, int64_t decode_kv_bytes, const UpOptions& options) {
  const auto each = [](int64_t bytes) {
    return bytes > 0 ? human_bytes(static_cast<double>(bytes)) : std::string("as its flags say");
  };
  return format(
      "memory: for keys and values each prefill worker takes {} and each decode worker {} ({} share "
      "what is free; --serve-flags='--kv-memory SIZE' changes it)",
      options.num_prefill > 0 ? each(prefill_kv_bytes) : "nothing", each(decode_kv_bytes),
      num_workers(options));
}

}  // namespace cheetah

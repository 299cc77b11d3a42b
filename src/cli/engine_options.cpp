// SPDX-License-Identifier: MIT
#include "cli/engine_options.h"

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/format.h"
#include "base/table.h"
#include "cli/model_lookup.h"
#include "cli/numbers.h"
#include "cli/output.h"
#include "hw/cpu.h"
#include "model/cuda/cuda_runner.h"
#include "model/weights.h"

namespace cheetah {
namespace {

constexpr int kMaxThreads = 1024;
constexpr std::array kWeightTypes = {
    DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kQ8_0, DType::kQ4_0, DType::kQ4_K};
constexpr std::array kCacheTypes = {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kI8};

// What random: presets have unless --dtype says otherwise: the half precision that is fast there.
DType random_weights(bool on_cuda) { return on_cuda ? DType::kBF16 : DType::kF16; }

bool is_random(const std::string& path) { return path.starts_with("random:"); }

std::unique_ptr<Model> load_model(
    const std::string& path, const std::string& dtype, bool on_cuda, LoadObserver observer = {}) {
  if (is_random(path)) return Model::random(path, weight_dtype(dtype).value_or(random_weights(on_cuda)));
  LoadOptions options;
  options.dtype = weight_dtype(dtype);
  options.on_progress = std::move(observer);
  auto model = Model::load(path, options);
  for (const std::string& note : model->weights().notes) print_note(note);
  return model;
}

std::string type_name(const std::string& path, const std::string& dtype, bool on_cuda) {
  if (dtype.empty() && !is_random(path)) return "as stored";
  return std::string(name_of(weight_dtype(dtype).value_or(random_weights(on_cuda))));
}

DType cache_dtype_on(const EngineOptions& options, bool on_cuda) {
  if (!options.kv_dtype.empty()) return *cache_type_from_name(options.kv_dtype);
  if (options.compute == "exact") return DType::kF32;
  return on_cuda ? DType::kBF16 : DType::kF16;
}

constexpr const char* kCacheTypeNames = "f32, bf16, f16, f8_e4m3 (or fp8), i8 (or int8)";

void add_cache_type_option(CLI::App& command, std::string& value) {
  command.add_option("--kv-dtype", value, format("type of cached keys and values: {}", kCacheTypeNames))
      ->check([](const std::string& text) {
        if (cache_type_from_name(text)) return std::string();
        return format("'{}' is not one of {}", printable(text), kCacheTypeNames);
      });
}

}  // namespace

std::optional<DType> cache_type_from_name(const std::string& name) {
  const std::string plain = ascii_lower(name);
  const auto type = plain == "fp8" ? DType::kF8E4M3 : plain == "int8" ? DType::kI8 : dtype_from_name(plain);
  return type && std::ranges::find(kCacheTypes, *type) != kCacheTypes.end() ? type : std::nullopt;
}

DType cache_dtype(const EngineOptions& options) { return cache_dtype_on(options, uses_cuda(options.device)); }

void add_threads_option(CLI::App& command, int& threads) {
  accept_counts(
      command.add_option("-t,--threads", threads, "threads to compute with (default: one per core)")
          ->envname("CHEETAH_THREADS"),
      1, kMaxThreads);
}

void add_dtype_option(CLI::App& command, std::string& dtype) {
  const std::string names = weight_type_names();
  command.add_option("--dtype", dtype, "hold the weights in this type instead of the file's: " + names)
      ->check([names](const std::string& text) {
        if (weight_dtype(text)) return std::string();
        return format("'{}' is not one of {}", printable(text), names);
      });
}

void add_compute_option(CLI::App& command, std::string& compute) {
  command
      .add_option("--compute", compute, "exact: F32 arithmetic; native: the fastest for the weights' type")
      ->check(CLI::IsMember({"exact", "native"}))
      ->capture_default_str();
}

void add_device_option(CLI::App& command, std::string& device) {
  command.add_option("--device", device, "cuda, cpu, or auto: cuda where there is one")
      ->check(CLI::IsMember({"auto", "cuda", "cpu"}))
      ->capture_default_str();
}

std::string unused_gpu_note(bool has_gpu, const gpu::Availability& cuda) {
  if (!has_gpu || cuda) return "";
  return format(
      "an NVIDIA GPU is here and is not used: {}; computing on the CPU (--device cpu says so without this note)",
      cuda.reason);
}

bool uses_cuda(const std::string& device) {
  const gpu::Availability& cuda = gpu::cuda_available();
  if (device == "cuda" && !cuda) throw Error("--device cuda: " + cuda.reason);
  static const std::string note = unused_gpu_note(access("/dev/nvidia0", F_OK) == 0, cuda);
  static bool told = false;
  if (device == "auto" && !note.empty() && !std::exchange(told, true)) print_note(note);
  return device != "cpu" && cuda;
}

std::string device_name(const std::string& device) {
  return uses_cuda(device) ? gpu::query_device().name : "CPU";
}

void add_engine_options(CLI::App& command, EngineOptions& options) {
  add_model_option(command, options.model);
  add_threads_option(command, options.threads);
  add_dtype_option(command, options.dtype);
  add_cache_type_option(command, options.kv_dtype);
  add_compute_option(command, options.compute);
  add_device_option(command, options.device);
}

std::optional<DType> weight_dtype(const std::string& name) {
  const std::string plain = ascii_lower(name);
  const auto type = plain == "fp8" ? DType::kF8E4M3 : dtype_from_name(plain);
  return type && std::ranges::find(kWeightTypes, *type) != kWeightTypes.end() ? type : std::nullopt;
}

std::string weight_type_names() {
  std::string names;
  for (const DType type : kWeightTypes) names += (names.empty() ? "" : ", ") + ascii_lower(name_of(type));
  return names + " (or fp8 for f8_e4m3)";
}

Precision precision_of(const std::string& compute) {
  return compute == "exact" ? Precision::kExact : Precision::kNative;
}

MemoryBudget plan_context(
    int64_t wanted_tokens, int64_t token_bytes, int64_t weight_bytes, int64_t free_bytes) {
  constexpr int64_t kMargin = int64_t{64} << 20;
  const int64_t left = free_bytes - free_bytes / 20 - weight_bytes - kMargin;
  const int64_t fits = std::max<int64_t>(0, left) / std::max<int64_t>(1, token_bytes);
  return {.free_bytes = free_bytes,
      .weight_bytes = weight_bytes,
      .token_bytes = token_bytes,
      .tokens = std::min(wanted_tokens, fits)};
}

std::string text_of(const MemoryBudget& budget) {
  const auto bytes = [](int64_t count) { return human_bytes(static_cast<double>(count)); };
  return format("memory: {} free, weights {}, context {} tokens x {} = {}", bytes(budget.free_bytes),
      bytes(budget.weight_bytes), budget.tokens, bytes(budget.token_bytes),
      bytes(budget.tokens * budget.token_bytes));
}

std::unique_ptr<Model> load_model(const EngineOptions& options, LoadObserver observer) {
  return load_model(find_model(options.model), options.dtype, uses_cuda(options.device), std::move(observer));
}

std::unique_ptr<Runner> make_runner(
    const Model& model, Precision precision, bool on_cuda, ThreadPool& threads) {
  if (on_cuda) return make_cuda_runner(model, precision);
  return std::make_unique<CpuRunner>(model, CpuContext{threads, precision});
}

LocalEngine::LocalEngine(const EngineOptions& options)
    : path_(find_model(options.model)),
      on_cuda_(uses_cuda(options.device)),
      threads_({.num_threads = options.threads}),
      model_(load_model(path_, options.dtype, on_cuda_)),
      runner_(make_runner(*model_, precision_of(options.compute), on_cuda_, threads_)),
      kv_dtype_(cache_dtype_on(options, on_cuda_)),
      weight_type_(type_name(path_, options.dtype, on_cuda_)),
      mapped_weights_(options.dtype.empty() && !is_random(path_)) {}

std::string LocalEngine::device_name() const { return cheetah::device_name(on_cuda_ ? "cuda" : "cpu"); }

KvPool LocalEngine::make_kv_pool(int64_t wanted) {
  constexpr int64_t kPageTokens = 16;
  const int64_t token_bytes = kv_bytes_per_token(model_->traits(), kv_dtype_);
  const int64_t weights =
      mapped_weights_ && !on_cuda_ ? model_->weight_bytes() : 0;  // a device has them already
  const int64_t free_bytes = on_cuda_ ? gpu::device_memory().free : available_memory_bytes();
  budget_ = plan_context(wanted, token_bytes, weights, free_bytes);
  if (budget_.tokens < wanted) {
    budget_.tokens -= budget_.tokens % kPageTokens;
    if (budget_.tokens == 0)
      throw Error(format(
          "no memory is left for the context ({}); use a smaller model or --dtype q4_k", text_of(budget_)));
    print_note(format(
        "the context is cut from {} to {} tokens to fit ({})", wanted, budget_.tokens, text_of(budget_)));
  }
  return runner_->make_kv_pool({.dtype = kv_dtype_,
      .num_pages = (budget_.tokens + kPageTokens - 1) / kPageTokens,
      .page_tokens = kPageTokens});
}

}  // namespace cheetah

// SPDX-License-Identifier: MIT
#pragma once
// What every command that runs a model needs: its flags, the loaded model and the memory for its context.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gpu/device.h"
#include "model/model.h"

namespace CLI {
class App;
}

namespace cheetah {

struct EngineOptions {
  std::string model;
  int threads = 0;  // 0: one per usable core
  std::string dtype;
  std::string kv_dtype;
  std::string compute = "native";
  std::string device = "auto";
};

// -m/--model, --threads, --dtype, --kv-dtype, --compute, --device.
void add_engine_options(CLI::App& command, EngineOptions& options);

// The single flags, for commands that need only some. Values are checked while parsing.
void add_threads_option(CLI::App& command, int& threads);
void add_dtype_option(CLI::App& command, std::string& dtype);
void add_compute_option(CLI::App& command, std::string& compute);
void add_device_option(CLI::App& command, std::string& device);

std::optional<DType> weight_dtype(const std::string& name);  // nullopt: as stored, or no type of weights
std::string weight_type_names();
Precision precision_of(const std::string& compute);
// Whether "cuda", "cpu" or "auto" means CUDA here. Throws Error telling why "cuda" cannot be had.
bool uses_cuda(const std::string& device);
// What to say where there is a GPU that cannot be used; "" where all is well.
std::string unused_gpu_note(bool has_gpu, const gpu::Availability& cuda);
std::string device_name(const std::string& device);                  // what that is: "CPU", "NVIDIA H200"
std::optional<DType> cache_type_from_name(const std::string& name);  // nullopt: a cache cannot have it
// As asked for; else the half precision of the device, which holds keys and values well, and with exact
// arithmetic the whole.
DType cache_dtype(const EngineOptions& options);

struct MemoryBudget {
  int64_t free_bytes = 0;    // before the context is allocated
  int64_t weight_bytes = 0;  // still to be read from the file's mapping
  int64_t token_bytes = 0;   // of keys and values
  int64_t tokens = 0;        // the context that was wanted and fits
};

// How many of the wanted tokens fit in what is free once the weights are in, leaving a margin for activations
// and the rest of the machine.
MemoryBudget plan_context(
    int64_t wanted_tokens, int64_t token_bytes, int64_t weight_bytes, int64_t free_bytes);
std::string text_of(const MemoryBudget& budget);

using LoadObserver = std::function<void(int64_t done, int64_t total)>;  // bytes of the weights
std::unique_ptr<Model> load_model(const EngineOptions& options, LoadObserver observer = {});
std::unique_ptr<Runner> make_runner(
    const Model& model, Precision precision, bool on_cuda, ThreadPool& threads);

// A model and what runs it. Not movable: the runner points into it.
class LocalEngine {
 public:
  explicit LocalEngine(const EngineOptions& options);
  LocalEngine(const LocalEngine&) = delete;
  LocalEngine& operator=(const LocalEngine&) = delete;

  const Model& model() const { return *model_; }
  const std::string& path() const { return path_; }
  Runner& runner() { return *runner_; }
  bool on_cuda() const { return on_cuda_; }
  std::string device_name() const;  // "CPU", "NVIDIA H200"
  ThreadPool& threads() { return threads_; }
  DType kv_dtype() const { return kv_dtype_; }
  const std::string& weight_type() const { return weight_type_; }  // "Q8_0", or "as stored"

  // Memory for `wanted` tokens of context, or for fewer, with a note, when they do not fit. Throws Error when
  // not even one page does.
  KvPool make_kv_pool(int64_t wanted);
  const MemoryBudget& budget() const { return budget_; }

 private:
  std::string path_;
  bool on_cuda_;
  ThreadPool threads_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Runner> runner_;
  DType kv_dtype_;
  std::string weight_type_;
  bool mapped_weights_;
  MemoryBudget budget_;
};

}  // namespace cheetah

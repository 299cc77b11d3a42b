// SPDX-License-Identifier: MIT
#pragma once
// A model in memory and its forward pass: what the CLI and the engine use.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/memory.h"
#include "kernels/attention/attention.h"
#include "kernels/context.h"
#include "model/kv_layout.h"
#include "model/step.h"
#include "model/traits.h"
#include "tensor/tensor.h"

namespace cheetah {

struct ModelWeights;  // weights.h
class Tokenizer;
class ChatTemplate;

struct LoadOptions {
  std::optional<DType> dtype = std::nullopt;  // store linear weights in this type instead of the file's
  bool show_progress = true;
  // Told of every weight that was read: bytes so far, bytes of all. On the thread that loads.
  std::function<void(int64_t done, int64_t total)> on_progress = {};
};

// Immutable after loading; shared by every runner.
class Model {
 public:
  // A Hugging Face directory or a GGUF file.
  static std::unique_ptr<Model> load(const std::string& path, const LoadOptions& options = {});
  // "random:llama-134m", "random:llama-1b", "random:llama-8b": seeded random weights, no tokenizer.
  static std::unique_ptr<Model> random(const std::string& preset, DType dtype);
  ~Model();

  const std::string& name() const;
  const ModelTraits& traits() const;
  const ModelWeights& weights() const;
  int64_t num_parameters() const;
  int64_t weight_bytes() const;  // bytes a decode step reads at batch 1 plus the embedding table
  int64_t decode_bytes() const;  // weight bytes one decode step reads at batch 1

  const Tokenizer* tokenizer() const;         // nullptr: none in the files
  const ChatTemplate* chat_template() const;  // nullptr: none
  std::string bos_token() const;
  std::string eos_token() const;

 private:
  struct State;
  explicit Model(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Where on a device a pool lies; what is done to its pages goes into the stream.
struct DevicePlace {
  gpu::DeviceMemory& memory;
  gpu::Stream& stream;
};

struct KvShape {
  DType dtype = DType::kF16;
  int64_t num_pages = 0;
  int64_t page_tokens = 16;
  KvLayout layout = {};  // no layers: one group of all
};

// Pages for every layer, in the host's memory or, with a place, on that device. Which page belongs to whom is
// the caller's business.
class KvPool {
 public:
  KvPool(const ModelTraits& traits, DType dtype, int64_t num_pages, int64_t page_tokens = 16);
  KvPool(const ModelTraits& traits, const KvShape& shape);
  KvPool(const ModelTraits& traits, const KvShape& shape, const DevicePlace& place);
  PagedKv layer(int64_t index) { return slot(layout_.layers[static_cast<size_t>(index)].slot); }
  PagedKv slot(int64_t index);  // of every page; layers of different groups share it
  int64_t group_of(int64_t layer) const { return layout_.layers[static_cast<size_t>(layer)].group; }
  const KvLayout& layout() const { return layout_; }
  const DevicePlace* place() const { return place_ ? &*place_ : nullptr; }  // nullptr: in the host's memory
  int64_t num_pages() const { return num_pages_; }
  int64_t page_tokens() const { return page_tokens_; }
  int64_t pages_for(int64_t tokens) const { return (tokens + page_tokens_ - 1) / page_tokens_; }

 private:
  void set_shape(const ModelTraits& traits, const KvShape& shape);
  std::vector<Buffer> slots_;                    // of these two
  std::vector<gpu::DeviceBuffer> device_slots_;  // one is used
  std::optional<DevicePlace> place_;
  KvLayout layout_;
  PagedKv shape_;
  int64_t num_pages_;
  int64_t page_tokens_;
  int64_t slot_bytes_ = 0;
  int64_t value_offset_ = -1;  // of the values in a slot's buffer
};

// Bytes one cached token takes in all layers, and in one.
int64_t kv_bytes_per_token(const ModelTraits& traits, DType dtype);
int64_t kv_bytes_per_layer(const ModelTraits& traits, DType dtype);

struct ForwardBatch {
  std::span<const int32_t> tokens;               // of all sequences, one after another
  std::span<const AttentionSequence> sequences;  // cover tokens exactly, in order
  // The same with the pages of the pool's groups 1, 2, … instead: a list each, one after another.
  std::span<const AttentionSequence> further_groups = {};
  std::span<const int64_t> logit_rows;        // indices into tokens whose logits are wanted
  std::span<const int64_t> hidden_rows = {};  // … whose final hidden states are wanted
  std::span<float> hidden = {};               // [hidden_rows.size(), hidden] f32, after the final norm

  int64_t num_groups() const {
    return sequences.empty() ? 1 : 1 + std::ssize(further_groups) / std::ssize(sequences);
  }
  std::span<const AttentionSequence> of_group(int64_t group) const {
    const auto count = sequences.size();
    return group == 0 ? sequences : further_groups.subspan(static_cast<size_t>(group - 1) * count, count);
  }
};

// Runs batches of one model. Owns the activations, reused from step to step; one thread at a time.
class Runner {
 public:
  virtual ~Runner() = default;
  // logits [logit_rows.size(), vocab] f32. Writes this step's keys and values into the pool first.
  virtual void forward(const ForwardBatch& batch, KvPool& pool, std::span<float> logits) = 0;
  // A pool where this runner can use it; the runner must outlive it.
  virtual KvPool make_kv_pool(const KvShape& shape) = 0;

  // The same in two halves. submit() starts a step (batch.hidden stays empty) and throws what forward() would
  // for a batch that cannot be; wait() blocks until that step is done and throws when it failed. Steps run in
  // the order of submission, each after everything done to its pool before; every ticket is waited for, in
  // that order. With two steps in flight the next one starts before the host has seen the last one's tokens.
  virtual int64_t max_steps_in_flight() const { return 1; }
  virtual StepTicket submit(const ForwardBatch& batch, const StepExtras& extras, KvPool& pool) = 0;
  virtual StepResult wait(StepTicket ticket) = 0;
  // Why the device can run no further step, after one has thrown; "": it can. Must not wait for the device.
  virtual std::string device_fault() const { return ""; }
  virtual std::string launch_log() const {
    return "";
  }                                                  // its last kernel launches, newest first; "": none kept
  virtual GraphUse graph_use() const { return {}; }  // nothing where steps are not recorded
};

// On the CPU. model/cuda/cuda_runner.h has the one for CUDA.
class CpuRunner final : public Runner {
 public:
  CpuRunner(const Model& model, const CpuContext& context);
  ~CpuRunner() override;
  void forward(const ForwardBatch& batch, KvPool& pool, std::span<float> logits) override;
  KvPool make_kv_pool(const KvShape& shape) override;
  StepTicket submit(const ForwardBatch& batch, const StepExtras& extras, KvPool& pool) override;
  StepResult wait(StepTicket ticket) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah

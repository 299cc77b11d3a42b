// SPDX-License-Identifier: MIT
#pragma once
// What a step tells the device: tokens, positions, sequences and pages, in one copy.
#include <array>
#include <optional>
#include <vector>

#include "kernels/attention/attention_cuda.h"
#include "model/batch_rows.h"
#include "model/cuda/decode_shape.h"

namespace cheetah {

// Owns the staging memory, reused from step to step. Two steps may be on their way at once.
class StepInputs {
 public:
  explicit StepInputs(const DevicePlace& place) : place_(place) {}

  // Checks the batch (batch_rows.h) and sends it on its way, filled up to a shape where one is given.
  void load(const ForwardBatch& batch, const ModelTraits& traits, std::span<const FedToken> fed,
      const std::optional<DecodeShape>& shape);

  int32_t* tokens() const { return tokens_; }
  const int32_t* fed() const { return fed_; }  // [rows]: which of the last step's samples, or -1
  const int32_t* positions() const { return attention_.positions; }
  // [rows]: whether a row's sequence outgrew the first frequencies. None where a model has only those.
  const int32_t* uses_long_rope() const { return uses_long_; }
  // Those with logits, then those with hidden states.
  const int32_t* wanted_rows() const { return wanted_rows_; }
  int64_t num_logits() const { return num_logits_; }
  int64_t num_hidden() const { return num_hidden_; }
  bool wants_all_rows() const { return host_rows_.wants_all; }
  // With the pages of one of the pool's groups.
  gpu::AttentionBatch attention(int64_t group) const {
    gpu::AttentionBatch batch = attention_;
    batch.sequences += group * attention_.num_sequences;
    return batch;
  }

  // How often the device's copy moved. It lies still for steps of one shape between two moves.
  int64_t moves() const { return moves_; }

 private:
  struct Staging {
    gpu::PinnedBuffer memory;
    gpu::Event sent;
  };
  void gather(const ForwardBatch& batch, std::span<const FedToken> fed);
  void fill_up(const DecodeShape& shape);
  void add_pages(std::span<const AttentionSequence> sequences);
  void send(bool has_long_rope);

  DevicePlace place_;
  BatchRows host_rows_;
  std::vector<int32_t> host_tokens_, host_fed_, host_pages_;
  std::vector<gpu::SequenceEntry> host_sequences_;  // of all groups, one after another
  std::array<Staging, 2> staging_;
  size_t next_staging_ = 0;
  gpu::DeviceBuffer device_;
  int64_t moves_ = 0;
  int32_t* tokens_ = nullptr;
  const int32_t* fed_ = nullptr;
  const int32_t* uses_long_ = nullptr;
  const int32_t* wanted_rows_ = nullptr;
  int64_t num_logits_ = 0, num_hidden_ = 0;
  gpu::AttentionBatch attention_;
};

}  // namespace cheetah

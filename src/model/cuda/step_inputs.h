#pragma once
// What a step tells the device: tokens, positions, sequences and pages, in one copy.
#include <span>
#include <vector>

#include "kernels/attention/attention_cuda.h"
#include "model/model.h"

namespace cheetah {

// Owns the staging memory, reused from step to step.
class StepInputs {
 public:
  explicit StepInputs(const DevicePlace& place) : place_(place) {}

  // Neighbouring tokens that turn by the same frequencies.
  struct RopeGroup {
    int64_t begin = 0;
    int64_t count = 0;
    bool is_long = false;
  };

  // Checks the batch as the CPU's runner does and sends it on its way. Throws Error for a token outside the
  // vocabulary or a sequence longer than the model's positions.
  void load(const ForwardBatch& batch, const ModelTraits& traits);

  const int32_t* tokens() const { return tokens_; }
  const int32_t* positions() const { return attention_.positions; }
  const int32_t* wanted_rows() const {
    return wanted_rows_;
  }  // those with logits, then those with hidden states
  const gpu::AttentionBatch& attention() const { return attention_; }
  std::span<const RopeGroup> rope_groups() const { return groups_; }

 private:
  void gather(const ForwardBatch& batch, const ModelTraits& traits);
  void add_sequence(const AttentionSequence& sequence, const ModelTraits& traits);
  void send();

  DevicePlace place_;
  std::vector<int32_t> host_tokens_, host_positions_, host_row_sequence_, host_pages_, host_wanted_;
  std::vector<gpu::SequenceEntry> host_sequences_;
  std::vector<RopeGroup> groups_;
  gpu::PinnedBuffer staging_;
  gpu::DeviceBuffer device_;
  gpu::Event sent_;
  const int32_t* tokens_ = nullptr;
  const int32_t* wanted_rows_ = nullptr;
  gpu::AttentionBatch attention_;
};

}  // namespace cheetah
